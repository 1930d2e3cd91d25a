"""Free ports of 127.0.0.1, given out once and kept."""

import random
import socket
from collections.abc import Iterable

from .process import LOOPBACK

# Below the ports that systems give to outgoing connections: one of those could take a port
# between the moment it is chosen and the moment its process listens.
FIRST, LAST = 20000, 32000


class PortInUse(RuntimeError):
    """A port that was asked for by number and is taken."""


class Ports:
    """Which local port stands for which port of which pod."""

    def __init__(self, given: dict[str, int], *, kept: bool, others: Iterable[int] = ()) -> None:
        """`given`: of an earlier time, `kept` if its processes still listen there; `others`:
        promised to other Federations, whether they listen yet or not."""
        self._taken = set(others)
        self._untried = random.sample(range(FIRST, LAST), LAST - FIRST)
        self.given = {
            key: port
            for key, port in given.items()
            if kept or (port not in self._taken and is_free(port))
        }
        self._taken.update(self.given.values())

    def reserve(self, pod: str, port: int, wanted: int) -> None:
        key = f"{pod}:{port}"
        if self.given.get(key) == wanted:
            return
        if wanted in self._taken or not is_free(wanted):
            raise PortInUse(
                f"port {wanted} of {LOOPBACK} is in use; choose another or leave it out"
            )
        self._give(key, wanted)

    def port_of(self, pod: str, port: int) -> int:
        key = f"{pod}:{port}"
        if key not in self.given:
            self._give(key, self._free())
        return self.given[key]

    def _give(self, key: str, port: int) -> None:
        self.given[key] = port
        self._taken.add(port)

    def _free(self) -> int:
        while self._untried:
            port = self._untried.pop()
            if port not in self._taken and is_free(port):
                return port
        raise PortInUse(f"all ports of {LOOPBACK} from {FIRST} to {LAST} are in use")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
