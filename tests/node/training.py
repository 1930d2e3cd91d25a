"""`flwr run` as a user runs it: against a forwarded port."""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flower_operator.flower.releases import Release
from flower_operator.runs.environments import environment
from tests.cluster.federations import Namespace
from tests.harness.binaries import binary
from tests.harness.https_client import LOOPBACK
from tests.harness.ports import free_port
from tests.harness.processes import ProcessGroup
from tests.harness.waiting import BUSY_FACTOR, wait_for

Document = dict[str, Any]

REPORT_APP = Path(__file__).parents[1] / "local/apps/report"
RESULT = re.compile(r"RESULT (\{.*\})")
CONTROL_PORT = 9093
SECONDS = 120 * BUSY_FACTOR


@contextmanager
def forwarded(namespace: Namespace, service: str, port: int = CONTROL_PORT) -> Iterator[str]:
    """The address of a Service's port, by `kubectl port-forward`."""
    local = free_port()
    command = [str(binary("kubectl")), "--kubeconfig", str(namespace.cluster.kubeconfig)]
    command += ["--namespace", namespace.name, "port-forward", f"service/{service}"]
    with ProcessGroup() as group:
        forwarding = group.start("port-forward", [*command, f"{local}:{port}"])

        def listening() -> bool:
            forwarding.check_running()
            with socket.socket() as client:
                return client.connect_ex((LOOPBACK, local)) == 0

        wait_for(listening, forwarding.log_tail, timeout=20)
        yield f"{LOOPBACK}:{local}"


class App:
    """The report app in a folder of its own, and flwr of a release to run it with."""

    def __init__(self, folder: Path, release: Release) -> None:
        self.folder = folder / f"app-{release}"
        shutil.copytree(REPORT_APP, self.folder)
        self._home = folder / f"flwr-home-{release}"
        self._home.mkdir()
        self.release = release
        self._in_app = release < Release(1, 26)

    def connect(self, name: str, address: str, roots: str | None = None) -> None:
        """Say where the SuperLink is, and which CA it has, in the file that this release reads."""
        lines = f'address = "{address}"\n'
        if roots is None:
            lines += "insecure = true\n"
        else:
            file = self._home / "ca.crt"
            file.write_text(roots)
            lines += f'root-certificates = "{file}"\n'
        if self._in_app:
            own = (REPORT_APP / "pyproject.toml").read_text()
            section = f"\n[tool.flwr.federations.{name}]\n{lines}"
            (self.folder / "pyproject.toml").write_text(own + section)
        else:
            (self._home / "config.toml").write_text(f"[superlink.{name}]\n{lines}")

    @property
    def environment(self) -> dict[str, str]:
        settings = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        return os.environ | {"FLWR_HOME": str(self._home)} | settings

    def run(self, name: str, *options: str) -> str:
        """Run it to its end; returns what it printed."""
        return self._flwr("run", ".", name, "--stream", *options)

    def submit(self, name: str, *options: str) -> None:
        """Start it, and let it run on its own."""
        self._flwr("run", ".", name, *options)

    def statuses(self, name: str) -> list[str]:
        """How each run that the SuperLink knows of stands."""
        where = [".", name] if self._in_app else [name]
        runs = json.loads(self._flwr("ls", *where, "--format", "json"))["runs"]
        return [run["status"] for run in runs]

    def _flwr(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(environment(self.release) / "bin/flwr"), *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


def result_in(output: str) -> Document:
    match = RESULT.search(output)
    assert match, output
    result: Document = json.loads(match[1])
    return result


def train(
    namespace: Namespace, name: str, release: Release, folder: Path, *options: str
) -> Document:
    """What the report app printed when run on this Federation."""
    app = App(folder, release)
    secure = namespace.federation(name)["spec"].get("insecure") is False
    with forwarded(namespace, f"{name}-superlink") as address:
        app.connect("cluster", address, roots_of(namespace, name) if secure else None)
        return result_in(app.run("cluster", *options))


def roots_of(namespace: Namespace, name: str) -> str:
    path = f"/api/v1/namespaces/{namespace.name}/configmaps/{name}-ca"
    roots: str = namespace.cluster.request("GET", path)[1]["data"]["ca.crt"]
    return roots
