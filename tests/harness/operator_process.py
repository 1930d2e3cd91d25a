"""The operator as users run it: a process of its own, with a kubeconfig."""

import http.client
import json
import os
import re
import ssl
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from .https_client import LOOPBACK
from .ports import free_port
from .processes import ProcessGroup
from .waiting import wait_for

_START_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PROGRAM = (sys.executable, "-m", "flower_operator")


class OperatorProcess:
    """`flower-operator controller`, from entering a with-block until leaving it."""

    def __init__(
        self, kubeconfig: Path, *arguments: str, program: Sequence[str] = _PROGRAM
    ) -> None:
        self._kubeconfig = kubeconfig
        self._program = program
        self._arguments = arguments
        self._health_port, self._metrics_port = free_port(), free_port()

    def __enter__(self) -> Self:
        self._group = ProcessGroup()
        self._group.__enter__()
        self.started = time.monotonic()
        self._server = self._group.start(
            "operator",
            [
                # A command's environment is its own affair, so it is set in front of it.
                "env",
                f"KUBECONFIG={self._kubeconfig}",
                *self._program,
                "controller",
                f"--metrics-bind-address={LOOPBACK}:{self._metrics_port}",
                f"--health-probe-bind-address={LOOPBACK}:{self._health_port}",
                *self._arguments,
            ],
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._group.__exit__()

    def kill(self) -> None:
        """Without a chance to say goodbye."""
        self._server.process.kill()
        self._server.process.wait()

    def restart(self) -> None:
        """Start one anew that was killed, and wait until it leads."""
        self._server = self._group.crash(self._server)
        self.wait_until_leading()

    def revive(self) -> None:
        """Start it again if it has ended because its Lease ran out, as a Deployment would."""
        if self._server.process.poll() is None:
            return
        if "another replica may lead now" not in self.output():
            self._server.check_running()
        self._server = self._group.crash(self._server)

    def stop(self) -> int:
        """Ask it to end; returns its exit code."""
        self._server.stop()
        return self._server.process.returncode

    def log(self) -> list[dict[str, Any]]:
        """What it has logged, line by line."""
        lines = self._server.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def output(self) -> str:
        return self._server.log.read_text()

    @property
    def leading(self) -> bool:
        self._server.check_running()
        return any(line["message"] == "leading" for line in self.log())

    def wait_until_leading(self) -> None:
        wait_for(
            lambda: self.leading,
            lambda: f"the operator does not lead\n{self._server.log_tail()}",
            _START_SECONDS,
        )

    @property
    def ready(self) -> bool:
        self._server.check_running()
        try:
            return self.get_health("/readyz")[0] == 200
        except OSError:
            return False

    def get_health(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOOPBACK, self._health_port, timeout=5)
        return _get(connection, path, {})

    def get_metrics(self, token: str | None) -> tuple[int, str]:
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            LOOPBACK, self._metrics_port, timeout=5, context=tls
        )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return _get(connection, "/metrics", headers)

    def writes(self, token: str) -> int:
        """How many writes it has sent; renewals of its Lease (PUT) and reviews are none."""
        text = self.get_metrics(token)[1]
        found = re.findall(r'api_requests_total\{code="\d+",method="(PATCH|DELETE)"\} (\S+)', text)
        return sum(int(float(number)) for _, number in found)

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        fields = Path(f"/proc/{self._server.process.pid}/stat").read_text().rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / _TICKS

    def memory(self) -> float:
        """MiB that it has in memory."""
        status = Path(f"/proc/{self._server.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


def _get(
    connection: http.client.HTTPConnection, path: str, headers: dict[str, str]
) -> tuple[int, str]:
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
