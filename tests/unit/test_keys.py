"""Keys of SuperNodes: made for each, registered, retired for ever, in rounds."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flower_operator.flower.control import ONLINE, UNREGISTERED, Node
from flower_operator.operator.desired import desired_of
from flower_operator.operator.keys import KeyKeeper
from flower_operator.status.observation import Connected
from flower_operator.trust.decisions import LONGEST_DELAY, Step
from flower_operator.trust.keys import (
    KEY_LIFE,
    Enrolment,
    KeyPair,
    Keyring,
    changed_keyring,
    decide_keys,
    enrolment_of,
    own_enrolment,
    read_keyring,
    registrations,
    with_retired,
)
from flower_operator.trust.layout import RECORD_FILE, Files
from tests.unit.federations import document
from tests.unit.observations import federation

START = datetime(2026, 1, 1, tzinfo=UTC)
OFFLINE = "offline"


class Made:
    """Key pairs that are told apart by number, as many as are asked for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> KeyPair:
        self.count += 1
        return KeyPair(f"private {self.count}", f"public {self.count}")


class Link:
    """A SuperLink, as far as keys go: it takes none twice."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def register(self, key: str, name: str) -> None:
        assert key not in self.nodes, f"{key} was registered before"
        self.nodes[key] = Node(len(self.nodes) + 1, OFFLINE, key.encode(), name)

    def unregister(self, node_id: int) -> None:
        (key,) = (key for key, node in self.nodes.items() if node.id == node_id)
        assert self.nodes[key].status != UNREGISTERED
        self.nodes[key] = replace(self.nodes[key], status=UNREGISTERED)

    def follow(self, ring: Keyring, rolled_out: bool) -> None:
        plan = registrations((("north", ring, rolled_out),), list(self.nodes.values()))
        for key, name in plan.register:
            self.register(key, name)
        for node_id in plan.unregister:
            self.unregister(node_id)

    @property
    def enrolment(self) -> Enrolment:
        return enrolment_of(self.nodes.values())


def keyring(files: Files) -> Keyring:
    ring = read_keyring(files)
    assert ring
    return ring


def settled(
    files: Files,
    names: set[str],
    now: datetime,
    made: Made,
    enrolment: Enrolment | None = None,
    *,
    busy: bool = False,
) -> Files:
    """The keyring after every change that is due."""
    for _ in range(5):
        decision = decide_keys(files, names, now, enrolment=enrolment, busy=busy)
        if decision.step is Step.KEEP:
            return files
        files = changed_keyring(files, decision, {name: made() for name in decision.make}, now)
    raise AssertionError(f"no end: {decision}")


def test_every_supernode_has_a_key_and_one_more_changes_no_other() -> None:
    made = Made()
    two = settled({}, {"0", "1"}, START, made)
    three = settled(two, {"0", "1", "2"}, START + timedelta(days=1), made)
    assert set(keyring(two).keys) == {"0", "1"}
    assert {**keyring(three).keys, "2": ""} == {**keyring(two).keys, "2": ""}
    assert keyring(three).round == keyring(two).round
    assert [three[name] for name in "012"] == ["private 1", "private 2", "private 3"]


def test_a_supernode_that_is_gone_loses_its_key_for_ever() -> None:
    made, link = Made(), Link()
    files = settled({}, {"0", "1"}, START, made)
    link.follow(keyring(files), rolled_out=True)
    old = keyring(files).keys["1"]
    files = settled(files, {"0"}, START, made, link.enrolment)
    assert "1" not in files
    assert keyring(files).retired == (old,)
    link.follow(keyring(files), rolled_out=True)
    assert link.nodes[old].status == UNREGISTERED
    files = settled(files, {"0", "1"}, START, made, link.enrolment)
    assert keyring(files).retired == ()
    assert keyring(files).keys["1"] != old
    link.follow(keyring(files), rolled_out=True)


def test_old_keys_stay_registered_until_no_supernode_uses_them() -> None:
    made, link = Made(), Link()
    files = settled({}, {"0"}, START, made)
    link.follow(keyring(files), rolled_out=True)
    old = keyring(files)
    files = settled(files, {"0"}, START + KEY_LIFE, made, link.enrolment)
    assert keyring(files).round != old.round
    link.follow(keyring(files), rolled_out=False)
    assert link.enrolment.registered == {old.keys["0"], keyring(files).keys["0"]}
    link.follow(keyring(files), rolled_out=True)
    assert link.enrolment.registered == {keyring(files).keys["0"]}


def test_a_retired_key_is_kept_until_the_superlink_was_asked_about_it() -> None:
    """Someone may be about to register it."""
    ring = keyring(settled({}, {"0"}, START, Made()))
    files = with_retired(settled({}, {"0"}, START, Made()), ["lost"])
    before = own_enrolment((("north", ring, True),), [])
    assert settled(files, {"0"}, START, Made(), before) == files
    after = own_enrolment((("north", keyring(files), True),), [])
    assert keyring(settled(files, {"0"}, START, Made(), after)).retired == ()


def test_a_new_round_waits_for_runs_but_not_for_ever() -> None:
    files = settled({}, {"0"}, START, Made())
    due = START + KEY_LIFE
    known = Enrolment()
    waiting = decide_keys(files, {"0"}, due, enrolment=known, busy=True)
    assert (waiting.step, waiting.reason) == (Step.KEEP, "WaitingForRuns")
    assert waiting.again == due + LONGEST_DELAY
    last = due + LONGEST_DELAY
    assert decide_keys(files, {"0"}, last, enrolment=known, busy=True).anew
    hour = timedelta(hours=1)
    soon = decide_keys(files, {"0"}, due + hour, enrolment=known, busy=True, max_wait=hour)
    assert soon.anew
    assert decide_keys(files, {"0"}, due - hour).again == due


def test_a_new_round_waits_for_the_superlink_to_be_told_of() -> None:
    files = settled({}, {"0"}, START, Made())
    decision = decide_keys(files, {"0"}, START + KEY_LIFE)
    assert (decision.step, decision.reason) == (Step.KEEP, "WaitingForSuperLink")


def test_a_key_that_someone_unregistered_is_replaced() -> None:
    made, link = Made(), Link()
    files = settled({}, {"0", "1"}, START, made)
    link.follow(keyring(files), rolled_out=True)
    before = keyring(files)
    link.unregister(link.nodes[before.keys["0"]].id)
    files = settled(files, {"0", "1"}, START, made, link.enrolment)
    after = keyring(files)
    assert after.keys["0"] != before.keys["0"]
    assert after.keys["1"] == before.keys["1"]
    assert after.round == before.round
    link.follow(after, rolled_out=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda files: {**files, "0": "another"},
        lambda files: {name: text for name, text in files.items() if name != "0"},
        lambda files: {**files, RECORD_FILE: "{}"},
        lambda files: {**files, RECORD_FILE: files[RECORD_FILE].replace("round", "square")},
        lambda files: {**files, RECORD_FILE: files[RECORD_FILE].replace("public", "private")},
    ],
)
def test_a_keyring_that_someone_changed_is_made_anew(damage: Callable[[Files], Files]) -> None:
    files = damage(settled({}, {"0", "1"}, START, Made()))
    decision = decide_keys(files, {"0", "1"}, START)
    assert (decision.reason, decision.anew) == ("KeysUnreadable", True)
    now = START + timedelta(hours=1)
    pairs = {name: KeyPair(f"new {name}", f"new public {name}") for name in decision.make}
    assert keyring(changed_keyring(files, decision, pairs, now)).keys == {
        "0": "new public 0",
        "1": "new public 1",
    }


def test_keys_of_others_are_left_alone() -> None:
    link = Link()
    link.register("a stranger's", "")
    link.follow(keyring(settled({}, {"0"}, START, Made())), rolled_out=True)
    assert link.nodes["a stranger's"].status == OFFLINE


def test_who_may_start() -> None:
    link = Link()
    for key in ("away", "there", "spent"):
        link.register(key, "")
    link.nodes["there"] = replace(link.nodes["there"], status=ONLINE)
    link.unregister(link.nodes["spent"].id)
    admitted = {key for key in ("away", "there", "spent", "new") if link.enrolment.admits(key)}
    assert admitted == {"away"}


wishes = st.lists(
    st.tuples(
        st.sets(st.sampled_from("01234"), max_size=5),
        st.integers(0, 500),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(wishes)
def test_whatever_comes_no_key_is_used_twice_and_all_present_get_in(
    steps: list[tuple[set[str], int, bool, bool]],
) -> None:
    made, link, now = Made(), Link(), START
    files: Files = {}
    owners: Mapping[str, str] = {}
    for names, days, rolled_out, reachable in steps:
        now += timedelta(days=days)
        enrolment = link.enrolment if reachable and files else None
        files = settled(files, names, now, made, enrolment)
        ring = keyring(files)
        if reachable:
            link.follow(ring, rolled_out)
            assert set(ring.keys.values()) <= link.enrolment.registered
        assert set(ring.keys) == names
        assert len(set(ring.keys.values())) == len(names)
        assert not set(ring.keys.values()) & set(ring.retired)
        for name, key in ring.keys.items():
            assert owners.get(key, name) == name
        owners = {**owners, **{key: name for name, key in ring.keys.items()}}


def test_the_operator_looks_again_when_the_next_key_is_due() -> None:
    """It reads the keyring of a pool's Secret, and nothing else happens until then."""
    files = settled({}, {"0", "1"}, START, Made())
    safe = SimpleNamespace(files=lambda *_, **__: files, names=lambda _: ())
    own = federation(
        document(insecure=False, supernodeAuth={"enabled": True, "allowSubprocess": True})
    )
    outline = desired_of(own)[0].outline
    now = START + timedelta(days=1)
    keeper = KeyKeeper(cast("Any", None), cast("Any", safe), cast("Any", None), lambda: now)
    keyed = asyncio.run(keeper.care(own, outline, {}, [], Connected(), ()))
    assert keyed.recheck == (KEY_LIFE - timedelta(days=1)).total_seconds()
