"""How far a new image of ClientApps has come."""

from datetime import UTC, datetime, timedelta

import pytest

from flower_operator.api.types import Rollout
from flower_operator.fleet.observed import Work
from flower_operator.fleet.rollout import Spread, allowed_failures, spread_of
from flower_operator.status.conditions import format_time
from flower_operator.status.observation import Fault, Observation, Placed
from tests.unit.test_status import outline, summary

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLUSTERS = ["east", "north", "west"]


def work(mark: str = "new", minutes: float | None = None, refusal: str = "") -> Work:
    """`minutes`: for how long it has not been done."""
    since = "" if minutes is None else format_time(NOW - timedelta(minutes=minutes))
    return Work("c", "x", {}, refusal, mark=mark, progressing=since)


def spread(works: dict[str, Work], **rollout: str | int) -> Spread:
    return spread_of(CLUSTERS, works, "new", Rollout.model_validate(rollout), NOW)


def test_nothing_is_missing_when_all_have_the_newest_and_are_done() -> None:
    assert spread(dict.fromkeys(CLUSTERS, work())) == Spread()


@pytest.mark.parametrize("other", [work("old"), work("new", 1), None])
def test_who_has_the_old_one_or_is_not_done_is_missing(other: Work | None) -> None:
    works = dict.fromkeys(CLUSTERS, work()) | ({"west": other} if other else {})
    if not other:
        del works["west"]
    assert spread(works).missing == "SuperExecs of ClientApps are ready on 2 of 3 clusters"
    assert spread(works).fault is None


def test_where_it_has_failed_is_told_when_its_time_is_up() -> None:
    works = {"east": work("new", 9), "north": work("old"), "west": work("old")}
    assert spread(works) == Spread(spread(works).missing, None, 60.0)
    late = works | {"east": work("new", 10)}
    fault = spread(late).fault
    assert fault
    assert fault.reason == "RolloutFailed"
    assert fault.message == (
        "SuperExecs of ClientApps are ready on 0 of 3 clusters; on cluster east not within 10m, "
        "so 2 of 3 clusters keep the old ones"
    )
    assert spread(late, maxFailures=1).fault is None
    everywhere = dict.fromkeys(CLUSTERS, work("new", 10))
    fault = spread(everywhere).fault
    assert fault
    assert "keep" not in fault.message


def test_what_a_cluster_refuses_is_told_at_once() -> None:
    fault = spread({"east": work("old", refusal="quota"), "north": work()}).fault
    assert fault
    assert (fault.reason, fault.message) == ("Refused", "cluster east: quota")


@pytest.mark.parametrize(
    ("given", "clusters", "allowed"), [(0, 3, 0), (2, 3, 2), (4, 3, 0), ("25%", 3, 1), ("0%", 3, 0)]
)
def test_how_many_may_fail_is_reckoned_as_the_hub_does(
    given: int | str, clusters: int, allowed: int
) -> None:
    assert allowed_failures(Rollout(maxFailures=given), clusters) == allowed  # type: ignore[call-arg]


def test_a_rollout_that_failed_is_a_fault_and_one_under_way_is_looked_at_again() -> None:
    of = outline(pool={"name": "edge", "placement": {"name": "gpu"}})
    (pool,) = of.placed
    failed = Placed(pool, apps_fault=Fault("RolloutFailed", "on cluster east"))
    found = summary(of, Observation(placed=[failed])).status.conditions
    degraded = next(each for each in found if each.type == "Degraded")
    assert (degraded.reason, degraded.message) == ("RolloutFailed", "pool edge: on cluster east")
    under_way = Placed(pool, apps_missing="not all", recheck=60.0)
    assert summary(of, Observation(placed=[under_way])).recheck == 60.0
