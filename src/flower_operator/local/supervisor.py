"""Runs the processes of one Federation and keeps them running.

    python -m flower_operator.local.supervisor FOLDER [attached]

It compares what should run (desired.json) with what does: at the start, on SIGHUP, and
whenever a process ends. SIGTERM ends everything. `attached`, it also ends when its standard
input does, that is, with the command that started it.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..trust.keys import MISSED_SECONDS, Enrolment
from .files import make_folder, open_file, write_file
from .ports import reservations
from .process import Process
from .reasons import explain, explain_absence, explain_key
from .state import Desired, ProcessStatus, Record, Status

if TYPE_CHECKING:
    from ..control import ControlClient

SUPERLINK = "superlink"
SUPERNODE = "supernode"
GRACE_SECONDS = 10.0
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 30.0
STABLE_SECONDS = 20.0
"""A process that stayed up this long has recovered from earlier crashes."""
FAILING = 3
"""Crashes in a row after which a process counts as failing."""
TAIL_LINES = 40
TAIL_BYTES = 16 << 10
LOOK_SECONDS = 3.0
"""Between looks for why a SuperNode does not connect."""

# Ends the process groups that are left when the supervisor is gone, even by SIGKILL: its
# standard input is a pipe that only the supervisor holds.
GUARDIAN = """
trap '' TERM INT HUP
groups=
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) rest=; for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done; groups=$rest ;;
  esac
done
for g in $groups; do kill -TERM -"$g" 2>/dev/null; done
[ -z "$groups" ] || sleep 2
for g in $groups; do kill -KILL -"$g" 2>/dev/null; done
"""


class Managed:
    """One process: started, watched, started again until it is told to stop."""

    def __init__(self, spec: Process, asked: int, supervisor: "Supervisor") -> None:
        self.spec = spec
        self.asked = asked
        self.status = ProcessStatus(spec.name, "waiting")
        self._supervisor = supervisor
        self._stopping = asyncio.Event()
        self._crashes = 0
        self._log_begins = 0
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        self._stopping.set()
        await self._task

    async def _keep(self) -> None:
        if self.spec.pod != SUPERLINK:
            await self._unless_stopping(self._supervisor.superlink_listens.wait())
        while True:
            if self.spec.key and self._supervisor.registers:
                await self._unless_stopping(self._admission(self.spec.key))
            if self._stopping.is_set():
                break
            started = time.monotonic()
            status = await self._run()
            if self._stopping.is_set():
                break
            if time.monotonic() - started > STABLE_SECONDS:
                self._crashes = 0
            self._crashes += 1
            self.status.restarts += 1
            self.status.reason = explain(status, self.tail())
            self._set("failing" if self._crashes >= FAILING else "restarting")
            await self._unless_stopping(asyncio.sleep(backoff_after(self._crashes)))
        self._set("stopped")

    async def _admission(self, key: str) -> None:
        """Wait until the SuperLink, asked from now on, would let a SuperNode with this key in: one
        that it refuses ends, and on some releases hangs."""
        now = time.monotonic()
        self._supervisor.wake()
        while True:
            asked, enrolment = self._supervisor.enrolment
            if asked > now:
                away = asked - self._supervisor.left.get(key, 0.0)
                obstacle = explain_key(key, enrolment, missed=away > MISSED_SECONDS)
                if obstacle is None:
                    return
                if (self.status.state, self.status.reason) != ("waiting", obstacle):
                    self.status.reason = obstacle
                    self._set("waiting")
            await asyncio.sleep(0.1)

    async def _unless_stopping(self, work: Coroutine[Any, Any, object]) -> None:
        """Wait for `work`, or for the order to stop if that comes first."""
        tasks = {asyncio.create_task(work), asyncio.create_task(self._stopping.wait())}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    async def _run(self) -> int:
        try:
            process = await self._start()
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument, an "=" in a name
            return self._not_started(error)
        self._supervisor.guard("+", process.pid)
        self.status.pid = process.pid
        self._set("starting")
        starting = asyncio.create_task(self._until_up())
        await self._unless_stopping(process.wait())
        starting.cancel()
        if process.returncode is None:
            await self._end(process)
        self.status.pid = None
        # A SuperLink or SuperNode may leave the apps it started behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._supervisor.guard("-", process.pid)
        return await process.wait()

    async def _until_up(self) -> None:
        while self.spec.health and not await accepts(self.spec.health):
            await asyncio.sleep(0.1)
        self._set("running")

    async def _start(self) -> asyncio.subprocess.Process:
        record = self._supervisor.record
        prepare(self.spec, record.folder)
        work = make_folder(record.folder, record.folder / "work" / self.spec.pod)
        with open_file(record.folder, record.log_of(self.spec.name), "ab") as log:
            self._log_begins = log.tell()
            return await asyncio.create_subprocess_exec(
                *self.spec.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=work,
                env=environment_of(self.spec, os.environ),
                start_new_session=True,
            )

    def _not_started(self, error: Exception) -> int:
        record = self._supervisor.record
        with open_file(record.folder, record.log_of(self.spec.name), "a") as log:
            log.write(f"{error}\n")
        return 127

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def tail(self) -> list[str]:
        """The end of what it wrote since its last start."""
        with self._supervisor.record.log_of(self.spec.name).open("rb") as log:
            log.seek(max(self._log_begins, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return text.splitlines(keepends=True)[-TAIL_LINES:]

    def _set(self, state: str) -> None:
        self.status.state = state
        self._supervisor.publish()


class Supervisor:
    def __init__(self, record: Record) -> None:
        self.record = record
        self.superlink_listens = asyncio.Event()
        self.enrolment = (0.0, Enrolment())
        """When the SuperLink was asked about keys, and what it said."""
        self.left: dict[str, float] = {}
        """When SuperNodes went, by key."""
        self.registers = True
        """Whether keys are registered here: else they are good, or nobody here knows."""
        self._managed: dict[str, Managed] = {}
        self._status = Status(started=time.time())
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._looked = time.monotonic()
        self._guardian: asyncio.subprocess.Process | None = None

    async def run(self, attached: bool) -> None:
        make_folder(self.record.folder, self.record.logs)
        self._guardian = await asyncio.create_subprocess_exec(
            "sh", "-c", GUARDIAN, stdin=asyncio.subprocess.PIPE, start_new_session=True
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.wake)
        if attached:
            loop.add_reader(sys.stdin, self._input_ended)
        follower = asyncio.create_task(self._follow())
        ordered = asyncio.create_task(self._stop.wait())
        await asyncio.wait({follower, ordered}, return_when=asyncio.FIRST_COMPLETED)
        follower.cancel()
        await end(self._managed.values())
        if self._guardian.stdin:
            self._guardian.stdin.close()
        await self._guardian.wait()
        with contextlib.suppress(asyncio.CancelledError):
            await follower  # a fault of ours ends in supervisor.log

    def wake(self) -> None:
        """Look now, instead of in a while."""
        self._wake.set()

    def guard(self, sign: str, group: int) -> None:
        if self._guardian and self._guardian.stdin:
            self._guardian.stdin.write(f"{sign} {group}\n".encode())

    def publish(self) -> None:
        self._status.processes = [managed.status for managed in self._managed.values()]
        if any(status.state != "running" for status in self._status.processes):
            self._status.ready = False
        self.record.write_status(self._status)

    def _input_ended(self) -> None:
        if not os.read(sys.stdin.fileno(), 1024):
            self._stop.set()

    async def _follow(self) -> None:
        """Adopt each new desired state, and in between ask the SuperLink who is connected."""
        while True:
            digest = self.record.desired_hash()
            desired = self.record.read_desired()
            if desired is None:
                self._stop.set()
                return
            await self._adopt(desired)
            self._status.hash = digest
            self.publish()
            # Imported while the SuperLink starts, which takes longer.
            from .superlink import connect

            client = None if desired.external else connect(desired)
            try:
                await self._observe(desired, digest, client)
            finally:
                if client:
                    await client.close()

    async def _adopt(self, desired: Desired) -> None:
        reservations.share(desired.ports.values())
        self.registers = bool(desired.keyrings)
        wanted = {process.name: process for process in desired.processes}
        outdated = [
            managed
            for name, managed in self._managed.items()
            if name not in wanted
            or wanted[name].hash != managed.spec.hash
            or desired.restarts.get(name, 0) != managed.asked
        ]
        if any(managed.spec.container == SUPERLINK for managed in outdated):
            self.superlink_listens.clear()
        await end(outdated)
        for managed in outdated:
            del self._managed[managed.spec.name]
        for name, process in wanted.items():
            if name not in self._managed:
                self._managed[name] = Managed(process, desired.restarts.get(name, 0), self)
        # As they stand in the manifest, whatever was started again.
        self._managed = {name: self._managed[name] for name in wanted}

    async def _observe(self, desired: Desired, digest: str, client: "ControlClient | None") -> None:
        while self.record.desired_hash() == digest:
            self._wake.clear()
            if not self.superlink_listens.is_set() and await accepts(desired.fleet):
                self.superlink_listens.set()
            before = (self._status.ready, self._status.connected, self._status.message)
            if client is None:
                self._look_elsewhere(desired)
            elif self.superlink_listens.is_set():
                await self._ask(desired, client)
            if before != (self._status.ready, self._status.connected, self._status.message):
                self.publish()
            pause = 5.0 if self._status.ready else 0.1
            # Not asyncio.wait_for: before Python 3.12 it may swallow a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _ask(self, desired: Desired, client: "ControlClient") -> None:
        from ..control import ControlError

        status = self._status
        try:
            status.connected = await self._connected(desired, client)
            missing = status.connected < desired.supernodes
            absence = self._absence(status) if missing else reminder(desired, time.time())
            status.message = waiting(status) or absence
        except ControlError as error:
            self.learn(time.monotonic(), Enrolment())
            status.connected, status.message = None, f"the SuperLink does not answer: {error}"
        status.ready = self._all_run() and (status.connected or 0) >= desired.supernodes

    def _look_elsewhere(self, desired: Desired) -> None:
        """A SuperLink of others tells nobody here who is connected; SuperNodes tell why not."""
        status, unanswered = self._status, f"no SuperLink answers at {desired.fleet}"
        status.connected = None
        if not self.superlink_listens.is_set():
            status.message = unanswered
        else:
            status.message = "" if status.message == unanswered else self._absence(status)
        status.ready = self._all_run() and not status.message

    def _all_run(self) -> bool:
        return all(managed.status.state == "running" for managed in self._managed.values())

    async def _connected(self, desired: Desired, client: "ControlClient") -> int:
        """How many SuperNodes are there; where they have keys, these are seen to first."""
        if not desired.keyrings:
            return await client.connected()
        from .superlink import enrol

        asked = time.monotonic()
        found = await enrol(desired, client)
        self.learn(asked, found)
        return sum(process.key in found.online for process in desired.processes)

    def learn(self, asked: float, enrolment: Enrolment) -> None:
        """Remember what the SuperLink said of keys."""
        self.left |= dict.fromkeys(self.enrolment[1].online - enrolment.online, asked)
        self.enrolment = asked, enrolment

    def _absence(self, status: Status) -> str:
        """What a SuperNode that is not connected says of it; now and then, to read no logs in
        vain while all of them start."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return status.message
        self._looked = time.monotonic()
        for managed in self._managed.values():
            runs = managed.status.state == "running" and managed.spec.container == SUPERNODE
            if runs and (reason := explain_absence(managed.tail())):
                return f"{managed.spec.name}: {reason}"
        return ""


async def end(processes: Collection[Managed]) -> None:
    """SuperNodes before their SuperLink: who says good-bye leaves a key that is free at once."""
    for last in (False, True):
        parting = [each for each in processes if (each.spec.pod == SUPERLINK) is last]
        await asyncio.gather(*(each.stop() for each in parting))


def waiting(status: Status) -> str:
    """Who waits for its key, though the SuperLink may still count it."""
    found = (each for each in status.processes if each.state == "waiting" and each.reason)
    return next((f"{each.name}: {each.reason}" for each in found), "")


def reminder(desired: Desired, now: float) -> str:
    """Certificates are renewed by a command, and a Federation may run for longer than they do."""
    if desired.renewal is None or now < desired.renewal:
        return ""
    return f"its certificates are due: say `up` again to renew them, which restarts {SUPERLINK}"


def backoff_after(crashes: int) -> float:
    """At once after the first: a SuperLink that is back in time keeps its runs."""
    if crashes == 1:
        return 0.0
    return float(min(FIRST_BACKOFF * 2 ** min(crashes - 2, 10), LONGEST_BACKOFF))


def prepare(process: Process, root: Path) -> None:
    """Put in place what a kubelet would have mounted, below the Federation's folder."""
    for folder in process.folders:
        make_folder(root, Path(folder))
    for path, text in process.files.items():
        write_file(root, Path(path), text)


def environment_of(process: Process, own: Mapping[str, str]) -> dict[str, str]:
    """This environment, less what would lead a process to another Python, plus its own."""
    misleading = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONUNBUFFERED"}
    kept = {name: value for name, value in own.items() if name not in misleading}
    folder = str(Path(process.command[0]).parent)
    kept["PATH"] = os.pathsep.join([folder, kept.get("PATH", os.defpath)])
    return kept | {"PYTHONUNBUFFERED": "1"} | process.environment


async def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError:
        return False
    writer.close()
    return True


def main(folder: Path, attached: bool) -> int:
    record = Record(folder)
    os.umask(0o077)  # what Flower writes is for its owner alone too
    # From the moment the lock is held a command may send it; the file is read later anyway.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with record.hold() as held:
        if not held:
            return 1
        asyncio.run(Supervisor(record).run(attached))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "attached" in sys.argv[2:]))
