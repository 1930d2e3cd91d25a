"""The certificates and secrets of a secure Federation, in files that only their owner reads."""

import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_bytes

from ..trust.decisions import Decision, RolledOut, Step, Wanted, decide_secret
from ..trust.layout import (
    BUNDLE_FILE,
    Files,
    Part,
    Stored,
    pool_of_secret,
    pool_secret_name,
)
from ..trust.names import LOCAL
from ..trust.records import read_secret, read_state
from ..trust.steps import SECRET_BYTES, make_secret, settle
from .files import below, make_folder, write_file
from .process import Process

NAMESPACE = "this-machine"
# Whoever connects reads the bundle where it lies, so that none has an old copy of it.
OVERLAP = timedelta()


@dataclass(frozen=True)
class Trust:
    versions: dict[str, str]
    """Of each object that processes mount, by its name: another takes a restart."""
    root_certificates: Path | None
    """None where the SuperLink, whose clients need them, runs elsewhere."""
    due: float
    """When to renew the next of them, in seconds since the epoch."""
    notices: tuple[str, ...]
    """What was renewed, and why."""


def trust_folder(folder: Path) -> Path:
    return folder / "trust"


def renew_trust(
    folder: Path,
    federation: str,
    running: Iterable[Process],
    pools: Collection[str] = (),
    *,
    busy: bool = False,
    max_wait: timedelta | None = None,
    gateway: bool = False,
) -> Trust:
    """Make what is missing, renew what is due, below the Federation's folder. `busy`: a run is
    under way, for which what is due waits, no longer than `max_wait`. `gateway`: one serves the
    SuperLink's certificate, and a new one at once."""
    now = datetime.now(UTC)
    objects = {part: trust_folder(folder) / part.object_name(federation) for part in Part}
    before = Stored(
        read_files(objects[Part.AUTHORITIES]),
        read_files(objects[Part.BUNDLE]),
        read_files(objects[Part.SERVER]),
        read_files(objects[Part.SUPERNODE]),
    )
    wanted = Wanted(
        LOCAL,
        overlap=OVERLAP,
        max_wait=max_wait,
        supernode=LOCAL,
        reread_within=timedelta() if gateway else None,
    )
    started_with = replace(_rolled_out(federation, running), busy=busy)
    stored, taken, last = settle(before, wanted, federation, NAMESPACE, now, started_with)
    for _, change in taken:
        write_files(folder, objects[change.part], change.files)
    names = (Part.SUPEREXEC.object_name(federation), *_pool_secrets(federation, pools))
    secrets, decisions = _renew_secrets(folder, federation, names, now, busy=busy)
    every = (last, *decisions)
    notices = [f"{each.reason}: {each.message}" for each, _ in taken] if before.authorities else []
    waiting = dict.fromkeys(each.message for each in every if each.reason == "WaitingForRuns")
    due = min(each.again.timestamp() for each in every if each.again)
    return Trust(
        _versions(federation, stored) | secrets,
        objects[Part.BUNDLE] / BUNDLE_FILE,
        now.timestamp() if waiting else due,
        (*notices, *waiting),
    )


def renew_secrets(folder: Path, federation: str, pools: Collection[str]) -> Trust:
    """Just the secrets of the pools, for a Federation whose SuperLink runs elsewhere."""
    now, names = datetime.now(UTC), _pool_secrets(federation, pools)
    versions, decisions = _renew_secrets(folder, federation, names, now)
    due = min(each.again.timestamp() for each in decisions if each.again)
    return Trust(versions, None, due, ())


def _pool_secrets(federation: str, pools: Iterable[str]) -> list[str]:
    return [pool_secret_name(federation, pool) for pool in pools]


def _renew_secrets(
    folder: Path, federation: str, names: Collection[str], now: datetime, *, busy: bool = False
) -> tuple[dict[str, str], list[Decision]]:
    """The version of each by name; those of pools that are gone, go too."""
    versions, decisions = {}, []
    for name in names:
        files, decision = _renew_secret(folder, name, now, busy=busy)
        secret = read_secret(files)
        assert secret
        versions[name] = secret.identity
        decisions.append(decision)
    for path in trust_folder(folder).iterdir():
        if pool_of_secret(federation, path.name) and path.name not in names:
            shutil.rmtree(path)
    return versions, decisions


def _renew_secret(root: Path, name: str, now: datetime, *, busy: bool) -> tuple[Files, Decision]:
    folder = trust_folder(root) / name
    files = read_files(folder)
    decision = decide_secret(files, now, busy=busy)
    if decision.step is Step.MAKE_SECRET:
        files = make_secret(token_bytes(SECRET_BYTES), now)
        write_files(root, folder, files)
        decision = decide_secret(files, now)
    return files, decision


def _rolled_out(federation: str, running: Iterable[Process]) -> RolledOut:
    server, bundle = Part.SERVER.object_name(federation), Part.BUNDLE.object_name(federation)
    versions = [each.mounted for each in running]
    return RolledOut(
        serving=frozenset(each[server] for each in versions if server in each),
        trusting=frozenset(each[bundle] for each in versions if bundle in each),
    )


def _versions(federation: str, stored: Stored) -> dict[str, str]:
    state = read_state(stored)
    assert state.certificate
    assert state.supernode
    assert state.called
    return {
        Part.SERVER.object_name(federation): state.certificate.identity,
        Part.BUNDLE.object_name(federation): state.called.identity,
        Part.SUPERNODE.object_name(federation): state.supernode.identity,
    }


def read_files(folder: Path) -> Files:
    try:
        return {path.name: path.read_text(errors="replace") for path in sorted(folder.iterdir())}
    except FileNotFoundError:
        return {}


def write_files(root: Path, folder: Path, files: Files) -> None:
    """In place of what was in a folder below `root`. A command that is ended halfway leaves what
    its own record does not fit, and the next one makes it anew."""
    folder = make_folder(root, folder)
    for name, text in files.items():
        write_file(root, below(folder, name), text)
    for path in folder.iterdir():
        if path.name not in files:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
