"""Keys that were made on other clusters: whose each is, which are to be registered, who may start.

A private key never leaves its cluster. What that cluster tells of the public halves comes by a
way that only it can write; what it tells of itself is believed, what it tells of others is not.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..render.agent import admitted_variable
from ..trust.keys import Enrolment, Keyring, Roster

Holder = tuple[str, str]
"""A pool on a cluster."""
Record = dict[str, Holder]
"""Every public key that the SuperLink may know, and whose it is."""

MOST_KEYS = 1000
MARK_LENGTH = 8
_PUBLIC_KEY = re.compile(
    r"-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/=]{1,64}\n){1,8}-----END PUBLIC KEY-----\n"
)


@dataclass(frozen=True)
class Enrolled:
    record: Record
    roster: Roster
    """What the SuperLink is to be told."""
    claimed: tuple[Holder, ...]
    """Who told of a key that is another's."""
    current: Mapping[Holder, frozenset[str]]
    """The keys that each has now."""


NOBODY = Enrolled({}, (), (), {})


def enrol(
    record: Mapping[str, Holder],
    members: Collection[Holder],
    reports: Mapping[Holder, Collection[str]],
    enrolment: Enrolment | None,
) -> Enrolled:
    """`reports`: the public keys that each tells of; of whom nothing was heard, what is known
    stays. `enrolment`: what the SuperLink knows, None while it cannot be asked."""
    after: Record = {}
    current: dict[Holder, frozenset[str]] = {}
    claimed = []
    for holder in sorted(members):
        known = {key for key, owner in record.items() if owner == holder}
        told = set(reports[holder]) if holder in reports else known
        own = {key for key in told if record.get(key, holder) == holder and key not in after}
        if own != told:
            claimed.append(holder)
        after |= dict.fromkeys(sorted(own), holder)
        current[holder] = frozenset(own)
    retired = {key: owner for key, owner in record.items() if key not in after}
    if enrolment:
        retired = {key: owner for key, owner in retired.items() if key in enrolment.registered}
    holders = sorted({*current, *retired.values()})
    roster = tuple((_title(holder), _ring(holder, current, retired), True) for holder in holders)
    return Enrolled(after | retired, roster, tuple(claimed), current)


def admitted(keys: Collection[str], enrolment: Enrolment | None, files: int) -> dict[str, str]:
    """Of one cluster, as variables of its config: marks of those keys that are registered. A key
    is its pod's alone, so nobody else can be there with it."""
    registered = enrolment.registered if enrolment else frozenset()
    marks = sorted(mark_of(key) for key in keys if key in registered)
    return {admitted_variable(at): ",".join(marks[at::files]) for at in range(files)}


def mark_of(public: str) -> str:
    """Enough to tell the keys of one cluster apart."""
    return hashlib.sha256(public.encode()).hexdigest()[:MARK_LENGTH]


def read_report(text: str) -> list[str] | None:
    """The public keys that a cluster tells of; None if it tells nothing that makes sense."""
    try:
        told = json.loads(text)
    except ValueError:
        return None
    if not isinstance(told, dict) or len(told) > MOST_KEYS:
        return None
    keys = [each for each in told.values() if isinstance(each, str)]
    return [key for key in keys if _PUBLIC_KEY.fullmatch(key)]


def write_record(record: Mapping[str, Holder]) -> dict[str, str]:
    """As the data of a ConfigMap: a file for each pool and cluster."""
    files: dict[str, list[str]] = {}
    for key, (pool, cluster) in sorted(record.items()):
        files.setdefault(f"{pool}.{cluster}", []).append(key)
    return {name: json.dumps(keys) for name, keys in files.items()}


def read_record(files: Mapping[str, str]) -> Record:
    """The same the other way; raises ValueError."""
    found: Record = {}
    for name, text in files.items():
        pool, _, cluster = name.partition(".")  # a pool's name has no dot
        for key in json.loads(text):
            found[str(key)] = (pool, cluster)
    return found


def _title(holder: Holder) -> str:
    """No name of a pool of the hub, nor of its SuperNodes, is like that."""
    return "@".join(holder)


def _ring(
    holder: Holder, current: Mapping[Holder, Collection[str]], retired: Mapping[str, Holder]
) -> Keyring:
    keys = {mark_of(key): key for key in sorted(current.get(holder, ()))}
    gone = tuple(sorted(key for key, owner in retired.items() if owner == holder))
    return Keyring("", keys, gone)
