"""The rendered TLS command lines, with certificates in place, train on real flwr."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flower_operator.api.manifest import parse
from flower_operator.flower.releases import parse_release
from flower_operator.local.ports import Ports
from flower_operator.local.process import LOOPBACK, Process
from flower_operator.local.processes import Machine, control_address, processes
from flower_operator.local.supervisor import accepts, environment_of, prepare
from flower_operator.render import Facts, Plan, render
from flower_operator.runs.connections import with_connection
from flower_operator.runs.environments import environment
from tests.harness.waiting import wait_for
from tests.local.machine import REPORT_APP, federation

MAKE_CERTIFICATES = Path(__file__).with_name("make_certificates.py")
PODS = ("superlink", "north-0", "south-0")


@pytest.mark.parametrize("isolation", ["process", "subprocess"])
@pytest.mark.parametrize("release", ["1.25.0", "1.29.0", "1.34.0", "1.36.0", "1.37.0", "1.41.0"])
def test_training_over_tls_with_a_shared_secret(
    tmp_path: Path, release: str, isolation: str
) -> None:
    document = federation("secure", release, isolation)
    document["spec"]["insecure"] = False
    plan = render(parse(document), Facts())
    ports = Ports({}, kept=False)
    machine = Machine(tmp_path, ("host",), ports.port_of, environment)
    found = processes(plan, machine)
    put_secrets(tmp_path, release)
    fleet = ports.port_of("superlink", plan.releases.superlink_dialect.fleet.port)
    with running(found[:1], tmp_path):
        listens(f"{LOOPBACK}:{fleet}", tmp_path)
        with running(found[1:], tmp_path):
            for process in found:
                assert process.health
                listens(process.health, tmp_path)
            output = submit(plan, control_address(plan, machine), release, tmp_path)
    assert '"model": [0.5, 0.5, 0.5]' in output, output + logs(tmp_path)


def put_secrets(folder: Path, release: str) -> None:
    """The files of the Secrets and the ConfigMap that a secure pod mounts."""
    python = environment_folder(release) / "bin" / "python"
    subprocess.run([python, MAKE_CERTIFICATES, folder], check=True)
    for pod in PODS:
        volumes = folder / "volumes" / pod
        for volume, files in {
            "flower-tls": ("ca.crt", "tls.crt", "tls.key"),
            "flower-ca": ("ca.crt",),
        }.items():
            (volumes / volume).mkdir(parents=True)
            for file in files:
                shutil.copy(folder / file, volumes / volume / file)
        (volumes / "flower-superexec").mkdir()
        (volumes / "flower-superexec" / "secret").write_bytes(b"0123456789abcdef" * 2)


def environment_folder(release: str) -> Path:
    found = parse_release(release)
    assert found
    return environment(found)


@contextmanager
def running(found: list[Process], folder: Path) -> Iterator[None]:
    started = []
    try:
        for process in found:
            prepare(process)
            with (folder / f"{process.name.replace('/', '.')}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        process.command,
                        cwd=folder,
                        env=environment_of(process, os.environ),
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        yield
    finally:
        for child in started:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def listens(address: str, folder: Path) -> None:
    wait_for(
        lambda: asyncio.run(accepts(address)),
        lambda: f"nothing listens at {address}{logs(folder)}",
        timeout=60,
    )


def submit(plan: Plan, address: str, release: str, folder: Path) -> str:
    home, app = folder / "home", folder / "app"
    home.mkdir()
    shutil.copytree(REPORT_APP, app)
    connection = {"address": address, "root-certificates": str(folder / "ca.crt")}
    if plan.releases.superlink_dialect.connection_file == "pyproject.toml":
        file, keys = app / "pyproject.toml", ("tool", "flwr", "federations", "secure")
        file.write_text(with_connection(file.read_text(), keys, connection))
    else:
        text = with_connection("", ("superlink", "secure"), connection)
        (home / "config.toml").write_text(text)
    done = subprocess.run(
        [environment_folder(release) / "bin" / "flwr", "run", app, "secure", "--stream"],
        env=os.environ | {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.stdout + done.stderr


def logs(folder: Path) -> str:
    files = sorted(folder.glob("*.log"))
    return "".join(f"\n--- {file.name}\n{file.read_text()[-1000:]}" for file in files)
