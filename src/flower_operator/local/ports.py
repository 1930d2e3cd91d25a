"""Free ports of 127.0.0.1, given out once and kept."""

import socket

from .processes import LOOPBACK


class PortInUse(RuntimeError):
    """A port that was asked for by number and is taken."""


class Ports:
    """Which local port stands for which port of which pod."""

    def __init__(self, given: dict[str, int], kept: bool) -> None:
        """`given`: of an earlier time; `kept`: its processes still listen there."""
        self.given = dict(given) if kept else {k: v for k, v in given.items() if is_free(v)}

    def reserve(self, pod: str, port: int, wanted: int) -> None:
        key = f"{pod}:{port}"
        if self.given.get(key) != wanted and not is_free(wanted):
            raise PortInUse(
                f"port {wanted} of {LOOPBACK} is in use; choose another or leave it out"
            )
        self.given[key] = wanted

    def port_of(self, pod: str, port: int) -> int:
        key = f"{pod}:{port}"
        if key not in self.given:
            self.given[key] = self._free()
        return self.given[key]

    def _free(self) -> int:
        while True:
            with socket.socket() as probe:
                probe.bind((LOOPBACK, 0))
                port: int = probe.getsockname()[1]
            if port not in self.given.values():
                return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
