"""The keys of a Federation's SuperNodes, in files that only their owner reads."""

import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..trust.decisions import Step
from ..trust.keys import (
    Enrolment,
    Keyring,
    changed_keyring,
    decide_keys,
    keyring_name,
    pool_of,
    read_keyring,
    with_retired,
)
from ..trust.layout import Files
from ..trust.records import Unreadable
from .federations import LocalError
from .files import inside
from .trust import read_files, trust_folder, write_files
from .validation import NOT_A_FILE_NAME, is_file_name


@dataclass(frozen=True)
class Known:
    """What a SuperLink says."""

    enrolment: Enrolment | None = None
    """None if it was not asked, or did not answer."""
    busy: bool = False
    """A run is under way."""


@dataclass(frozen=True)
class Keys:
    rings: dict[str, Keyring]
    """By pool; also of pools that are gone, as long as keys of theirs may be registered."""
    notices: tuple[str, ...]
    """Which were made anew, and why."""


def renew_keys(
    folder: Path,
    federation: str,
    names: Mapping[str, Collection[str]],
    before: Mapping[str, Keyring],
    known: Known,
    max_wait: timedelta | None = None,
) -> Keys:
    """Make what is missing, renew what is due, retire what is not needed, below the Federation's
    folder. `names`: of each pool's SuperNodes; `before`: what was asked of the SuperLink last."""
    now = datetime.now(UTC)
    rings: dict[str, Keyring] = {}
    notices: list[str] = []
    for pool in sorted({*names, *_stored_pools(folder, federation)}):
        own = trust_folder(folder) / keyring_name(federation, pool)
        stored = read_files(own)
        files, reasons = _settled(stored, names.get(pool, ()), now, known, max_wait)
        if pool in before:
            files = with_retired(files, _registered(before[pool], known.enrolment))
        ring = read_keyring(files)
        assert ring
        if not (ring.keys or ring.retired):
            shutil.rmtree(inside(folder, own), ignore_errors=True)
            continue
        if files != stored:
            write_files(folder, own, files)
        rings[pool] = ring
        if stored or pool in before:
            notices += [f"{reason} (keys of pool {pool})" for reason in reasons]
    return Keys(rings, tuple(notices))


def take_keys(
    folder: Path, federation: str, pools: Mapping[str, int], secrets: Mapping[str, Files]
) -> Keys:
    """The keys that came with the manifest, now or before, for SuperNodes whose SuperLink runs
    elsewhere. `pools`: how many SuperNodes each has."""
    rings = {}
    for pool, count in pools.items():
        name = keyring_name(federation, pool)
        own = trust_folder(folder) / name
        if name in secrets:
            if unfit := [key for key in secrets[name] if not is_file_name(key)]:
                raise LocalError(f"Secret {name}: data: {unfit[0]!r} {NOT_A_FILE_NAME}")
            write_files(folder, own, secrets[name])
        try:
            ring = read_keyring(read_files(own))
        except Unreadable as error:
            raise LocalError(f"Secret {name}: {error}") from None
        missing = [str(each) for each in range(count) if not ring or str(each) not in ring.keys]
        if ring is None or missing:
            raise LocalError(
                f"Secret {name} has no keys for {', '.join(missing)}: it belongs into the "
                "manifest, as flower-operator join prints it"
            )
        rings[pool] = ring
    return Keys(rings, ())


def _stored_pools(folder: Path, federation: str) -> Iterator[str]:
    for path in trust_folder(folder).glob("*"):
        if pool := pool_of(federation, path.name):
            yield pool


def _settled(
    files: Files, names: Collection[str], now: datetime, known: Known, max_wait: timedelta | None
) -> tuple[Files, list[str]]:
    """The keyring after every change that is due, and why all of its keys were made anew."""
    from ..trust.certificates import make_key_pair

    reasons: list[str] = []
    while True:
        decision = decide_keys(
            files, names, now, enrolment=known.enrolment, busy=known.busy, max_wait=max_wait
        )
        if decision.step is Step.KEEP:
            return files, reasons
        pairs = {name: make_key_pair() for name in decision.make}
        files = changed_keyring(files, decision, pairs, now)
        reasons += [f"{decision.reason}: {decision.message}"] * decision.anew


def _registered(before: Keyring, enrolment: Enrolment | None) -> list[str]:
    """Keys that the SuperLink may still let in, whatever the files tell."""
    return [
        key
        for key in (*before.keys.values(), *before.retired)
        if enrolment is None or key in enrolment.registered
    ]
