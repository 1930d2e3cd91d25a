"""Federations on this machine: started, changed and ended."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import SIGHUP, SIGKILL

from ..api.types import Federation
from ..flower.releases import parse_release
from ..render import Facts, Plan, render
from .environments import environment, installed_release
from .ports import Ports
from .processes import LOOPBACK, Machine, control_address, left_out, processes
from .state import Desired, Record, Status, allocation, known, record, records

LEAST_BYTES = 200 * 1024 * 1024


class LocalError(RuntimeError):
    """What a user asked for cannot be done here; the text says why and what to do."""


@dataclass(frozen=True)
class Options:
    nodes: int = 1
    release: str | None = None
    environment: Path | None = None
    port: int | None = None


@dataclass(frozen=True)
class Started:
    record: Record
    notices: tuple[str, ...]
    supervisor: subprocess.Popen[bytes] | None
    """None for an update of what runs already."""


def start(
    federation: Federation, options: Options, *, attached: bool, tell: Callable[[str], None]
) -> Started:
    """Start a Federation, or change it to this if it runs; `tell` hears what takes long."""
    plan = render(_with_release(federation, options), Facts())
    own = record(federation.name)
    _refuse_missing_gpus(federation)
    _refuse_full_disk(own.folder)
    _install(plan, options, tell)
    with allocation():
        own.write_desired(_desired(federation.name, plan, own, options))
    notices = plan.notices + tuple(
        f"container {name} is not one of Flower's and does not run here" for name in left_out(plan)
    )
    if own.is_running():
        own.signal(SIGHUP)
        return Started(own, notices, None)
    (own.folder / "status.json").unlink(missing_ok=True)
    return Started(own, notices, _spawn(own, attached))


def wait_until_ready(
    started: Started, timeout: float, show: Callable[[Status | None], None]
) -> Status:
    """The status once every SuperNode is connected. Raises LocalError if it cannot be."""
    own = started.record
    wanted = own.desired_hash()
    deadline = time.monotonic() + timeout
    while True:
        status = own.read_status()
        show(status)
        if status and status.hash == wanted:
            if status.ready:
                return status
            if failing := [each for each in status.processes if each.state == "failing"]:
                raise LocalError(describe_failure(own, failing[0].name, failing[0].reason))
        if started.supervisor and started.supervisor.poll() is not None:
            raise LocalError(f"the supervisor ended: look at {own.folder / 'supervisor.log'}")
        if time.monotonic() > deadline:
            raise LocalError(_unfinished(own, status, timeout))
        time.sleep(0.05)


def describe_failure(own: Record, process: str, reason: str) -> str:
    tail = own.log_of(process).read_text(errors="replace").splitlines()[-8:]
    return "\n".join([f"{process} keeps failing: {reason}", *(f"  | {line}" for line in tail)])


def restart(own: Record, component: str) -> list[str]:
    """Restart a process, or all of a pod; the names of those restarted."""
    desired = own.read_desired()
    names = matching(desired, component) if desired else []
    if not desired or not names:
        raise LocalError(unknown_component(desired, component))
    for name in names:
        desired.restarts[name] = desired.restarts.get(name, 0) + 1
    own.write_desired(desired)
    own.signal(SIGHUP)
    return names


def matching(desired: Desired, component: str) -> list[str]:
    """The processes that a name means: one by its own, all of a pod, all of a pool."""
    return [
        process.name
        for process in desired.processes
        if component in (process.name, process.pod, process.pod.rpartition("-")[0])
    ]


def unknown_component(desired: Desired | None, component: str) -> str:
    known = ", ".join(sorted({process.pod for process in desired.processes} if desired else ()))
    return f"there is no component {component}; there are {known}"


def end(own: Record) -> None:
    if not own.stop():
        own.signal(SIGKILL)  # its guardian ends what it leaves behind
        own.stop()


def find(name: str | None) -> Record:
    """The running Federation of that name, or the only one."""
    running = records()
    if name is None and len(running) == 1:
        return running[0]
    for each in running:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in running) or "none"
    if name is None:
        raise LocalError(f"say which Federation; running: {names}")
    raise LocalError(f"no Federation {name} runs here; running: {names}")


def _install(plan: Plan, options: Options, tell: Callable[[str], None]) -> None:
    """Everything that may take minutes, before anything is promised to anyone."""
    if options.environment:
        return
    own = plan.releases
    needed = {own.superlink, own.serverapp}
    needed.update(release for pool in own.pools for release in (pool.supernode, pool.clientapp))
    for release in sorted(needed):
        environment(release, partial(tell, f"installing Flower {release}, once"))


def _desired(name: str, plan: Plan, own: Record, options: Options) -> Desired:
    before = own.read_desired()
    others = [each.read_desired() for each in known() if each.name != own.name]
    ports = Ports(
        before.ports if before else {},
        kept=own.is_running(),
        others=[port for other in others if other for port in other.ports.values()],
    )
    dialect = plan.releases.superlink_dialect
    if options.port:
        ports.reserve("superlink", dialect.control.port, options.port)
    machine = Machine(
        folder=own.folder,
        nodes=_node_names(options.nodes),
        port_of=ports.port_of,
        environment_of=lambda release: options.environment or environment(release),
    )
    found = processes(plan, machine)
    return Desired(
        name=name,
        release=str(plan.releases.superlink),
        control=control_address(plan, machine),
        fleet=f"{LOOPBACK}:{ports.port_of('superlink', dialect.fleet.port)}",
        supernodes=sum(process.container == "supernode" for process in found),
        processes=found,
        ports=ports.given,
        environment=str(machine.environment_of(plan.releases.superlink)),
        restarts=before.restarts if before else {},
    )


def _node_names(count: int) -> tuple[str, ...]:
    host = socket.gethostname().partition(".")[0].lower() or "localhost"
    return (host,) if count == 1 else tuple(f"{host}-{number}" for number in range(count))


def _with_release(federation: Federation, options: Options) -> Federation:
    version = options.release
    if options.environment:
        found = installed_release(options.environment)
        asked = parse_release(version) if version else None
        if asked and asked.line != found.line:
            raise LocalError(f"{options.environment} has Flower {found}, not {version}")
        version = str(found)
    if version is None:
        return federation
    return federation.model_copy(
        update={"spec": federation.spec.model_copy(update={"version": version})}
    )


def _refuse_missing_gpus(federation: Federation) -> None:
    devices = {"nvidia": Path("/dev/nvidiactl"), "amd": Path("/dev/kfd")}
    for pool in federation.spec.supernodes.pools:
        vendor = pool.gpu.vendor or "nvidia"
        if (pool.gpu.enabled or pool.gpu.mount_all) and not devices[vendor].exists():
            raise LocalError(
                f"pool {pool.name} asks for {vendor} GPUs and this machine has none; "
                "set gpu.enabled: false to run it here"
            )


def _refuse_full_disk(folder: Path) -> None:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if shutil.disk_usage(existing).free < LEAST_BYTES:
        raise LocalError(f"{existing} has less than {LEAST_BYTES >> 20} MiB free")


def _spawn(own: Record, attached: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "flower_operator.local.supervisor", str(own.folder)]
    with (own.folder / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            command + ["attached"] * attached,
            stdin=subprocess.PIPE if attached else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _unfinished(own: Record, status: Status | None, timeout: float) -> str:
    desired = own.read_desired()
    connected = (status and status.connected) or 0
    wanted = desired.supernodes if desired else 0
    said = f"; {status.message}" if status and status.message else ""
    return f"{connected} of {wanted} SuperNodes connected within {timeout:.0f} s{said}"
