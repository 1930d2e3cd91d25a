"""Server processes that never outlive the process that started them."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# Reads from a pipe that only the test process holds open for writing. However that process ends,
# be it by SIGKILL, the pipe closes, the read returns, and the guardian removes the folder and
# kills its process group, itself included. Unlike PR_SET_PDEATHSIG this works on every Unix, and
# when the thread that started the servers ends before them.
_GUARDIAN_SCRIPT = 'read -r _; rm -rf -- "$1"; kill -9 0'

_GRACE_SECONDS = 5.0
_LOG_TAIL_LINES = 20


class ServerExitedError(RuntimeError):
    """A server ended although nobody asked it to."""


@dataclass(frozen=True)
class ServerProcess:
    """A running server and the file that holds what it printed."""

    name: str
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes]

    def log_tail(self) -> str:
        """Return the last lines that the server printed, under a heading."""
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return "\n".join([f"--- last lines of {self.name}:", *lines])

    def check_running(self) -> None:
        """Raise ServerExitedError if the server has ended."""
        exit_code = self.process.poll()
        if exit_code is not None:
            raise ServerExitedError(f"{self.name} exited with {exit_code}\n{self.log_tail()}")

    def stop(self) -> None:
        """Ask the server to end, and kill it if it does not do so in time."""
        self.process.terminate()
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class ProcessGroup:
    """Servers that share a process group of their own, a temporary folder, and their end."""

    folder: Path

    def __init__(self) -> None:
        self._servers: list[ServerProcess] = []

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="flower-operator-"))
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN_SCRIPT, "guardian", str(self.folder)],
            stdin=subprocess.PIPE,
            process_group=0,
        )
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # The last one started needs those before it to end in order.
            for server in reversed(self._servers):
                server.stop()
        finally:
            # Closes the pipe, upon which the guardian ends what is left.
            self._guardian.communicate()

    def start(self, name: str, command: list[str]) -> ServerProcess:
        """Start a server; what it prints goes to NAME.log in the folder, where it runs."""
        server = self._start(name, command, "wb")
        self._servers.append(server)
        return server

    def crash(self, server: ServerProcess) -> ServerProcess:
        """Kill a server, which gets no chance to end in order, and start it again."""
        server.process.kill()
        server.process.wait()
        return self.start_again(server)

    def start_again(self, server: ServerProcess) -> ServerProcess:
        """Start a server that has ended."""
        again = self._start(server.name, server.command, "ab")
        # In its old place, for those that were started after it still need it.
        self._servers[self._servers.index(server)] = again
        return again

    def _start(self, name: str, command: list[str], log_mode: str) -> ServerProcess:
        log = self.folder / f"{name}.log"
        with log.open(log_mode) as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=self._guardian.pid,
            )
        return ServerProcess(name, command, log, process)

    def log_tails(self) -> str:
        """Return the last lines of every server."""
        return "\n".join(server.log_tail() for server in self._servers)
