"""What is written on objects, and which changes become Events."""

from datetime import UTC, datetime
from typing import Any

import pytest

from flower_operator.api.types import Condition
from flower_operator.kube.applied import Owner, digest, includes, mark, marked, owned, sole_manager
from flower_operator.kube.events import LONGEST_MESSAGE, event
from flower_operator.operator.transitions import Transition, progress_only, replaced, transitions

OWNER = Owner("flwr.exalsius.ai/v1", "Federation", "fed", "uid-fed")
CHILD: dict[str, Any] = {
    "kind": "Service",
    "metadata": {"name": "fed-superlink", "labels": {"a": "b"}},
    "spec": {"ports": [{"port": 9092}]},
}


def test_a_child_names_its_owner_and_is_otherwise_the_same() -> None:
    child = owned(CHILD, OWNER)
    (reference,) = child["metadata"].pop("ownerReferences")
    assert reference == {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "name": "fed",
        "uid": "uid-fed",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert child == CHILD
    assert "ownerReferences" not in CHILD["metadata"]


def test_a_digest_tells_contents_apart_and_fits_into_a_label() -> None:
    changed = {**CHILD, "spec": {"ports": [{"port": 9093}]}}
    assert digest(CHILD) == digest({**CHILD})
    assert digest(CHILD) != digest(changed)
    assert digest(CHILD) != digest(owned(CHILD, OWNER))
    assert len(digest(CHILD)) == 16


def test_a_mark_tells_digests_and_generations_apart() -> None:
    marks = {mark(each, number) for each in ("aa", "ab") for number in (0, 1, 11)}
    assert len(marks) == 6


def test_a_mark_stands_beside_other_annotations() -> None:
    note = marked(CHILD, "applied", "aa.1")
    assert note["metadata"]["annotations"] == {"applied": "aa.1"}
    again = marked(marked(note, "other", "x"), "applied", "bb.2")
    assert again["metadata"]["annotations"] == {"applied": "bb.2", "other": "x"}
    assert note["metadata"]["annotations"] == {"applied": "aa.1"}
    assert "annotations" not in CHILD["metadata"]


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ({}, {}),
        ({"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}),
        ([{"port": 1, "nodePort": 30000}], [{"port": 1}]),
        ([{"port": 2}, {"port": 1}], [{"port": 1}]),
        ([{"port": 2}, {"port": 1}], [{"port": 1}, {"port": 2}]),
        ([{"a": [{"b": 1}, {"b": 2}]}, {"c": 3}], [{"a": [{"b": 2}]}]),
        ([1, 2], [1, 2]),
        ([], []),
        ({"a": None}, {"a": None}),
        ("text", "text"),
    ],
)
def test_what_the_server_added_is_no_difference(whole: Any, part: Any) -> None:
    assert includes(whole, part)


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ({}, {"a": 1}),
        ({"a": 2}, {"a": 1}),
        ({}, {"a": None}),
        ({"a": {"c": 1}}, {"a": {"b": 1}}),
        ({"a": "text"}, {"a": {"b": 1}}),
        ([1, 2], [1]),
        ([1], [1, 2]),
        ([2, 1], [1, 2]),
        ([], [{"port": 1}]),
        ([{"port": 1}], [{"port": 1}, {"port": 2}]),
        ([{"port": 1}, {"name": "a"}], [{"port": 1, "name": "a"}]),
        ([{"a": [1, 2]}], [{"a": [1]}]),
        ([{"port": 1}], []),
        ({"port": 1}, [{"port": 1}]),
        (None, [{"port": 1}]),
        ({"0": 1}, [1]),
        ("1", 1),
        (None, {}),
    ],
)
def test_what_is_missing_or_other_is_a_difference(whole: Any, part: Any) -> None:
    assert not includes(whole, part)


def conditions(ready: str, degraded: str = "False NoFaults") -> list[Condition]:
    """Ready and Degraded, each as status and reason; the message says which."""
    made = []
    for type_, text in (("Ready", ready), ("Degraded", degraded)):
        status, reason = text.split()
        values = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": f"{type_}: {reason}",
            "lastTransitionTime": "2026-11-15T12:00:00Z",
        }
        made.append(Condition.model_validate(values))
    return made


STARTING = conditions("False Starting")
READY = conditions("True AllReady")
CRASH = conditions("False CrashLoop", "True CrashLoop")
NO_IMAGE = conditions("False ImageNotPullable", "True ImageNotPullable")


@pytest.mark.parametrize("same", [STARTING, READY, CRASH, NO_IMAGE])
def test_no_event_where_nothing_changes(same: list[Condition]) -> None:
    assert transitions(same, same) == []


@pytest.mark.parametrize(
    ("before", "after", "reason", "message", "warning"),
    [
        ([], READY, "Ready", "Ready: AllReady", False),
        (STARTING, READY, "Ready", "Ready: AllReady", False),
        (CRASH, READY, "Ready", "Ready: AllReady", False),
        (READY, STARTING, "Starting", "Ready: Starting", False),
        ([], CRASH, "CrashLoop", "Degraded: CrashLoop", True),
        (STARTING, CRASH, "CrashLoop", "Degraded: CrashLoop", True),
        (READY, CRASH, "CrashLoop", "Degraded: CrashLoop", True),
        (CRASH, NO_IMAGE, "ImageNotPullable", "Degraded: ImageNotPullable", True),
    ],
)
def test_a_transition_is_one_event(
    before: list[Condition], after: list[Condition], reason: str, message: str, warning: bool
) -> None:
    assert transitions(before, after) == [Transition(reason, message, warning)]


@pytest.mark.parametrize(
    ("before", "after"),
    [([], STARTING), (STARTING, conditions("False Applying")), (CRASH, STARTING)],
    ids=["begins", "another step", "a fault is over but not all is ready"],
)
def test_steps_on_the_way_are_no_events(before: list[Condition], after: list[Condition]) -> None:
    assert transitions(before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "only"),
    [
        ([], STARTING, True),
        (STARTING, STARTING, True),
        (STARTING, conditions("False Applying"), True),
        (CRASH, STARTING, True),
        (STARTING, READY, False),
        (READY, STARTING, False),
        (READY, CRASH, False),
        # What is said of something ready or at fault is read: it is never put off.
        (READY, READY, False),
        (CRASH, CRASH, False),
    ],
)
def test_news_that_can_wait(before: list[Condition], after: list[Condition], only: bool) -> None:
    assert progress_only(before, after) == only


def test_an_object_made_anew_says_what_becomes_of_its_pods() -> None:
    kept = replaced("StatefulSet x", "Orphan", "updates are forbidden")
    assert kept.reason == "Replaced"
    assert not kept.warning
    for words in ("StatefulSet x", "taken over", "claims stay", "updates are forbidden"):
        assert words in kept.message
    assert "replaced" in replaced("Deployment x", "Foreground", "").message


def test_an_event_is_about_its_federation() -> None:
    now = datetime(2026, 11, 15, 12, tzinfo=UTC)
    made = event(
        OWNER, "team", "CrashLoop", "x" * 5000, warning=True, source="flower-operator", now=now
    )
    assert made["metadata"] == {"generateName": "fed.", "namespace": "team"}
    assert made["involvedObject"] == {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "name": "fed",
        "namespace": "team",
        "uid": "uid-fed",
    }
    assert made["type"] == "Warning"
    assert made["reason"] == "CrashLoop"
    assert len(made["message"]) == LONGEST_MESSAGE
    assert made["firstTimestamp"] == made["lastTimestamp"] == "2026-11-15T12:00:00Z"
    assert made["source"] == {"component": "flower-operator"}
    quiet = event(OWNER, "team", "Ready", "all", warning=False, source="x", now=now)
    assert quiet["type"] == "Normal"


def test_one_manager_takes_over_the_fields_of_all_but_the_status() -> None:
    theirs: dict[str, Any] = {"f:spec": {"f:replicas": {}, "f:template": {"f:command": {}}}}
    ours: dict[str, Any] = {"f:spec": {"f:replicas": {}, "f:selector": {}}}
    status = {"manager": "controller", "operation": "Update", "subresource": "status"}
    entries = [
        {"manager": "old", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": theirs},
        {"manager": "us", "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": ours},
        {**status, "fieldsV1": {"f:status": {}}},
    ]
    first, *others = sole_manager(entries, "us")
    assert others == entries[2:]
    assert (first["manager"], first["operation"]) == ("us", "Apply")
    assert first["fieldsV1"] == {
        "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {"f:command": {}}}
    }


def test_an_object_that_nobody_manages_has_nothing_to_take_over() -> None:
    assert sole_manager([], "us") == []
