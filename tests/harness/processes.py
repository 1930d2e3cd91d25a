"""Server processes that never outlive the process that started them."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

# Reads from a pipe that only the test process holds open for writing. However that process ends,
# be it by SIGKILL, the pipe closes, the read returns, and the whole process group is killed.
# Unlike PR_SET_PDEATHSIG this works on every Unix, and from a thread that ends early.
_GUARDIAN_SCRIPT = "read -r _; kill -9 0"

_GRACE_SECONDS = 5.0
_LOG_TAIL_LINES = 20


class ServerExitedError(RuntimeError):
    """A server ended although nobody asked it to."""


@dataclass(frozen=True)
class ServerProcess:
    """A running server and the file that holds what it printed."""

    name: str
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
    """Servers that share a process group of their own, a working folder, and their end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[ServerProcess] = []

    def __enter__(self) -> Self:
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN_SCRIPT], stdin=subprocess.PIPE, process_group=0
        )
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # The last one started needs those before it to end in order.
            for server in reversed(self._servers):
                server.stop()
        finally:
            # Closes the pipe: the guardian kills what is left, itself included.
            self._guardian.communicate()

    def start(self, name: str, command: list[str]) -> ServerProcess:
        """Start a server; what it prints goes to NAME.log in the working folder."""
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=self._guardian.pid,
            )
        server = ServerProcess(name, log, process)
        self._servers.append(server)
        return server

    def log_tails(self) -> str:
        """Return the last lines of every server."""
        return "\n".join(server.log_tail() for server in self._servers)
