"""Whoever types commands."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.binaries import binary
from tests.harness.waiting import wait_for

FEW_SECONDS = 30.0


class Person:
    """Someone at a terminal, with kubectl and the plugin on PATH and no Federation here."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        tools = [Path(sys.executable).parent, binary("kubectl").parent]
        self.environment = os.environ | {
            "PATH": os.pathsep.join([*map(str, tools), os.environ["PATH"]]),
            "KUBECONFIG": str(kubeconfig),
            "KUBECACHEDIR": str(folder / "kube-cache"),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def run(self, *command: str, status: int = 0) -> str:
        """Everything that a command prints."""
        done = subprocess.run(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stdout
        assert "flower_operator/cli" not in done.stdout, "a traceback of ours"
        return done.stdout

    def flower(self, *arguments: str, status: int = 0) -> str:
        return self.run("kubectl", "flower", *arguments, status=status)

    @contextmanager
    def background(self, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """`kubectl flower` while it goes on; what it prints is in the file."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["kubectl", "flower", *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # As in a terminal, also where these tests run with the signal ignored.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def wait_for_text(log: Path, text: str, count: int = 1) -> str:
    wait_for(
        lambda: log.read_text().count(text) >= count,
        lambda: f"{text!r} does not come {count} times in:\n{log.read_text()}",
        FEW_SECONDS,
    )
    return log.read_text()
