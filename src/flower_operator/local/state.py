"""What is known of the Federations on this machine, in the user's state folder."""

import fcntl
import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..flower.dialects import NEWEST, Dialect, dialect_of
from ..flower.releases import parse_release
from ..runs.connections import Target
from ..trust.keys import Keyring
from .files import open_file, write_file
from .process import Process


@dataclass
class Desired:
    """What should run: written by commands, read by the supervisor."""

    name: str
    release: str
    control: str
    fleet: str
    supernodes: int
    processes: list[Process]
    ports: dict[str, int]
    """Ports given out so far, by pod and port: an update keeps them."""
    environment: str
    """The virtual environment whose `flwr` submits runs."""
    restarts: dict[str, int] = field(default_factory=dict)
    """How often a restart was asked for, by process."""
    root_certificates: str | None = None
    """The file of what a client must trust; None without TLS."""
    keyrings: dict[str, Keyring] = field(default_factory=dict)
    """By pool, the keys that are to be registered and those that are not to be any more."""
    renewal: float | None = None
    """When certificates are due, in seconds since the epoch."""
    manifest: dict[str, Any] = field(default_factory=dict)
    """The Federation as it was given, for whoever joins it."""
    external: bool = False
    """Whether the SuperLink, at `fleet`, is another's: it has no Control API for us."""

    @property
    def dialect(self) -> Dialect:
        return dialect_of(parse_release(self.release) or NEWEST)

    @property
    def target(self) -> Target:
        return Target(self.name, self.control, self.dialect, self.root_certificates)


@dataclass
class ProcessStatus:
    name: str
    state: str
    pid: int | None = None
    restarts: int = 0
    reason: str = ""


@dataclass
class Status:
    """What runs: written by the supervisor, read by commands."""

    ready: bool = False
    connected: int | None = None
    message: str = ""
    hash: str = ""
    """Of the desired state that this status speaks of."""
    started: float = 0.0
    processes: list[ProcessStatus] = field(default_factory=list)


def state_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "flower-operator"


@dataclass(frozen=True)
class Record:
    """The folder of one Federation."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def log_of(self, process: str) -> Path:
        return self.logs / f"{process.replace('/', '.')}.log"

    def read_desired(self) -> Desired | None:
        content = _read(self.folder / "desired.json")
        if content is None:
            return None
        own = [Process(**each) for each in content.pop("processes")]
        rings = {
            pool: Keyring(each["round"], each["keys"], tuple(each["retired"]))
            for pool, each in content.pop("keyrings", {}).items()
        }
        return Desired(processes=own, keyrings=rings, **content)

    def write_desired(self, desired: Desired) -> None:
        self._write("desired.json", json.dumps(asdict(desired)))

    def desired_hash(self) -> str:
        try:
            return hashlib.sha256((self.folder / "desired.json").read_bytes()).hexdigest()
        except FileNotFoundError:
            return ""

    def read_status(self) -> Status | None:
        """The supervisor's last word, if it lives."""
        content = _read(self.folder / "status.json")
        if content is None or not self.is_running():
            return None
        own = [ProcessStatus(**each) for each in content.pop("processes")]
        return Status(processes=own, **content)

    def write_status(self, status: Status) -> None:
        self._write("status.json", json.dumps(asdict(status)))

    def _write(self, name: str, text: str) -> None:
        write_file(self.folder, self.folder / name, text)

    def is_running(self) -> bool:
        """Whether a supervisor holds the lock, which ends with it however it ends."""
        try:
            with (self.folder / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the lock of a supervisor; False if another one has it."""
        with open_file(self.folder, self.folder / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                self._write("pid", str(os.getpid()))
                yield True

    def supervisor(self) -> int | None:
        try:
            pid = int((self.folder / "pid").read_text() or 0)
        except FileNotFoundError:
            return None
        return pid if pid and self.is_running() else None

    def signal(self, number: signal.Signals) -> None:
        if pid := self.supervisor():
            os.kill(pid, number)

    def stop(self, timeout: float = 30.0) -> bool:
        """End the supervisor and all that it runs; False if it does not end."""
        deadline = time.monotonic() + timeout
        self.signal(signal.SIGTERM)
        while self.is_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        for name in ("desired.json", "status.json"):
            (self.folder / name).unlink(missing_ok=True)
        return True


@contextmanager
def allocation() -> Iterator[None]:
    """Keep two commands from giving out the same ports."""
    folder = state_folder()
    with open_file(folder, folder / "allocation.lock", "w") as file:
        folder.chmod(0o700)  # earlier versions let others read it
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def record(name: str) -> Record:
    return Record(state_folder() / name)


def known() -> list[Record]:
    """The Federations that this machine has ever run, by name."""
    try:
        return [Record(path) for path in sorted(state_folder().iterdir()) if path.is_dir()]
    except FileNotFoundError:
        return []


def records() -> list[Record]:
    """The Federations that run on this machine."""
    return [each for each in known() if each.is_running()]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return content
