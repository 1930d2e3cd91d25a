"""What `flower-operator up` costs over a plain script that starts the same processes."""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from flower_operator.api.manifest import parse
from flower_operator.control import ControlClient, ControlError
from flower_operator.flower.releases import NEWEST
from flower_operator.local.ports import Ports
from flower_operator.local.process import LOOPBACK
from flower_operator.local.processes import Machine, control_address, processes
from flower_operator.local.state import Record
from flower_operator.local.supervisor import accepts, environment_of, prepare
from flower_operator.render import Facts, render
from flower_operator.runs.environments import environment

REPORT_APP = Path(__file__).parents[1] / "tests/local/apps/report"
RUN = ["--run-config", "rounds=2"]
ROUNDS = 3
MANY = 50
REST_SECONDS = 30


def main() -> None:
    print(f"Flower {NEWEST}, process isolation, 4 SuperNodes; best of {ROUNDS}; seconds")
    environment(NEWEST)
    floor = [by_script() for _ in range(ROUNDS)]
    ours = [by_up() for _ in range(ROUNDS)]
    for what, column in (("until all are connected", 0), ("until a two-round run ended", 1)):
        least, best = (min(each[column] for each in runs) for runs in (floor, ours))
        added = best - least
        print(
            f"  {what:<28} script {least:5.1f}   up {best:5.1f}   "
            f"added {added:+.1f} ({added / least:+.0%})"
        )
    many()


def document(replicas: int, isolation: str) -> dict[str, object]:
    superexec = f"flwr/superexec:{NEWEST}"
    process = isolation == "process"
    pools = [
        {
            "name": name,
            "replicas": replicas // 2,
            "images": {"superexecClientApp": superexec} if process else {},
            "nodeConfig": {"partition-id": "{partition}", "num-partitions": "{partitions}"},
        }
        for name in ("north", "south")
    ]
    link = {"image": f"flwr/superlink:{NEWEST}"} | (
        {"superexecImage": superexec} if process else {}
    )
    return {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "metadata": {"name": "bench"},
        "spec": {
            "mode": "StatefulSet",
            "isolationMode": isolation,
            "superlink": link,
            "supernodes": {"image": f"flwr/supernode:{NEWEST}", "pools": pools},
        },
    }


@contextmanager
def own_state() -> Iterator[Path]:
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = before


def by_script() -> tuple[float, float]:
    """The same command lines, started one after the other by hand."""
    plan = render(parse(document(4, "process")), Facts())
    with own_state() as folder:
        ports = Ports({}, kept=False)
        machine = Machine(folder, ("host",), ports.port_of, environment)
        found = processes(plan, machine)
        address = control_address(plan, machine)
        fleet = ports.port_of("superlink", plan.releases.superlink_dialect.fleet.port)
        start = time.monotonic()
        started = []
        try:
            for process in found:
                prepare(process, machine.folder)
                started.append(
                    subprocess.Popen(
                        process.command,
                        cwd=folder,
                        env=environment_of(process, os.environ),
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                )
                if process.name == "superlink/superlink":
                    asyncio.run(until_listening(f"{LOOPBACK}:{fleet}"))
            dialect = plan.releases.superlink_dialect
            asyncio.run(until_connected(ControlClient(dialect, address), 4))
            connected = time.monotonic() - start
            home = folder / "home"
            home.mkdir()
            (home / "config.toml").write_text(
                f'[superlink.bench]\naddress = "{address}"\ninsecure = true\n'
            )
            app = folder / "app"
            shutil.copytree(REPORT_APP, app)
            subprocess.run(
                [environment(NEWEST) / "bin/flwr", "run", app, "bench", "--stream", *RUN],
                env=os.environ | {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"},
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            return connected, time.monotonic() - start
        finally:
            for child in started:
                child.terminate()
            for child in started:
                child.wait()


async def until_listening(address: str) -> None:
    while not await accepts(address):
        await asyncio.sleep(0.05)


async def until_connected(client: ControlClient, count: int) -> None:
    while True:
        try:
            if await client.connected() >= count:
                break
        except ControlError:
            pass
        await asyncio.sleep(0.1)
    await client.close()


def by_up(manifest: dict[str, object] | None = None) -> tuple[float, float]:
    with own_state() as folder:
        path = folder / "bench.yaml"
        path.write_text(yaml.safe_dump(manifest or document(4, "process")))
        start = time.monotonic()
        try:
            operator("up", "-d", str(path))
            connected = time.monotonic() - start
            operator("run", str(REPORT_APP), *RUN)
            return connected, time.monotonic() - start
        finally:
            operator("down", "--all")


def many() -> None:
    """Many SuperNodes on this machine, and what the supervisor needs at rest."""
    with own_state() as folder:
        path = folder / "bench.yaml"
        path.write_text(yaml.safe_dump(document(MANY, "subprocess")))
        start = time.monotonic()
        try:
            operator("up", "-d", "--timeout", "600", str(path))
            connected = time.monotonic() - start
            pid = Record(folder / "flower-operator" / "bench").supervisor()
            before = cpu_seconds(pid)
            time.sleep(REST_SECONDS)
            used = (cpu_seconds(pid) - before) / REST_SECONDS
            print(f"  {MANY} SuperNodes connected after {connected:.0f} s")
            print(f"  supervisor at rest: {resident(pid):.0f} MiB, {used:.1%} of a core")
        finally:
            operator("down", "--all")


def operator(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "flower_operator", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def cpu_seconds(pid: int | None) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def resident(pid: int | None) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024**2
