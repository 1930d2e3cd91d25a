"""Keys of SuperNodes on other clusters: made there, told to the hub, believed as far as they go."""

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flower_operator.api.manifest import parse
from flower_operator.fleet.addon import Route, addon_objects
from flower_operator.fleet.agent import Keys, Pod, changed, to_start
from flower_operator.fleet.keys import (
    Enrolled,
    Holder,
    Owned,
    Record,
    Report,
    admitted,
    enrol,
    key_limit,
    mark_of,
    read_record,
    read_report,
    renew,
    write_record,
)
from flower_operator.render import Facts
from flower_operator.render.releases import find_releases
from flower_operator.render.secrets import GATE, KEYS
from flower_operator.trust.certificates import make_key_pair
from flower_operator.trust.decisions import LONGEST_DELAY
from flower_operator.trust.keys import KEY_LIFE, Enrolment, KeyPair
from tests.unit.federations import Document, document

NORTH, SOUTH = ("edge", "north"), ("edge", "south")


def knows(*keys: str, online: tuple[str, ...] = ()) -> Enrolment:
    return Enrolment(frozenset(keys), frozenset(online))


def rings(found: Any) -> dict[str, tuple[set[str], set[str]]]:
    return {title: ({*ring.keys.values()}, {*ring.retired}) for title, ring, _ in found.roster}


NOW = datetime(2026, 11, 16, 12, 0, 7, tzinfo=UTC)
LONG_AGO = NOW - KEY_LIFE


def written(*, since: datetime = NOW, **owners: Holder) -> Record:
    return Record({key: Owned(holder, since) for key, holder in owners.items()})


def told(
    record: Record,
    members: list[Holder],
    reports: dict[Holder, list[str]],
    enrolment: Enrolment | None = None,
    *,
    limit: int = 2,
    now: datetime = NOW,
) -> Enrolled:
    read = {holder: Report(keys, len(keys)) for holder, keys in reports.items()}
    return enrol(record, members, read, {"edge": limit}, enrolment, now)


def test_what_a_cluster_tells_of_is_written_down_and_registered() -> None:
    found = told(Record(), [NORTH, SOUTH], {NORTH: ["a", "b"], SOUTH: ["c"]})
    assert found.record == written(a=NORTH, b=NORTH, c=SOUTH)
    assert rings(found) == {"edge@north": ({"a", "b"}, set()), "edge@south": ({"c"}, set())}
    assert found.claimed == ()


def test_a_key_that_is_told_of_no_more_is_retired_until_the_superlink_has_forgotten_it() -> None:
    record = written(a=NORTH, b=NORTH)
    found = told(record, [NORTH], {NORTH: ["b"]}, knows("a", "b"))
    assert rings(found) == {"edge@north": ({"b"}, {"a"})}
    assert found.record == record
    assert told(record, [NORTH], {NORTH: ["b"]}).record == record
    not_asked = replace(knows("b"), asked=frozenset())
    assert told(record, [NORTH], {NORTH: ["b"]}, not_asked).record == record
    assert told(record, [NORTH], {NORTH: ["b"]}, knows("b")).record == written(b=NORTH)


def test_a_cluster_that_is_silent_keeps_its_keys_and_one_that_left_loses_them() -> None:
    record = written(a=NORTH, b=SOUTH)
    found = told(record, [NORTH], {SOUTH: ["b"]}, knows("a", "b"))
    assert rings(found) == {"edge@north": ({"a"}, set()), "edge@south": (set(), {"b"})}


def test_nobody_gets_hold_of_anothers_key() -> None:
    found = told(written(a=NORTH), [NORTH, SOUTH], {NORTH: ["a"], SOUTH: ["a", "c"]})
    assert found.record == written(a=NORTH, c=SOUTH)
    assert found.claimed == (SOUTH,)
    # When who claimed it leaves, it is not unregistered.
    assert rings(told(found.record, [NORTH], {NORTH: ["a"]}, knows("a", "c"))) == {
        "edge@north": ({"a"}, set()),
        "edge@south": (set(), {"c"}),
    }


def test_a_cluster_with_an_old_key_replaces_what_it_has_and_no_other_does() -> None:
    old = written(since=LONG_AGO, a=NORTH)
    reports = {NORTH: ["a", "b"], SOUTH: ["c"]}
    enrolled = told(old, [NORTH, SOUTH], reports)
    found = renew(enrolled, reports, NOW, busy=False, max_wait=None)
    assert (found.begun, found.waiting) == ((NORTH,), ())
    assert found.record == replace(enrolled.record, rounds={NORTH: NOW})
    # It is told once, and the key that is on its way out is not counted any more.
    later = NOW + timedelta(minutes=1)
    enrolled = told(found.record, [NORTH, SOUTH], reports, now=later)
    found = renew(enrolled, reports, later, busy=False, max_wait=None)
    assert (found.record, found.begun, found.again) == (enrolled.record, (), NOW + KEY_LIFE)


def test_new_keys_wait_for_runs_and_for_a_superlink_that_can_be_told() -> None:
    enrolled = told(written(since=LONG_AGO, a=NORTH), [NORTH], {})
    for busy, after, max_wait, begins in (
        (True, timedelta(0), None, False),
        (True, LONGEST_DELAY, None, True),
        (True, timedelta(hours=1), timedelta(hours=1), True),
        (None, LONGEST_DELAY, None, False),
        (False, timedelta(0), None, True),
        (False, timedelta(seconds=-1), None, False),
    ):
        found = renew(enrolled, [NORTH], NOW + after, busy=busy, max_wait=max_wait)
        assert bool(found.begun) is begins, (busy, after)
    found = renew(enrolled, [NORTH], NOW, busy=True, max_wait=None)
    assert (found.waiting, found.again) == ((NORTH,), NOW + LONGEST_DELAY)
    # One that is lost would hear of it at a time that nobody chose.
    assert not renew(enrolled, [], NOW, busy=False, max_wait=None).begun


def test_only_registered_keys_are_admitted_in_parts_that_fit_a_variable() -> None:
    keys = [f"key-{number}" for number in range(150)]
    found = admitted(keys, knows(*keys[:120]), 2)
    assert all(len(text) <= 1024 for text in found.values())
    marks = {mark for text in found.values() for mark in text.split(",")}
    assert marks == {mark_of(key) for key in keys[:120]}
    assert admitted(keys, None, 1) == {"ADMITTED": ""}


@pytest.mark.parametrize("text", ["", "[]", '"x"', "{", "[" * 9000, "x" * 1_000_000])
def test_nonsense_is_no_report(text: str) -> None:
    assert read_report(text, 10) is None


def test_of_a_report_only_public_keys_count() -> None:
    public = make_key_pair().public
    hostile = {"a": public, "b": 7, "c": "key", "d": public + "\n" * 999, "e": None}
    assert read_report(json.dumps(hostile), 10) == Report([public], 1)


def test_a_report_that_is_too_long_is_counted_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({str(at): make_key_pair().public for at in range(100)})
    assert read_report(text, 100) == Report([*json.loads(text).values()], 100)
    monkeypatch.setattr("flower_operator.fleet.keys.json.loads", lambda _: pytest.fail("read"))
    assert read_report(text, 2) == Report((), 100)


@pytest.mark.parametrize("keys", [["b", "c", "d"], []])
def test_of_too_many_keys_none_is_registered_that_was_not_before(keys: list[str]) -> None:
    """The SuperNodes that are known go on; of the others nobody knows which are real."""
    record, holder = written(a=NORTH), [NORTH, SOUTH]
    report = Report(["a", *keys] if keys else (), 1000)
    found = enrol(record, holder, {NORTH: report}, {"edge": 2}, knows("a"), NOW)
    assert rings(found) == {"edge@north": ({"a"}, set()), "edge@south": (set(), set())}
    assert found.excess == {NORTH: 1000}
    assert found.record == record


def test_a_known_key_that_is_not_among_too_many_is_retired() -> None:
    found = told(written(a=NORTH, z=NORTH), [NORTH], {NORTH: ["a", "b", "c"]}, knows("a", "z"))
    assert rings(found) == {"edge@north": ({"a"}, {"z"})}


def test_a_pool_that_shrinks_keeps_its_keys_until_its_supernodes_have_ended() -> None:
    record = written(a=NORTH, b=NORTH, c=NORTH)
    found = told(record, [NORTH], {NORTH: ["a", "b", "c"]}, knows("a", "b", "c"), limit=1)
    assert (found.record, found.excess) == (record, {})
    found = told(record, [NORTH], {NORTH: ["a", "b", "c", "d"]}, knows("a", "b", "c"), limit=1)
    assert (found.record, found.excess) == (record, {NORTH: 4})


def test_a_pool_of_nodes_has_a_limit_too() -> None:
    assert (key_limit(3), key_limit(0)) == (3, 500)


def test_the_record_can_be_read_again() -> None:
    record = written(a=NORTH, b=("edge", "with.dots"), c=NORTH)
    record = replace(record, rounds={NORTH: NOW, SOUTH: LONG_AGO})
    assert read_record(write_record(record)) == record
    for text in ("[]", "{", '{"keys": {"a": "yesterday"}, "round": null}'):
        with pytest.raises(ValueError, match=r"edge\.north"):
            read_record({"edge.north": text})


def pod(uid: str, *, held: bool = True) -> Pod:
    return Pod(f"pod-{uid}", uid, (GATE,) if held else ())


def test_each_pod_gets_a_key_of_its_own_which_goes_with_it() -> None:
    numbers = itertools.count(1)

    def pair() -> KeyPair:
        number = next(numbers)
        return KeyPair(f"private-{number}", f"public-{number}")

    first = changed(Keys(), [pod("a"), pod("b")], pair)
    assert (first.private, first.public) == (
        {"a": "private-1", "b": "private-2"},
        {"a": "public-1", "b": "public-2"},
    )
    assert changed(first, [pod("a", held=False), pod("b")], pair) == first
    second = changed(first, [pod("b", held=False), pod("c")], pair)
    assert second.public == {"b": "public-2", "c": "public-3"}


def test_a_pod_may_start_when_the_hub_says_that_its_key_is_known() -> None:
    public = {"a": "one", "b": "two", "c": "three"}
    pods = [pod("a"), pod("b"), pod("c", held=False), pod("d")]
    marks = [mark_of("one"), mark_of("three")]
    assert [each.uid for each in to_start(pods, public, marks)] == ["a"]


def test_a_pool_with_keys_comes_with_its_agent_and_no_key() -> None:
    security: Document = {
        "insecure": False,
        "supernodeAuth": {"enabled": True, "allowSubprocess": True},
    }
    pool = {"name": "edge", "placement": {"name": "all"}}
    federation = parse(document(pool=pool, **security))
    objects = addon_objects(
        federation, 0, Facts(namespace="team"), find_releases(federation), Route("hub", 1), "CA"
    )
    spec = objects[0]["spec"]["agentSpec"]
    manifests = {
        (each["kind"], each["metadata"]["name"]): each for each in spec["workload"]["manifests"]
    }
    supernode = manifests["StatefulSet", "fed-supernode-edge"]["spec"]["template"]["spec"]
    assert supernode["schedulingGates"] == [{"name": GATE}]
    mounts = {each["mountPath"]: each for each in supernode["containers"][0]["volumeMounts"]}
    assert mounts["/etc/flower/key"]["subPathExpr"] == "$(FLOWER_POD_UID)"
    template = manifests["StatefulSet", "fed-supernode-edge"]["spec"]["template"]
    assert template["metadata"]["annotations"][KEYS] == "{{KEYS_ROUND}}"  # another, other pods
    assert manifests["ConfigMap", "fed-supernode-edge-admitted"]["data"] == {"0": "{{ADMITTED}}"}
    agent = manifests["Deployment", "fed-keys-edge"]["spec"]["template"]["spec"]["containers"][0]
    assert agent["args"][0] == "agent"
    assert not any(kind == "Secret" for kind, _ in manifests)
    (report,) = (
        each
        for each in spec["manifestConfigs"]
        if each["resourceIdentifier"]["resource"] == "configmaps"
    )
    assert report["updateStrategy"] == {"type": "CreateOnly"}
