"""Keys that were made on other clusters: whose each is, which are to be registered, who may start.

A private key never leaves its cluster. What that cluster tells of the public halves comes by a
way that only it can write; what it tells of itself is believed, what it tells of others is not.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

import msgspec

from ..render.agent import FILES_OF_NODES, MARKS_A_VARIABLE, admitted_variable
from ..trust.keys import Enrolment, Keyring, Roster, term_of
from ..trust.records import time_text, whole_second

Holder = tuple[str, str]
"""A pool on a cluster."""

_Time = Annotated[datetime, msgspec.Meta(tz=True)]

MOST_KEYS_OF_NODES = MARKS_A_VARIABLE * FILES_OF_NODES
"""In a pool with a SuperNode on each node: of so many the hub can say that they are admitted."""
REPORT_CHARACTERS = 1024
"""Of a report, for each key that it may have: the name of its pod, and the key."""
MARK_LENGTH = 8
_BEGIN = "-----BEGIN PUBLIC KEY-----"
_PUBLIC_KEY = re.compile(_BEGIN + r"\n([A-Za-z0-9+/=]{1,64}\n){1,8}-----END PUBLIC KEY-----\n")


class Report(NamedTuple):
    """What a cluster tells of keys."""

    keys: Collection[str]
    reported: int
    """How many it tells of; `keys` is empty if the report is too long to be read."""


class Owned(NamedTuple):
    holder: Holder
    since: datetime
    """When it was first told of."""


@dataclass(frozen=True)
class Record:
    """What is written down of keys."""

    keys: Mapping[str, Owned] = field(default_factory=dict)
    """Every public key that the SuperLink may know, and whose it is."""
    rounds: Mapping[Holder, datetime] = field(default_factory=dict)
    """When a cluster was last told to replace those that it then had."""


@dataclass(frozen=True)
class Enrolled:
    record: Record
    roster: Roster
    """What the SuperLink is to be told."""
    claimed: tuple[Holder, ...]
    """Who told of a key that is another's."""
    excess: Mapping[Holder, int]
    """Who told of more keys than SuperNodes may run there, and of how many."""
    current: Mapping[Holder, frozenset[str]]
    """The keys that each has now."""


@dataclass(frozen=True)
class Renewal:
    """Whose keys are to be replaced."""

    record: Record
    begun: tuple[Holder, ...] = ()
    """Now."""
    waiting: tuple[Holder, ...] = ()
    """When no run is under way."""
    again: datetime | None = None
    """When it may be otherwise by the clock alone."""


NOBODY = Enrolled(Record(), (), (), {}, {})


def enrol(
    record: Record,
    members: Collection[Holder],
    reports: Mapping[Holder, Report],
    limits: Mapping[str, int],
    enrolment: Enrolment | None,
    now: datetime,
) -> Enrolled:
    """Of whom nothing was heard, what is known stays. `limits`: how many SuperNodes of each pool
    one cluster may run. `enrolment`: what the SuperLink knows, None while it cannot be asked."""
    after: dict[str, Owned] = {}
    current: dict[Holder, frozenset[str]] = {}
    claimed, excess = [], dict[Holder, int]()
    for holder in sorted(members):
        known = {key for key, owned in record.keys.items() if owned.holder == holder}
        told = known
        if report := reports.get(holder):
            told = {*report.keys}
            if _exceeds(report, known, limits[holder[0]]):
                excess[holder] = report.reported
                told = told & known if told else known
        others = {key for key in told if key in after or key in record.keys} - known
        if others:
            claimed.append(holder)
        own = frozenset(told - others)
        new = Owned(holder, whole_second(now))
        after |= {key: record.keys.get(key, new) for key in sorted(own)}
        current[holder] = own
    retired = {key: owned for key, owned in record.keys.items() if key not in after}
    if enrolment:
        retired = {key: owned for key, owned in retired.items() if not enrolment.lacks(key)}
    holders = sorted({*current, *(owned.holder for owned in retired.values())})
    roster = tuple((_title(holder), _ring(holder, current, retired), True) for holder in holders)
    rounds = {holder: each for holder, each in record.rounds.items() if holder in current}
    return Enrolled(Record(after | retired, rounds), roster, tuple(claimed), excess, current)


def _exceeds(report: Report, known: Collection[str], limit: int) -> bool:
    """SuperNodes that are to end still have their keys: many that are all known are no excess."""
    return report.reported > limit and not (report.keys and {*report.keys} <= {*known})


def renew(
    enrolled: Enrolled,
    heard: Collection[Holder],
    now: datetime,
    *,
    busy: bool | None,
    max_wait: timedelta | None,
) -> Renewal:
    """A cluster whose oldest key is due is told to replace what it has: the others keep theirs.
    `heard`: those that can be told; `busy`: None while the SuperLink, which has to know new keys,
    cannot be asked."""
    record, begun, waiting, turns = enrolled.record, [], [], []
    for holder in sorted(heard):
        made = [record.keys[key].since for key in enrolled.current.get(holder, ())]
        if last := record.rounds.get(holder):  # what there was before is on its way out
            made = [each for each in made if each >= last]
        if not made:
            continue
        term = term_of(min(made), max_wait)
        if busy is not None and term.over(now, busy=busy):
            begun.append(holder)
        elif now >= term.due:
            waiting.append(holder)
        turns += [each for each in (term.due, term.latest) if each > now]
    rounds = {**record.rounds, **dict.fromkeys(begun, whole_second(now))}
    return Renewal(
        replace(record, rounds=rounds), tuple(begun), tuple(waiting), min(turns, default=None)
    )


def admitted(keys: Collection[str], enrolment: Enrolment | None, files: int) -> dict[str, str]:
    """Of one cluster, as variables of its config: marks of those keys that are registered. A key
    is its pod's alone, so nobody else can be there with it."""
    registered = enrolment.registered if enrolment else frozenset()
    marks = sorted(mark_of(key) for key in keys if key in registered)
    return {admitted_variable(at): ",".join(marks[at::files]) for at in range(files)}


def mark_of(public: str) -> str:
    """Enough to tell the keys of one cluster apart."""
    return hashlib.sha256(public.encode()).hexdigest()[:MARK_LENGTH]


def key_limit(size: int) -> int:
    """How many SuperNodes of a pool one cluster may run; `size` 0: one on each node."""
    return size or MOST_KEYS_OF_NODES


def read_report(text: str, limit: int) -> Report | None:
    """The public keys that a cluster tells of; None if it tells nothing that makes sense. A text
    that is too long for `limit` keys is not parsed."""
    if len(text) > REPORT_CHARACTERS * (limit + 1):
        count = text.count(_BEGIN)
        return Report((), count) if count > limit else None
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    texts = (each for each in told.values() if isinstance(each, str))
    keys = [key for key in texts if _PUBLIC_KEY.fullmatch(key)]
    return Report(keys, len(keys))


def write_record(record: Record) -> dict[str, str]:
    """As the data of a ConfigMap: a file for each pool and cluster."""
    files: dict[Holder, dict[str, str]] = {holder: {} for holder in record.rounds}
    for key, owned in sorted(record.keys.items()):
        files.setdefault(owned.holder, {})[key] = time_text(owned.since)
    return {
        f"{holder[0]}.{holder[1]}": json.dumps(
            {"round": round_of(record, holder) or None, "keys": keys}
        )
        for holder, keys in files.items()
    }


def read_record(files: Mapping[str, str]) -> Record:
    """The same the other way; raises ValueError."""
    keys: dict[str, Owned] = {}
    rounds: dict[Holder, datetime] = {}
    for name, text in files.items():
        pool, _, cluster = name.partition(".")  # a pool's name has no dot
        try:
            entry = msgspec.json.decode(text, type=_Entry)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{name}: {error}") from None
        keys |= {key: Owned((pool, cluster), since) for key, since in entry.keys.items()}
        if entry.round:
            rounds[pool, cluster] = entry.round
    return Record(keys, rounds)


def round_of(record: Record, holder: Holder) -> str:
    """A text that changes when its SuperNodes are to be replaced."""
    last = record.rounds.get(holder)
    return time_text(last) if last else ""


class _Entry(msgspec.Struct):
    keys: dict[str, _Time]
    round: _Time | None


def _title(holder: Holder) -> str:
    """No name of a pool of the hub, nor of its SuperNodes, is like that."""
    return "@".join(holder)


def _ring(
    holder: Holder, current: Mapping[Holder, Collection[str]], retired: Mapping[str, Owned]
) -> Keyring:
    keys = {mark_of(key): key for key in sorted(current.get(holder, ()))}
    gone = tuple(sorted(key for key, owned in retired.items() if owned.holder == holder))
    return Keyring("", keys, gone)
