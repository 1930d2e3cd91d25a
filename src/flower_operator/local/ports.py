"""Ports of 127.0.0.1: chosen at random, reserved against every other process of this machine."""

import errno
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from .files import open_file
from .process import LOOPBACK
from .state import state_folder

# Below the ports that systems give to outgoing connections: one of those could take a port
# between the moment it is chosen and the moment its process listens.
FIRST, LAST = 20000, 32000


class PortInUse(RuntimeError):
    """A port that was asked for by number and is taken."""


class PortReservations:
    """Reserves ports between processes, whichever user or state folder they have.

    Port P is byte P of one file that all users share. A process that chooses P needs an exclusive
    lock on its byte, which it then turns into a shared one; the supervisor takes a shared lock too
    before the command that chose P ends. The kernel releases the locks of a process that ends.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._reserved: set[int] = set()

    def reserve(self, port: int) -> bool:
        """Reserve a port until this process ends; False if anyone, also this process, has it."""
        # Locks do not keep a process out that holds them itself.
        if port in self._reserved or not self._lock(port, fcntl.LOCK_EX):
            return False
        self._lock(port, fcntl.LOCK_SH)
        self._reserved.add(port)
        return True

    def share(self, ports: Iterable[int]) -> None:
        """Keep ports reserved that another process has reserved for this one."""
        for port in ports:
            if port not in self._reserved and self._lock(port, fcntl.LOCK_SH):
                self._reserved.add(port)

    def _lock(self, port: int, kind: int) -> bool:
        if self._file is None:
            self._file = _lock_file()
        try:
            fcntl.lockf(self._file, kind | fcntl.LOCK_NB, 1, port)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True


def _lock_file() -> int:
    """Open the file that is locked; nothing is ever written to it."""
    try:
        return _open_for_everyone(Path(tempfile.gettempdir(), "flower-operator-ports"))
    except OSError:  # no place that users share: each reserves among their own processes
        with open_file(state_folder(), state_folder() / "ports.lock", "a+") as file:
            return os.dup(file.fileno())


def _open_for_everyone(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    os.fchmod(file, 0o666)  # whatever the umask is
    return file


reservations = PortReservations()


class Ports:
    """Which local port stands for which port of which pod."""

    def __init__(
        self,
        given: dict[str, int],
        *,
        kept: bool,
        reserve: Callable[[int], bool] = reservations.reserve,
    ) -> None:
        """`given`: of an earlier time, `kept` if its processes still listen there."""
        self._reserve = reserve
        self._untried = random.sample(range(FIRST, LAST), LAST - FIRST)
        self.given = {
            key: port for key, port in given.items() if kept or (is_free(port) and reserve(port))
        }

    def reserve(self, pod: str, port: int, wanted: int) -> None:
        key = f"{pod}:{port}"
        if self.given.get(key) == wanted:
            return
        if not is_free(wanted) or not self._reserve(wanted):
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
        while self._untried:
            port = self._untried.pop()
            if is_free(port) and self._reserve(port):
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
