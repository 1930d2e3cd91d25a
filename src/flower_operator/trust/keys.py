"""The keys that a SuperLink knows SuperNodes by: one for each, registered, in the end retired.

A pool's keys lie in one object, its keyring: a file for each SuperNode with the private half,
and a record with the public ones. A SuperNode reads its key when it starts, so a new *round* of
keys takes a restart of the whole pool; one more SuperNode takes none.

Flower takes no key twice: once it was unregistered, it is spent. And it lets no second SuperNode in
with a key whose owner it believes to be there, be that one long dead.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ..api.rules import pool_name
from ..flower.control import UNREGISTERED, Node
from .decisions import LONGEST_DELAY, Decision, Step
from .layout import RECORD_FILE, Files
from .records import (
    Unreadable,
    digest,
    json_text,
    read_record,
    read_time,
    read_word,
    time_text,
)

KEY_LIFE = timedelta(days=365)
MISSED_SECONDS = 5.0
"""A ServerApp looks every three seconds whether a SuperNode that owes it an answer is there. One
that is back sooner, under the same key, is waited for in vain: it knows of no debt."""
MOST_KEYS = 1000
"""In one keyring: a Secret holds a mebibyte."""


@dataclass(frozen=True)
class KeyPair:
    private: str
    """In OpenSSH's format, the one that every Flower release reads."""
    public: str
    """As PEM of a SubjectPublicKeyInfo, which is what a SuperLink registers."""


@dataclass(frozen=True)
class Keyring:
    """The keys of a pool."""

    round: str
    """When those keys were made that its SuperNodes must all have been started with."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The public key of each SuperNode."""
    retired: tuple[str, ...] = ()
    """Public keys of before, which are to be unregistered."""

    @property
    def made(self) -> datetime:
        return datetime.fromisoformat(self.round)


@dataclass(frozen=True)
class Term:
    """When keys are to be replaced."""

    due: datetime
    latest: datetime
    """Until then a run may put it off."""

    def over(self, now: datetime, *, busy: bool) -> bool:
        return now >= (self.latest if busy else self.due)


@dataclass(frozen=True)
class Enrolment:
    """What a SuperLink knows of keys."""

    registered: frozenset[str] = frozenset()
    online: frozenset[str] = frozenset()
    """Of those registered, the ones whose SuperNode is there, or was a minute ago."""
    spent: frozenset[str] = frozenset()
    asked: frozenset[str] | None = None
    """The retired keys that it was asked about; None: all."""

    def lacks(self, public: str) -> bool:
        """Whether a retired key is not registered, and will not be. A request to register it may
        be under way until the SuperLink is asked about it as a retired one."""
        return public not in self.registered and (self.asked is None or public in self.asked)

    def admits(self, public: str) -> bool:
        """Whether a SuperNode that starts now with this key is let in."""
        return public in self.registered and public not in self.online


@dataclass(frozen=True)
class KeyDecision(Decision):
    """What becomes of a keyring."""

    anew: bool = False
    """Whether a new round begins."""
    make: tuple[str, ...] = ()
    """SuperNodes that get a new key."""
    retire: tuple[str, ...] = ()
    """SuperNodes that are gone."""
    forget: tuple[str, ...] = ()
    """Retired public keys that the SuperLink knows no more."""


Roster = tuple[tuple[str, Keyring, bool], ...]
"""Each pool's name and keyring, and whether all its SuperNodes were started with its round."""


@dataclass(frozen=True)
class Registrations:
    """What to ask of a SuperLink."""

    register: tuple[tuple[str, str], ...] = ()
    """Public keys, each with the name of its SuperNode."""
    unregister: tuple[int, ...] = ()
    """Ids of SuperNodes."""


def keyring_name(federation: str, pool: str) -> str:
    return f"{pool_name(federation, pool)}-keys"


def pool_of(federation: str, keyring: str) -> str | None:
    """The pool whose keyring has that name; None if it is no keyring."""
    before, _, after = keyring_name(federation, "*").partition("*")
    if not keyring.startswith(before) or not keyring.endswith(after):
        return None
    return keyring.removeprefix(before).removesuffix(after) or None


def term_of(made: datetime, max_wait: timedelta | None) -> Term:
    limit = min(LONGEST_DELAY, max_wait) if max_wait is not None else LONGEST_DELAY
    return Term(made + KEY_LIFE, made + KEY_LIFE + limit)


def read_keyring(files: Files) -> Keyring | None:
    """The stored keyring, or None if there is none; raises Unreadable."""
    if not files:
        return None
    record = read_record(files)
    read_time(record, "round")
    entries, retired = record.get("keys"), record.get("retired")
    if not isinstance(entries, dict) or not isinstance(retired, list):
        raise Unreadable(f"{RECORD_FILE} names no keys")
    keys = {}
    for name, entry in entries.items():
        if not isinstance(entry, dict) or digest(files.get(name, "")) != entry.get("private"):
            raise Unreadable(f"the key of {name} is not what was written")
        keys[name] = read_word(entry, "public")
    return Keyring(read_word(record, "round"), keys, tuple(map(str, retired)))


def decide_keys(
    files: Files,
    names: Collection[str],
    now: datetime,
    *,
    enrolment: Enrolment | None = None,
    busy: bool = False,
    max_wait: timedelta | None = None,
) -> KeyDecision:
    """Whether a keyring is to change so that each of the SuperNodes `names` has a key that is
    good. `enrolment`: None while the SuperLink cannot be asked."""
    wanted = tuple(sorted(names))
    try:
        ring = read_keyring(files)
    except Unreadable as error:
        return _new_round("KeysUnreadable", str(error), wanted)
    if ring is None:
        return _new_round("NoKeys", "there are none yet", wanted)
    term = term_of(ring.made, max_wait)
    if enrolment and term.over(now, busy=busy):
        return _new_round("KeysDue", f"they were made on {ring.made.date()}", wanted)
    spent = enrolment.spent if enrolment else frozenset()
    missing = tuple(name for name in wanted if name not in ring.keys)
    unusable = tuple(name for name in wanted if ring.keys.get(name) in spent)
    gone = tuple(name for name in ring.keys if name not in wanted)
    forget = tuple(key for key in ring.retired if enrolment and enrolment.lacks(key))
    if missing or unusable or gone or forget:
        return KeyDecision(
            Step.CHANGE_KEYS,
            "SuperNodesDiffer",
            _difference(missing, unusable, gone) or "keys of before are unregistered",
            make=missing + unusable,
            retire=gone + unusable,
            forget=forget,
        )
    if now >= term.due and enrolment is None:
        message = "new keys wait for the SuperLink, which has to know them"
        return KeyDecision(Step.KEEP, "WaitingForSuperLink", message)
    if now >= term.due:
        message = "new keys wait until no run is under way"
        return KeyDecision(Step.KEEP, "WaitingForRuns", message, again=term.latest)
    return KeyDecision(Step.KEEP, "Valid", f"they are used until {term.due.date()}", again=term.due)


def changed_keyring(
    files: Files, decision: KeyDecision, pairs: Mapping[str, KeyPair], now: datetime
) -> Files:
    """The keyring as it was decided, with new `pairs` for the SuperNodes that get one."""
    ring, private = Keyring(time_text(now)), {}
    retired: tuple[str, ...] = ()
    try:
        before = read_keyring(files)
    except Unreadable:
        before = None
    if before:
        leaving = before.keys if decision.anew else decision.retire
        retired = before.retired + tuple(before.keys[name] for name in leaving)
        if not decision.anew:
            ring = before
            private = {name: files[name] for name in ring.keys if name not in leaving}
    private |= {name: pair.private for name, pair in pairs.items()}
    public = dict(ring.keys) | {name: pair.public for name, pair in pairs.items()}
    keep = tuple(key for key in retired if key not in decision.forget)
    return _files(
        replace(ring, keys={name: public[name] for name in private}, retired=keep), private
    )


def with_retired(files: Files, keys: Iterable[str]) -> Files:
    """The keyring with more keys to unregister: those of one that was lost."""
    ring = read_keyring(files)
    assert ring
    known = {*ring.keys.values(), *ring.retired}
    more = tuple(key for key in keys if key not in known)
    private = {name: files[name] for name in ring.keys}
    return _files(replace(ring, retired=ring.retired + more), private)


def enrolment_of(nodes: Iterable[Node]) -> Enrolment:
    """What a SuperLink's own list says of all keys."""
    known = {text: node for node in nodes if (text := _key_of(node))}
    spent = {key for key, node in known.items() if node.status == UNREGISTERED}
    return Enrolment(
        registered=frozenset(known.keys() - spent),
        online=frozenset(key for key, node in known.items() if node.online),
        spent=frozenset(spent),
    )


def registrations(roster: Roster, nodes: Collection[Node]) -> Registrations:
    """Register every key that is not; unregister those that are retired, once nobody uses them.
    Keys that are in no ring are not ours: someone else registered them."""
    known = enrolment_of(nodes)
    register: list[tuple[str, str]] = []
    retired: set[str] = set()
    for pool, ring, rolled_out in roster:
        register += [
            (key, f"{pool}-{name}")
            for name, key in sorted(ring.keys.items())
            if key not in known.registered | known.spent
        ]
        retired.update(ring.retired if rolled_out else ())
    leaving = retired & known.registered
    ids = [node.id for node in nodes if _key_of(node) in leaving]
    return Registrations(tuple(register), tuple(ids))


def own_enrolment(roster: Roster, nodes: Iterable[Node]) -> Enrolment:
    """What it says of those in the roster: a SuperLink forgets none that it ever knew."""
    retired = frozenset(key for _, ring, _ in roster for key in ring.retired)
    own = retired.union(key for _, ring, _ in roster for key in ring.keys.values())
    known = enrolment_of(nodes)
    return Enrolment(known.registered & own, known.online & own, known.spent & own, retired)


def _key_of(node: Node) -> str:
    return (node.public_key or b"").decode(errors="replace")


def _new_round(reason: str, message: str, names: tuple[str, ...]) -> KeyDecision:
    return KeyDecision(Step.CHANGE_KEYS, reason, message, anew=True, make=names)


def _difference(missing: Collection[str], unusable: Collection[str], gone: Collection[str]) -> str:
    parts = (("new", missing), ("unregistered by someone", unusable), ("gone", gone))
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in parts if names)


def _files(ring: Keyring, private: Mapping[str, str]) -> Files:
    entries = {
        name: {"public": ring.keys[name], "private": digest(text)} for name, text in private.items()
    }
    content = {"round": ring.round, "keys": entries, "retired": list(ring.retired)}
    return {**private, RECORD_FILE: json_text(content)}
