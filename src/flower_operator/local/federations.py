"""Federations that run on this machine: found, waited for, changed and ended."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from signal import SIGHUP, SIGKILL

from .state import Desired, Record, Status, records


class LocalError(RuntimeError):
    """What a user asked for cannot be done here; the text says why and what to do."""


@dataclass(frozen=True)
class Started:
    record: Record
    notices: tuple[str, ...]
    supervisor: subprocess.Popen[bytes] | None
    """None for an update of what runs already."""


def wait_until_ready(started: Started, timeout: float, show: Callable[[], None]) -> None:
    """Return once every SuperNode is connected. Raises LocalError if that cannot be."""
    own = started.record
    wanted = own.desired_hash()
    deadline = time.monotonic() + timeout
    while True:
        status = own.read_status()
        show()
        if status and status.hash == wanted:
            if status.ready:
                return
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


def restart(own: Record, component: str | None) -> list[str]:
    """Restart what a name means, or everything; the names of the processes restarted."""
    desired = own.read_desired()
    if desired is None:
        raise LocalError(f"{own.name} is ending")
    names = [each.name for each in desired.processes]
    if component is not None:
        names = matching(desired, component)
        if not names:
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


def unknown_component(desired: Desired, component: str) -> str:
    known = ", ".join(sorted({process.pod for process in desired.processes}))
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


def _unfinished(own: Record, status: Status | None, timeout: float) -> str:
    desired = own.read_desired()
    connected = (status and status.connected) or 0
    wanted = desired.supernodes if desired else 0
    said = f"; {status.message}" if status and status.message else ""
    return f"{connected} of {wanted} SuperNodes connected within {timeout:.0f} s{said}"
