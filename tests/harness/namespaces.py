"""Linux namespaces: a network of the tests' own, and a place whose end is the end of all in it."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .processes import ProcessGroup, ServerProcess
from .waiting import wait_for

_CLONE_NEWNET = 0x40000000
_OWN_NETWORK = "/proc/thread-self/ns/net"


@contextmanager
def own_network(address: str, services: str) -> Iterator[None]:
    """This thread, and what it starts, in a network of its own that leads nowhere.

    It has loopback, an address that is no loopback, and a route to the addresses of Services,
    which have to be routed somewhere before they are translated. It ends with its last process.
    """
    with Path(_OWN_NETWORK).open() as before:
        _call("unshare", _CLONE_NEWNET)
        try:
            for command in (
                "link set lo up",
                "link add node0 type bridge",
                f"address add {address}/32 dev node0",
                "link set node0 up",
                f"route add {services} dev node0",
            ):
                subprocess.run(["ip", *command.split()], check=True)
            for setting in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
                Path("/proc/sys", setting).write_text("1")
            yield
        finally:
            _call("setns", before.fileno(), _CLONE_NEWNET)


class Enclosure:
    """Processes with mounts and process numbers of their own; none outlives it.

    What they write to /run, /var/lib and /var/log is theirs, and is gone with the group's folder.
    """

    _SCRIPT = """
        mkdir -p "$1/lib" "$1/log"
        mount --bind "$1/lib" /var/lib
        mount --bind "$1/log" /var/log
        mount -t tmpfs tmpfs /run
        # The first process has to wait for those that lost their parents.
        sleep infinity & echo > "$1/enclosed"; wait
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        options = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        script = ["sh", "-ec", self._SCRIPT, "enclosure", str(group.folder)]
        self._outer = group.start("enclosure", ["unshare", *options, *script])
        marker = group.folder / "enclosed"
        wait_for(marker.exists, lambda: f"no enclosure\n{self._outer.log_tail()}", timeout=10)
        pid = self._outer.process.pid
        [self._first] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def command(self, *command: str) -> list[str]:
        """A command line that runs inside, and is killed if it is killed outside."""
        inside = ["nsenter", "--target", self._first, "--mount", "--pid"]
        return [*inside, "setpriv", "--pdeathsig", "KILL", "--", *command]

    def start(self, name: str, *command: str) -> ServerProcess:
        return self._group.start(name, self.command(*command))

    def run(self, *command: str) -> str:
        done = subprocess.run(
            self.command(*command), capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr}")
        return done.stdout

    def crash(self, server: ServerProcess) -> ServerProcess:
        """Kill a server and start it again, when what it held is free."""
        pid = server.process.pid
        inner = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        server.process.kill()
        server.process.wait()
        wait_for(
            lambda: not any(Path("/proc", each).exists() for each in inner),
            f"{server.name} does not end",
            timeout=10,
        )
        return self._group.crash(server)

    def end(self) -> None:
        self._outer.process.kill()
        self._outer.process.wait()


def _call(name: str, *arguments: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
