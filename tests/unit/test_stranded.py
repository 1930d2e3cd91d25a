"""Which SuperNodes are started again after their SuperLink has lost its memory."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from flower_operator.api.types import Condition, FederationStatus
from flower_operator.status.observed import PodForm
from flower_operator.status.stranded import find_stranded, patience_left
from tests.unit.test_status import outline

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def clock(second: int) -> str:
    return f"2026-11-15T11:{second // 60:02}:{second % 60:02}Z"


def pod(name: str, container: str, created: int, started: int | None, restarts: int = 0) -> PodForm:
    running = {"running": {"startedAt": clock(started)}} if started is not None else {}
    status: dict[str, Any] = {"name": container, "state": running, "restartCount": restarts}
    return msgspec.convert(
        {
            "metadata": {"name": name, "creationTimestamp": clock(created)},
            "status": {"containerStatuses": [status]},
        },
        type=PodForm,
    )


def node(name: str, started: int | None, restarts: int = 0) -> PodForm:
    return pod(name, "supernode", 100, started, restarts)


SECOND = pod("link", "superlink", created=1000, started=1002)
RESTARTED = pod("link", "superlink", created=100, started=1002, restarts=1)
FIRST = pod("link", "superlink", created=100, started=1002)


def found(connected: int, *pods: PodForm) -> list[str]:
    return [each.metadata.name for each in find_stranded(pods, connected, NOON).pods]


@pytest.mark.parametrize("superlink", [SECOND, RESTARTED], ids=["another pod", "another start"])
def test_a_supernode_that_runs_on_unconnected_is_started_again(superlink: PodForm) -> None:
    back, stuck = node("back", 1010, restarts=1), node("stuck", 103)
    assert found(1, superlink, back, stuck) == ["stuck"]


def test_supernodes_that_are_connected_are_left_alone() -> None:
    assert found(2, SECOND, node("one", 103), node("two", 104)) == []


def test_a_supernode_that_crashes_is_not_taken_for_one_that_waits() -> None:
    assert found(1, SECOND, node("one", 103), node("crashed", None)) == []


def test_nothing_is_started_again_while_the_first_superlink_is_waited_for() -> None:
    assert found(1, FIRST, node("one", 103), node("no way to the SuperLink", 104)) == []


def test_a_supernode_has_a_minute_to_connect() -> None:
    young, stuck = node("young", 3570), node("stuck", 103)
    told = find_stranded([SECOND, young, stuck], 1, NOON)
    assert (told.pods, told.again) == ((), 30.0)


def test_a_superlink_that_is_back_is_given_a_minute_too() -> None:
    since = Condition(
        type="SuperLinkAvailable",
        status="True",
        reason="Available",
        message="",
        last_transition_time=clock(3570),
    )
    assert patience_left(FederationStatus(conditions=[since]), NOON) == 30.0


def test_who_keeps_what_they_know() -> None:
    assert not outline().keeps_state
    assert outline(superlink={"persistence": {"size": "1Gi"}}).keeps_state
