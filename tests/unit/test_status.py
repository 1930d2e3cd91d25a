"""A Federation's status from everything that was observed of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flower_operator.api.types import Condition, FederationStatus
from flower_operator.flower.releases import NEWEST
from flower_operator.operator.desired import desired_of
from flower_operator.status.conditions import LONGEST_MESSAGE, Finding
from flower_operator.status.observation import Connected, Fault, Observation
from flower_operator.status.observed import Metadata, Mishap, Pod, Workload
from flower_operator.status.outline import Outline
from flower_operator.status.summary import Summary, refuse, summarize
from flower_operator.status.troubles import Trouble
from tests.unit.federations import document
from tests.unit.observations import federation, workload

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
SUPERLINK = ("Deployment", "fed-superlink")
POOL = ("StatefulSet", "fed-supernode-default")
DAEMONS = ("DaemonSet", "fed-supernode-default")
SECOND = ("StatefulSet", "fed-supernode-second")


def outline(*args: Any, **fields: Any) -> Outline:
    return desired_of(federation(document(*args, **fields)))[0].outline


def replicated(identity: tuple[str, str], desired: int, **different: int) -> Workload:
    """A Deployment or StatefulSet with all its pods, but for what is different."""
    keys = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
    status = {"observedGeneration": 1} | dict.fromkeys(keys, desired)
    return workload(*identity, {**status, **different}, replicas=desired)


def daemons(nodes: int, ready: int | None = None) -> Workload:
    status = {
        "observedGeneration": 1,
        "desiredNumberScheduled": nodes,
        "currentNumberScheduled": nodes,
        "updatedNumberScheduled": nodes,
        "numberReady": nodes if ready is None else ready,
    }
    return workload(*DAEMONS, status)


def healthy(**different: Any) -> Observation:
    workloads = {SUPERLINK: replicated(SUPERLINK, 1), POOL: replicated(POOL, 2)}
    return Observation(**{"workloads": workloads, **different})


def with_pool(pool: Workload | None, **different: Any) -> Observation:
    there = {SUPERLINK: replicated(SUPERLINK, 1)} | ({POOL: pool} if pool else {})
    return healthy(workloads=there, **different)


def with_superlink(superlink: Workload | None, **different: Any) -> Observation:
    there = {POOL: replicated(POOL, 2)} | ({SUPERLINK: superlink} if superlink else {})
    return healthy(workloads=there, **different)


def pod(
    *troubles: Trouble, component: str = "supernode", pool: str = "default", ended: bool = False
) -> Pod:
    return Pod(
        namespace="team",
        federation="fed",
        pool=pool if component == "supernode" else "",
        component=component,
        name=f"fed-{component}-0",
        ended=ended,
        troubles=troubles,
    )


def summary(
    of: Outline,
    observation: Observation,
    previous: FederationStatus | None = None,
    generation: int = 1,
    now: datetime = NOW,
) -> Summary:
    return summarize(of, observation, previous or FederationStatus(), generation, now)


def status(*args: Any, **fields: Any) -> FederationStatus:
    return summary(*args, **fields).status


def by_type(conditions: list[Condition]) -> dict[str, Condition]:
    found = {each.type: each for each in conditions}
    assert len(found) == len(conditions)
    return found


CRASH = Trouble("CrashLoop", "container supernode ended with exit code 1: no")
EVICTED = Trouble("Evicted", "The node was low on resource: memory.")
QUOTA = "exceeded quota: small"
UNMOUNTED = Mishap(
    "team", "fed-supernode-default-1", 'secret "x" not found', (NOW + timedelta(60)).timestamp()
)

# What is observed -> status and reason of Ready, Reconciling, SuperLinkAvailable and Degraded,
# and words that must stand in the message of Ready.
Row = tuple[Outline, Observation, str, str, str, str, list[str]]
SITUATIONS: dict[str, Row] = {
    "everything runs": (
        outline(),
        healthy(),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["SuperLink", "2 of 2"],
    ),
    "nothing is there yet": (
        outline(),
        Observation(),
        "False Missing",
        "True Missing",
        "False Missing",
        "False NoFaults",
        ["SuperLink", "does not exist"],
    ),
    "a pool is not there yet": (
        outline(),
        with_pool(None),
        "False Missing",
        "True Missing",
        "True Available",
        "False NoFaults",
        ["pool default", "does not exist"],
    ),
    "the SuperLink starts": (
        outline(),
        with_superlink(replicated(SUPERLINK, 1, readyReplicas=0, availableReplicas=0)),
        "False Starting",
        "True Starting",
        "False Starting",
        "False NoFaults",
        ["SuperLink", "0 of 1"],
    ),
    "a pool starts": (
        outline(),
        with_pool(replicated(POOL, 2, readyReplicas=1)),
        "False Starting",
        "True Starting",
        "True Available",
        "False NoFaults",
        ["pool default", "1 of 2"],
    ),
    "the workload's controller has not seen the new spec": (
        outline(),
        with_pool(replicated(POOL, 2, observedGeneration=0)),
        "False Starting",
        "True Starting",
        "True Available",
        "False NoFaults",
        ["pool default", "rolling out"],
    ),
    "a rollout is under way": (
        outline(),
        with_pool(replicated(POOL, 2, updatedReplicas=1)),
        "False Starting",
        "True Starting",
        "True Available",
        "False NoFaults",
        ["pool default", "rolling out"],
    ),
    "something is still to be applied": (
        outline(),
        healthy(pending=["StatefulSet fed-supernode-old"]),
        "False Applying",
        "True Applying",
        "True Available",
        "False NoFaults",
        ["StatefulSet fed-supernode-old"],
    ),
    "something could not be applied": (
        outline(),
        healthy(faults=[Fault("NameTaken", "Service fed-superlink is there already")]),
        "False NameTaken",
        "False NameTaken",
        "True Available",
        "True NameTaken",
        ["Service fed-superlink"],
    ),
    "a SuperNode crashes": (
        outline(),
        with_pool(replicated(POOL, 2, readyReplicas=1), pods=[pod(CRASH)]),
        "False CrashLoop",
        "False CrashLoop",
        "True Available",
        "True CrashLoop",
        ["fed-supernode-0", "exit code 1"],
    ),
    "the SuperLink crashes": (
        outline(),
        with_superlink(
            replicated(SUPERLINK, 1, readyReplicas=0, availableReplicas=0),
            pods=[pod(CRASH, component="superlink")],
        ),
        "False CrashLoop",
        "False CrashLoop",
        "False CrashLoop",
        "True CrashLoop",
        ["fed-superlink-0"],
    ),
    "a SuperNode was put out by its node and has no successor yet": (
        outline(),
        with_pool(replicated(POOL, 2, readyReplicas=1), pods=[pod(EVICTED, ended=True)]),
        "False Evicted",
        "False Evicted",
        "True Available",
        "True Evicted",
        ["fed-supernode-0", "low on resource"],
    ),
    "a SuperNode was put out by its node and its successor runs": (
        outline(),
        healthy(pods=[pod(EVICTED, ended=True)]),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["2 of 2"],
    ),
    "the SuperLink was put out by its node and its successor runs": (
        outline(),
        healthy(pods=[pod(EVICTED, component="superlink", ended=True)]),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["2 of 2"],
    ),
    "a pod that has not ended is in trouble though its workload takes it for well": (
        outline(),
        healthy(pods=[pod(CRASH)]),
        "False CrashLoop",
        "False CrashLoop",
        "True Available",
        "True CrashLoop",
        ["fed-supernode-0"],
    ),
    "a pod has ended and its workload is gone": (
        outline(),
        with_pool(None, pods=[pod(EVICTED, ended=True)]),
        "False Evicted",
        "False Evicted",
        "True Available",
        "True Evicted",
        ["fed-supernode-0"],
    ),
    "the API server refuses pods": (
        outline(),
        with_pool(
            replicated(POOL, 2, replicas=0, updatedReplicas=0, readyReplicas=0),
            refusals={f"uid-{POOL[1]}": QUOTA},
        ),
        "False PodsRefused",
        "False PodsRefused",
        "True Available",
        "True PodsRefused",
        [QUOTA],
    ),
    "a volume is not there": (
        outline(),
        with_pool(replicated(POOL, 2, readyReplicas=1), mishaps=[UNMOUNTED]),
        "False VolumeNotMounted",
        "False VolumeNotMounted",
        "True Available",
        "True VolumeNotMounted",
        ["fed-supernode-default-1", "not found"],
    ),
    "a volume was not there": (
        outline(),
        healthy(mishaps=[UNMOUNTED]),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["2 of 2"],
    ),
    "it refused some that are there by now": (
        outline(),
        healthy(refusals={f"uid-{POOL[1]}": QUOTA}),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["2 of 2"],
    ),
    "SuperNodes run but are not connected": (
        outline(),
        healthy(connected=Connected(1)),
        "False NotConnected",
        "True NotConnected",
        "True Available",
        "False NoFaults",
        ["1 of 2", "connected"],
    ),
    "who is connected is not known yet": (
        outline(),
        healthy(connected=Connected(asking=True)),
        "False NotConnected",
        "True NotConnected",
        "True Available",
        "False NoFaults",
        ["asked"],
    ),
    "all are connected": (
        outline(),
        healthy(connected=Connected(2)),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["2 of 2"],
    ),
    "more are connected: some of those that were there before": (
        outline(),
        healthy(connected=Connected(5)),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["2 of 2"],
    ),
    "nobody can tell how many are connected": (
        outline(),
        healthy(connected=Connected(why_not="nothing answers")),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["2 of 2"],
    ),
    "it is suspended": (
        outline(suspend=True),
        with_pool(replicated(POOL, 0), connected=Connected(0)),
        "False Suspended",
        "False Done",
        "True Available",
        "False NoFaults",
        ["spec.suspend"],
    ),
    "it is being suspended": (
        outline(suspend=True),
        with_pool(replicated(POOL, 0, replicas=2, readyReplicas=2)),
        "False Starting",
        "True Starting",
        "True Available",
        "False NoFaults",
        ["pool default"],
    ),
    "it is suspended and has DaemonSets": (
        outline("DaemonSet", suspend=True),
        with_pool(None),
        "False Suspended",
        "False Done",
        "True Available",
        "False NoFaults",
        ["spec.suspend"],
    ),
    "a DaemonSet runs": (
        outline("DaemonSet"),
        healthy(workloads={SUPERLINK: replicated(SUPERLINK, 1), DAEMONS: daemons(3)}),
        "True AllReady",
        "False Done",
        "True Available",
        "False NoFaults",
        ["3 of 3"],
    ),
    "no node is fit for the DaemonSet": (
        outline("DaemonSet"),
        healthy(workloads={SUPERLINK: replicated(SUPERLINK, 1), DAEMONS: daemons(0)}),
        "False NoNodes",
        "True NoNodes",
        "True Available",
        "False NoFaults",
        ["no node"],
    ),
}


@pytest.mark.parametrize("row", SITUATIONS.values(), ids=SITUATIONS.keys())
def test_a_situation_and_its_conditions(row: Row) -> None:
    of, observation, *expected, words = row
    conditions = by_type(status(of, observation).conditions)
    types = ("Ready", "Reconciling", "SuperLinkAvailable", "Degraded")
    assert tuple(conditions) == types
    assert [f"{conditions[each].status} {conditions[each].reason}" for each in types] == expected
    for text in words:
        assert text in conditions["Ready"].message


@pytest.mark.parametrize("reason", ["WaitingForRuns", "UpgradingPools"])
def test_a_federation_is_not_ready_before_its_release_is_everywhere(reason: str) -> None:
    finding = Finding("Upgrading", True, reason, "pool default is on its way")
    first = status(outline(), healthy(upgrade=finding))
    found = by_type(first.conditions)
    told = ("Ready", "Reconciling", "Upgrading")
    assert [found[each].status for each in told] == ["False", "True", "True"]
    assert {(found[each].reason, found[each].message) for each in told} == {
        (reason, "pool default is on its way")
    }
    done = Finding("Upgrading", False, "Done", "yes")
    found = by_type(status(outline(), healthy(upgrade=done), first, now=LATER).conditions)
    assert (found["Ready"].status, found["Upgrading"].status) == ("True", "False")
    crash = with_pool(replicated(POOL, 2), pods=[pod(CRASH)], upgrade=finding)
    found = by_type(status(outline(), crash).conditions)
    assert (found["Ready"].reason, found["Upgrading"].reason) == ("CrashLoop", reason)


def test_the_figures_of_a_federation() -> None:
    of = outline(pools=[{"name": "default"}, {"name": "second", "replicas": 3}])
    there = {
        SUPERLINK: replicated(SUPERLINK, 1),
        POOL: replicated(POOL, 2),
        SECOND: replicated(SECOND, 3, readyReplicas=1),
    }
    found = status(of, Observation(there, connected=Connected(3)), generation=4)
    assert found.observed_generation == 4
    assert found.release == "1.25.0"
    assert found.supernodes == "3/5"
    assert (found.ready_supernodes, found.desired_supernodes) == (3, 5)
    assert found.connected_supernodes == 3
    assert found.endpoints.superlink_service == "fed-superlink.team.svc:9093"
    assert [(each.name, each.kind, each.ready, each.desired) for each in found.pools] == [
        ("default", "StatefulSet", 2, 2),
        ("second", "StatefulSet", 1, 3),
    ]
    assert {each.release for each in found.pools} == {"1.25.0"}
    first, second = (by_type(each.conditions)["Ready"] for each in found.pools)
    assert (first.status, first.reason) == ("True", "AllReady")
    assert (second.status, second.reason) == ("False", "Starting")
    for condition in (*found.conditions, first, second):
        assert condition.observed_generation == 4


def test_a_pool_of_another_release_says_so() -> None:
    images = {"supernode": "flwr/supernode:1.24.0"}
    of = outline(pools=[{"name": "default"}, {"name": "second", "images": images}])
    found = status(of, Observation())
    assert found.release == "1.25.0"
    assert [each.release for each in found.pools] == ["1.25.0", "1.24.0"]


def test_figures_of_a_daemon_set_come_from_its_nodes() -> None:
    there = {SUPERLINK: replicated(SUPERLINK, 1), DAEMONS: daemons(4, ready=3)}
    found = status(outline("DaemonSet"), Observation(there))
    assert found.supernodes == "3/4"
    assert status(outline("DaemonSet"), Observation()).supernodes == "0/0"


def test_surplus_pods_do_not_make_a_federation_more_than_whole() -> None:
    surplus = replicated(POOL, 2, replicas=5, readyReplicas=5)
    assert status(outline(), with_pool(surplus)).supernodes == "2/2"


def test_supernodes_on_their_way_out_are_not_counted_against_none() -> None:
    leaving = replicated(POOL, 0, replicas=2, readyReplicas=2)
    found = status(outline(suspend=True), with_pool(leaving))
    assert found.supernodes == "0/0"
    assert (found.ready_supernodes, found.desired_supernodes) == (0, 0)
    assert (found.pools[0].ready, found.pools[0].desired) == (0, 0)
    there = {SUPERLINK: replicated(SUPERLINK, 1), DAEMONS: daemons(0, ready=2)}
    for of in (outline("DaemonSet"), outline("DaemonSet", suspend=True)):
        assert status(of, Observation(there)).supernodes == "0/0"


def test_a_suspended_federation_wants_no_supernodes() -> None:
    found = status(outline(suspend=True), with_pool(replicated(POOL, 0)))
    assert found.supernodes == "0/0"
    (condition,) = found.pools[0].conditions
    assert (condition.status, condition.reason) == ("False", "Suspended")


def test_each_pool_answers_for_its_own_pods() -> None:
    of = outline(pools=[{"name": "default"}, {"name": "second"}])
    there = {
        SUPERLINK: replicated(SUPERLINK, 1),
        POOL: replicated(POOL, 2),
        SECOND: replicated(SECOND, 2, readyReplicas=1),
    }
    found = status(of, Observation(there, pods=[pod(CRASH, pool="second")]))
    first, second = (each.conditions[0] for each in found.pools)
    assert first.status == "True"
    assert (second.status, second.reason) == ("False", "CrashLoop")


def test_pods_of_a_pool_that_is_no_more_are_nobody_s_fault() -> None:
    found = status(outline(), healthy(pods=[pod(CRASH, pool="removed")]))
    assert by_type(found.conditions)["Ready"].status == "True"


def test_a_superlink_with_claims_is_looked_for_among_stateful_sets() -> None:
    claim = {
        "metadata": {"name": "state"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    of = outline(superlink={"volumeClaimTemplates": [claim]})
    assert by_type(status(of, healthy()).conditions)["SuperLinkAvailable"].reason == "Missing"
    stateful = ("StatefulSet", "fed-superlink")
    there = {stateful: replicated(stateful, 1), POOL: replicated(POOL, 2)}
    assert by_type(status(of, Observation(there)).conditions)["Ready"].status == "True"


def test_the_superexec_of_serverapps_is_part_of_being_ready() -> None:
    kept = {"persistence": {"size": "1Gi"}}
    of = outline(isolation="process", superlink=kept)
    link, own = ("StatefulSet", "fed-superlink"), ("Deployment", "fed-serverapp")
    there = {link: replicated(link, 1), POOL: replicated(POOL, 2)}
    for superexec, trouble, reason in (
        (None, [], "Missing"),
        (replicated(own, 1, readyReplicas=0, availableReplicas=0), [], "Starting"),
        (replicated(own, 1), [Trouble("CrashLoop", "it ends")], "CrashLoop"),
        (replicated(own, 1), [], "AllReady"),
    ):
        workloads = there | ({own: superexec} if superexec else {})
        pods = [pod(*trouble, component="superexec-serverapp")]
        found = summary(of, Observation(workloads=workloads, pods=pods))
        ready, _, available, degraded = found.status.conditions
        assert (ready.status, ready.reason) == (str(reason == "AllReady"), reason)
        assert degraded.status == str(bool(trouble))
        assert available.status == "True"


def test_why_the_connected_are_not_known_is_said() -> None:
    found = status(outline(), healthy(connected=Connected(why_not="nothing answers at x")))
    assert found.connected_supernodes is None
    assert "nothing answers at x" in by_type(found.conditions)["SuperLinkAvailable"].message


def test_notices_are_part_of_being_ready() -> None:
    of = replace(outline(), notices=("spec.version: newer than known", "another one"))
    message = by_type(status(of, healthy()).conditions)["Ready"].message
    assert "note: spec.version: newer than known; note: another one" in message
    waiting = healthy(notes=["a new certificate waits"])
    assert by_type(status(of, waiting).conditions)["Ready"].message.endswith(
        "another one; note: a new certificate waits"
    )
    silent = replace(outline(), notices=())
    assert "note:" not in by_type(status(silent, healthy()).conditions)["Ready"].message


def test_degraded_tells_every_fault_once() -> None:
    other = Trouble("Unschedulable", "0/3 nodes are available")
    found = status(
        outline(),
        with_pool(
            replicated(POOL, 2, readyReplicas=0),
            pods=[pod(CRASH, CRASH, other)],
            faults=[Fault("Refused", "Service fed-superlink: no")],
        ),
    )
    degraded = by_type(found.conditions)["Degraded"]
    assert degraded.reason == "Refused"
    assert degraded.message.count("exit code 1") == 1
    for words in ("Service fed-superlink: no", "0/3 nodes"):
        assert words in degraded.message


def test_a_refusal_of_the_deployment_s_own_is_told() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "message": QUOTA}
    link = workload(*SUPERLINK, {"observedGeneration": 1, "conditions": [refused]}, replicas=1)
    conditions = by_type(status(outline(), with_superlink(link)).conditions)
    assert conditions["Degraded"].reason == "PodsRefused"
    assert QUOTA in conditions["SuperLinkAvailable"].message


def test_long_messages_are_cut() -> None:
    fault = Fault("Refused", "no " * LONGEST_MESSAGE)
    for condition in status(outline(), healthy(faults=[fault])).conditions:
        assert len(condition.message) <= LONGEST_MESSAGE
        assert condition.message.endswith("...") == (condition.type in ("Ready", "Degraded"))


def test_what_stays_the_same_keeps_its_time() -> None:
    first = status(outline(), with_pool(replicated(POOL, 2, readyReplicas=1)))
    same = with_pool(replicated(POOL, 2, readyReplicas=0))
    second = status(outline(), same, first, generation=2, now=LATER)
    assert {each.last_transition_time for each in second.conditions} == {"2026-11-15T12:00:00Z"}
    assert {each.observed_generation for each in second.conditions} == {2}
    assert "0 of 2" in by_type(second.conditions)["Ready"].message
    (pool_ready,) = second.pools[0].conditions
    assert pool_ready.last_transition_time == "2026-11-15T12:00:00Z"


def test_what_flips_has_the_time_of_its_flip() -> None:
    first = status(outline(), with_pool(replicated(POOL, 2, readyReplicas=1)))
    second = status(outline(), healthy(), first, now=LATER)
    times = {each.type: each.last_transition_time for each in second.conditions}
    assert times == {
        "Ready": "2026-11-15T12:05:00Z",
        "Reconciling": "2026-11-15T12:05:00Z",
        "SuperLinkAvailable": "2026-11-15T12:00:00Z",
        "Degraded": "2026-11-15T12:00:00Z",
    }
    (pool_ready,) = second.pools[0].conditions
    assert pool_ready.last_transition_time == "2026-11-15T12:05:00Z"


def test_the_same_observation_gives_the_same_status() -> None:
    first = status(outline(), healthy())
    assert status(outline(), healthy(), first, now=LATER) == first


def test_a_status_is_what_the_crd_takes_and_gives_back() -> None:
    written = status(outline(), healthy()).model_dump_json(by_alias=True, exclude_none=True)
    assert FederationStatus.model_validate_json(written) == status(outline(), healthy())


def test_a_container_that_runs_again_is_a_fault_until_it_has_lasted() -> None:
    shaky = replace_until(CRASH, NOW.timestamp() + 20)
    observation = healthy(pods=[pod(shaky)])
    before = summary(outline(), observation)
    assert by_type(before.status.conditions)["Ready"].reason == "CrashLoop"
    assert before.recheck == 20
    after = summary(outline(), observation, now=NOW + timedelta(seconds=20))
    assert by_type(after.status.conditions)["Ready"].status == "True"
    assert after.recheck is None


def replace_until(trouble: Trouble, until: float) -> Trouble:
    return Trouble(trouble.reason, trouble.message, until)


def test_the_next_look_is_when_the_first_of_them_may_be_over() -> None:
    now = NOW.timestamp()
    shaky = [replace_until(CRASH, now + seconds) for seconds in (-5, 30, 10)]
    assert summary(outline(), healthy(pods=[pod(*shaky)])).recheck == 10
    # What only a person can mend is no reason to look again.
    assert summary(outline(), healthy(pods=[pod(CRASH)])).recheck is None
    assert summary(outline(), healthy()).recheck is None


@pytest.mark.parametrize(
    ("observation", "available"),
    [
        (healthy(), True),
        (with_pool(None), True),
        (with_superlink(None), False),
        (with_superlink(replicated(SUPERLINK, 1, readyReplicas=0)), False),
        # It still answers while a change of it is rolled out.
        (with_superlink(replicated(SUPERLINK, 1, updatedReplicas=0)), True),
        (healthy(pods=[pod(CRASH, component="superlink")]), False),
    ],
)
def test_only_a_superlink_that_answers_is_asked(observation: Observation, available: bool) -> None:
    found = summary(outline(), observation)
    assert found.superlink_available == available
    condition = by_type(found.status.conditions)["SuperLinkAvailable"]
    assert (condition.status == "True") == available


FAULTS = [Fault("UnknownRelease", "spec.version: no release"), Fault("InvalidSpec", "spec: odd")]


def test_a_spec_that_cannot_be_applied_is_refused_with_every_fault() -> None:
    refused = refuse(FAULTS, None, FederationStatus(), 3, NOW)
    conditions = by_type(refused.conditions)
    assert {each: conditions[each].status for each in conditions} == {
        "Ready": "False",
        "Reconciling": "False",
        "SuperLinkAvailable": "False",
        "Degraded": "True",
    }
    assert refused.observed_generation == 3
    for each in ("Ready", "Degraded"):
        assert conditions[each].reason == "UnknownRelease"
        assert "spec.version: no release" in conditions[each].message
        assert "spec: odd" in conditions[each].message
    assert {each.observed_generation for each in refused.conditions} == {3}


def test_a_refusal_keeps_what_is_known_of_what_runs() -> None:
    before = status(outline(), healthy(connected=Connected(2)))
    refused = refuse(FAULTS, replicated(SUPERLINK, 1), before, 2, LATER)
    assert refused.supernodes == "2/2"
    assert refused.pools == before.pools
    assert refused.endpoints == before.endpoints
    available = by_type(refused.conditions)["SuperLinkAvailable"]
    assert (available.status, available.reason) == ("True", "Available")
    assert available.last_transition_time == "2026-11-15T12:00:00Z"
    assert by_type(refused.conditions)["Ready"].last_transition_time == "2026-11-15T12:05:00Z"


@pytest.mark.parametrize(
    ("superlink", "available", "words"),
    [
        (None, "False Missing", "does not exist"),
        (replicated(SUPERLINK, 1, readyReplicas=0), "False Starting", "0 of 1"),
        (replicated(SUPERLINK, 1), "True Available", "answers"),
        # It is not whole, but who has it answer does not care.
        (replicated(SUPERLINK, 1, updatedReplicas=0), "True Available", "answers"),
    ],
)
@pytest.mark.parametrize("before", [FederationStatus(), status(outline(), healthy())])
def test_a_refusal_tells_of_the_superlink_as_it_is_now(
    before: FederationStatus, superlink: Workload | None, available: str, words: str
) -> None:
    refused = refuse(FAULTS, superlink, before, 2, LATER)
    found = by_type(refused.conditions)["SuperLinkAvailable"]
    assert f"{found.status} {found.reason}" == available
    assert words in found.message
    same = by_type(before.conditions)["SuperLinkAvailable"] if before.conditions else None
    kept = same is not None and same.status == found.status
    assert found.last_transition_time == (
        "2026-11-15T12:00:00Z" if kept else "2026-11-15T12:05:00Z"
    )


def test_a_spec_put_right_is_ready_again() -> None:
    before = status(outline(), healthy())
    refused = refuse(FAULTS, replicated(SUPERLINK, 1), before, 2, NOW)
    mended = status(outline(), healthy(), refused, generation=3, now=LATER)
    conditions = by_type(mended.conditions)
    assert conditions["Ready"].status == "True"
    assert conditions["Degraded"].status == "False"


counts = st.integers(0, 4)
texts = st.text(max_size=30)
workloads = st.builds(
    Workload,
    metadata=st.builds(Metadata, uid=st.sampled_from(["a", "b"])),
    desired=counts,
    created=counts,
    ready=counts,
    settled=st.booleans(),
    refused=st.none() | texts,
)
pods = st.builds(
    Pod,
    namespace=st.just("team"),
    federation=st.just("fed"),
    pool=st.sampled_from(["", "default", "second", "removed"]),
    component=st.sampled_from(["superlink", "supernode", ""]),
    name=texts,
    ended=st.booleans(),
    troubles=st.lists(
        st.builds(
            Trouble,
            reason=st.sampled_from(["CrashLoop", "Unschedulable"]),
            message=texts,
            until=st.none() | st.floats(0, 4e9),
        ),
        max_size=2,
    ).map(tuple),
)
observations = st.builds(
    Observation,
    workloads=st.dictionaries(st.sampled_from([SUPERLINK, POOL, SECOND, DAEMONS]), workloads),
    pods=st.lists(pods, max_size=2),
    refusals=st.dictionaries(st.sampled_from(["a", "b"]), texts),
    pending=st.lists(texts, max_size=1),
    faults=st.lists(st.builds(Fault, st.sampled_from(["Refused", "NameTaken"]), texts), max_size=1),
    connected=st.builds(Connected, st.none() | counts, texts, st.booleans(), st.booleans()),
)
OUTLINES = [
    outline(),
    outline(pools=[{"name": "default"}, {"name": "second"}]),
    outline("DaemonSet"),
    outline(suspend=True),
    outline("DaemonSet", suspend=True),
]


def test_an_operator_that_was_restarted_believes_what_it_wrote_before() -> None:
    before = status(outline(), healthy(connected=Connected(2)))
    asking = status(outline(), healthy(connected=Connected(asking=True)), before, now=LATER)
    assert asking == before


@given(st.sampled_from(OUTLINES), observations, observations)
def test_whatever_is_observed_the_conditions_agree_with_each_other(
    of: Outline, earlier: Observation, observation: Observation
) -> None:
    previous = status(of, earlier)
    found = status(of, observation, previous, now=LATER)
    conditions = by_type(found.conditions)
    true = {name for name, each in conditions.items() if each.status == "True"}
    assert not {"Ready", "Reconciling"} <= true
    assert not {"Ready", "Degraded"} <= true
    if "Ready" in true:
        assert not observation.faults
        assert not observation.pending
        assert not of.suspended
        assert "SuperLinkAvailable" in true or not observation.workloads[SUPERLINK].ready
        for pool in found.pools:
            assert pool.conditions[0].status == "True"
            assert observation.workloads[pool.kind, f"fed-supernode-{pool.name}"].settled
    if observation.faults:
        assert "Degraded" in true
    assert 0 <= found.ready_supernodes <= found.desired_supernodes
    assert found.supernodes == f"{found.ready_supernodes}/{found.desired_supernodes}"
    for each in found.conditions:
        assert each.reason.isalnum()
        before = by_type(previous.conditions)[each.type]
        kept = before.last_transition_time == each.last_transition_time
        assert kept == (before.status == each.status)
    assert status(of, observation, found, now=LATER) == found


@given(st.sampled_from(OUTLINES), observations)
def test_degraded_is_true_exactly_while_there_are_faults(
    of: Outline, observation: Observation
) -> None:
    conditions = by_type(status(of, observation).conditions)
    owners = {("supernode", pool.name): (pool.kind, pool.workload) for pool in of.pools}
    superlink = (of.superlink_kind, of.superlink)

    def counts_against(each: Pod) -> bool:
        known = (each.component, each.pool)
        identity = superlink if each.component == "superlink" else owners.get(known)
        if identity is None:
            return False
        owner = observation.workloads.get(identity)
        return not (each.ended and owner and owner.settled)

    lasting = any(
        trouble.until is None or trouble.until > NOW.timestamp()
        for each in observation.pods
        for trouble in each.troubles
        if counts_against(each)
    )
    identities = [superlink, *owners.values()]
    refused = any(
        each.created < each.desired
        and (each.refused or observation.refusals.get(each.metadata.uid))
        for identity in identities
        if (each := observation.workloads.get(identity))
    )
    expected = bool(observation.faults) or lasting or refused
    assert (conditions["Degraded"].status == "True") == expected
    if expected:
        assert conditions["Ready"].status == "False"


# Releases that were assumed.

UNKNOWN = (
    "container {} ended with exit code 2: usage: ... error: unrecognized arguments: --host 0.0.0.0"
)
MISSING = "container {} ended with exit code 2: the following arguments are required: --plugin-type"
OBSOLETE = (
    "container {} ended with exit code 2: error: argument --fleet-api-address: this option is no "
    "longer supported"
)


def crash(container: str, words: str = UNKNOWN) -> Trouble:
    return Trouble("CrashLoop", words.format(container))


def test_a_release_that_is_assumed_is_told_whatever_else_there_is_to_tell() -> None:
    assumed = outline(superlink={"image": "link:v3"}, supernodes={"image": "node:v3"})
    said = (
        f"spec.superlink.image: link:v3 names no Flower release, so it is assumed to be {NEWEST}; "
        "set spec.version to the release that it has"
    )
    ready = status(assumed, healthy()).conditions[0]
    assert (ready.status, ready.message.count(said)) == ("True", 1)
    starting = with_superlink(replicated(SUPERLINK, 1, readyReplicas=0, availableReplicas=0))
    failing = healthy(pods=[pod(Trouble("OutOfMemory", "container superlink was killed"))])
    for observation in (starting, failing, healthy(pending=["Deployment"])):
        ready = status(assumed, observation).conditions[0]
        assert (ready.status, ready.message.count(said)) == ("False", 1)
    named = outline(
        superlink={"image": "link:v3"}, supernodes={"image": "n:v3"}, version=str(NEWEST)
    )
    assert "assumed" not in status(named, starting).conditions[0].message


@pytest.mark.parametrize("words", [UNKNOWN, MISSING, OBSOLETE])
@pytest.mark.parametrize(
    ("component", "container", "image"),
    [
        ("superlink", "superlink", "spec.superlink.image: link:v3"),
        ("superlink", "superexec-serverapp", "spec.superlink.superexecImage: app:v3"),
        ("supernode", "supernode", "spec.supernodes.image: node:v3"),
        (
            "supernode",
            "superexec-clientapp",
            "spec.supernodes.pools[0].images.superexecClientApp: app:v3",
        ),
    ],
)
def test_a_container_that_an_assumed_release_ends_names_that_release(
    component: str, container: str, image: str, words: str
) -> None:
    assumed = outline(
        isolation="process",
        superlink={"image": "link:v3", "superexecImage": "app:v3"},
        supernodes={"image": "node:v3"},
        pool={"images": {"superexecClientApp": "app:v3"}},
    )
    crashing = healthy(pods=[pod(crash(container, words), component=component)])
    ready = status(assumed, crashing).conditions[0]
    assert (ready.status, ready.reason) == ("False", "ReleaseAssumed")
    assert ready.message.startswith(f"pod fed-{component}-0: container {container} ended with")
    assert f"{image} names no Flower release, so it is assumed to be {NEWEST}" in ready.message


def test_a_container_whose_release_is_known_ends_by_another_mistake() -> None:
    named = outline(superlink={"extraArgs": ["--hots"]})
    crashing = healthy(pods=[pod(crash("superlink"), component="superlink")])
    ready = status(named, crashing).conditions[0]
    assert ready.reason == "CrashLoop"
    assert "assumed" not in ready.message
