"""Workloads in the numbers that all kinds have in common."""

from datetime import UTC, datetime

import msgspec
import pytest

from flower_operator.status.observed import (
    MOUNT_SECONDS,
    Child,
    ChildForm,
    EventForm,
    Federation,
    FederationForm,
    Metadata,
    Mishap,
    Refusal,
    Service,
    ServiceForm,
    Workload,
    child_of,
    federation_of,
    service_of,
    told_by,
)
from tests.unit.federations import Document
from tests.unit.observations import observe, workload


def deployment(status: Document, replicas: int = 1) -> Workload:
    return workload("Deployment", "fed-superlink", status, replicas=replicas)


def numbers(kept: Workload) -> tuple[int, int, int]:
    return kept.desired, kept.created, kept.ready


DEPLOYED: Document = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "conditions": [
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ],
}
STATEFUL = {
    "observedGeneration": 1,
    "replicas": 3,
    "readyReplicas": 3,
    "availableReplicas": 3,
    "currentReplicas": 3,
    "updatedReplicas": 3,
    "currentRevision": "fed-supernode-default-6d4b",
    "updateRevision": "fed-supernode-default-6d4b",
    "collisionCount": 0,
}
DAEMONS = {
    "observedGeneration": 1,
    "currentNumberScheduled": 3,
    "desiredNumberScheduled": 3,
    "numberAvailable": 3,
    "numberMisscheduled": 0,
    "numberReady": 3,
    "updatedNumberScheduled": 3,
}


def test_a_deployment_that_is_up_is_settled() -> None:
    kept = deployment(DEPLOYED)
    assert numbers(kept) == (1, 1, 1)
    assert kept.settled
    assert kept.refused is None


@pytest.mark.parametrize(
    "different",
    [
        {"observedGeneration": 0},
        {"readyReplicas": 0, "availableReplicas": 0},
        {"availableReplicas": 0},
        {"updatedReplicas": 0},
        # Of a rollout that is not over, the old pod may still serve.
        {"replicas": 2},
    ],
)
def test_a_deployment_on_its_way_is_not_settled(different: Document) -> None:
    assert not deployment({**DEPLOYED, **different}).settled


def test_a_deployment_that_nobody_has_looked_at_yet_is_not_settled() -> None:
    assert not deployment({}).settled
    assert numbers(deployment({})) == (1, 0, 0)
    # With nothing to run all numbers agree, but they are those of no one.
    assert not deployment({}, replicas=0).settled
    assert deployment({"observedGeneration": 1}, replicas=0).settled


def test_a_deployment_says_itself_why_it_has_no_pods() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"}
    kept = deployment({**DEPLOYED, "conditions": [*DEPLOYED["conditions"], failure]})
    assert kept.refused == "exceeded quota: small"
    over = deployment({**DEPLOYED, "conditions": [{**failure, "status": "False"}]})
    assert over.refused is None


def test_a_stateful_set_that_is_up_is_settled() -> None:
    kept = workload("StatefulSet", "pool", STATEFUL, replicas=3)
    assert numbers(kept) == (3, 3, 3)
    assert kept.settled


@pytest.mark.parametrize(
    ("different", "expected"),
    [
        ({"observedGeneration": 0}, (3, 3, 3)),
        # A rolling update: all are ready, one of them is still the old one.
        ({"updatedReplicas": 2, "currentReplicas": 1}, (3, 3, 3)),
        ({"readyReplicas": 2}, (3, 3, 2)),
        ({"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}, (3, 1, 1)),
        # Scaled down: those above the number are on their way out.
        ({"replicas": 5, "updatedReplicas": 5, "readyReplicas": 5}, (3, 5, 5)),
    ],
)
def test_a_stateful_set_on_its_way_is_not_settled(
    different: Document, expected: tuple[int, int, int]
) -> None:
    kept = workload("StatefulSet", "pool", {**STATEFUL, **different}, replicas=3)
    assert numbers(kept) == expected
    assert not kept.settled


def test_a_stateful_set_of_none_is_settled_once_its_pods_are_gone() -> None:
    empty = {"observedGeneration": 1, "replicas": 0, "updatedReplicas": 0}
    assert workload("StatefulSet", "pool", empty, replicas=0).settled
    leaving = {**empty, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
    assert not workload("StatefulSet", "pool", leaving, replicas=0).settled


def test_a_daemon_set_wants_as_many_as_there_are_nodes_for_it() -> None:
    kept = workload("DaemonSet", "pool", DAEMONS)
    assert numbers(kept) == (3, 3, 3)
    assert kept.settled


@pytest.mark.parametrize(
    ("different", "expected"),
    [
        ({"observedGeneration": 0}, (3, 3, 3)),
        ({"updatedNumberScheduled": 1}, (3, 3, 3)),
        ({"numberReady": 2}, (3, 3, 2)),
        # A node has joined.
        ({"desiredNumberScheduled": 4}, (4, 3, 3)),
    ],
)
def test_a_daemon_set_on_its_way_is_not_settled(
    different: Document, expected: tuple[int, int, int]
) -> None:
    kept = workload("DaemonSet", "pool", {**DAEMONS, **different})
    assert numbers(kept) == expected
    assert not kept.settled


def test_a_daemon_set_without_nodes_is_settled_once_it_was_looked_at() -> None:
    none = {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}
    assert not workload("DaemonSet", "pool", none).settled
    assert workload("DaemonSet", "pool", {**none, "observedGeneration": 1}).settled


def test_objects_that_say_the_same_are_equal_whatever_their_version() -> None:
    def federation(version: str) -> Federation:
        answer = {"metadata": {"name": "fed", "resourceVersion": version}, "spec": {}}
        form = msgspec.json.decode(msgspec.json.encode(answer), type=FederationForm)
        return federation_of(form)

    def child(version: str, port: int = 1) -> Child:
        answer = {"metadata": {"resourceVersion": version}, "spec": {"ports": [{"port": port}]}}
        return service_of(msgspec.json.decode(msgspec.json.encode(answer), type=ServiceForm))

    assert federation("1") == federation("2")
    assert child("1") == child("2") != child("2", 7)


def test_of_a_service_its_spec_is_kept_and_where_it_is_reached_from_outside() -> None:
    def service(answer: Document) -> Service:
        form = msgspec.json.decode(msgspec.json.encode(answer), type=ServiceForm)
        return service_of(form)

    assert service({"spec": {"type": "NodePort"}}) == Service(
        Metadata(), b'{"type":"NodePort"}', ()
    )
    ingress: list[Document] = [{"ip": "192.0.2.7", "ports": []}, {"hostname": "lb.example.test"}]
    status = {"loadBalancer": {"ingress": ingress}}
    found = service({"spec": {"externalIPs": ["192.0.2.9"]}, "status": status})
    assert found.addresses == ("192.0.2.9", "192.0.2.7", "lb.example.test")
    assert service({"spec": {}, "status": {"loadBalancer": {}}}).addresses == ()


def test_of_a_config_map_its_data_is_kept() -> None:
    def content(answer: Document) -> bytes:
        form = msgspec.json.decode(msgspec.json.encode(answer), type=ChildForm)
        return child_of(form).content

    assert content({"kind": "ConfigMap", "data": {"a": "b"}}) == b'{"a":"b"}'
    assert content({"kind": "ConfigMap", "metadata": {"name": "x"}}) == b""


def test_a_federation_without_a_status_has_an_empty_one() -> None:
    form = msgspec.json.decode(
        b'{"metadata":{"name":"fed"},"spec":{"mode":1}}', type=FederationForm
    )
    kept = federation_of(form)
    assert (kept.spec, kept.status) == (b'{"mode":1}', b"{}")


def test_only_the_controlling_owner_is_the_owner() -> None:
    references = [
        {"uid": "a", "name": "someone", "kind": "Team"},
        {"uid": "b", "name": "fed", "kind": "Federation", "controller": True},
    ]
    answer = {"kind": "Service", "metadata": {"name": "x", "ownerReferences": references}}
    owner = observe(answer).metadata.owner
    assert owner is not None
    assert owner.uid == "b"
    del references[1]
    assert observe(answer).metadata.owner is None


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_events_of_workloads_without_words_of_their_own_are_kept(kind: str) -> None:
    message = "create Pod x-0 in StatefulSet x failed error: exceeded quota"
    answer = {
        "metadata": {"name": "x.17f", "namespace": "team"},
        "involvedObject": {"kind": kind, "name": "x", "uid": "uid-x", "apiVersion": "apps/v1"},
        "reason": "FailedCreate",
        "message": message,
    }
    form = msgspec.json.decode(msgspec.json.encode(answer), type=EventForm)
    assert told_by(form) == Refusal("uid-x", "x", message)


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job", ""])
def test_events_of_others_are_not(kind: str) -> None:
    about = {"kind": kind, "name": "x", "uid": "uid-x"}
    answer = {"involvedObject": about, "reason": "FailedCreate", "message": "no"}
    form = msgspec.json.decode(msgspec.json.encode(answer), type=EventForm)
    assert told_by(form) is None


def unmounted(count: int | None, pod: str = "fed-supernode-default-0") -> Mishap | None:
    answer = {
        "metadata": {"name": "x.17f", "namespace": "team"},
        "involvedObject": {"kind": "Pod", "name": pod, "uid": "uid-x"},
        "reason": "FailedMount",
        "message": 'MountVolume.SetUp failed for volume "x": secret "x" not found',
        "count": count,
        "lastTimestamp": "2026-11-15T12:00:00Z",
    }
    form = msgspec.json.decode(msgspec.json.encode(answer), type=EventForm)
    told = told_by(form)
    assert not isinstance(told, Refusal)
    return told


def test_a_volume_that_was_missing_for_a_moment_is_no_mishap() -> None:
    assert unmounted(None) is unmounted(2) is None
    lasting = unmounted(3)
    assert lasting is not None
    assert (lasting.namespace, lasting.pod) == ("team", "fed-supernode-default-0")
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()
    assert lasting.until == noon + MOUNT_SECONDS


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("fed-supernode-default-0", "fed-supernode-default"),
        ("fed-supernode-edge-x8k2p", "fed-supernode-edge"),
        ("fed-superlink-94496f654-fwr25", "fed-superlink"),
    ],
)
def test_a_pod_s_name_tells_whose_it_is(pod: str, workload: str) -> None:
    mishap = unmounted(3, pod)
    assert mishap is not None
    assert workload in mishap.workloads
