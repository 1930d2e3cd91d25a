"""Pods with keys: which may start, which wait and for what, which hang."""

from typing import Any

import msgspec
import pytest

from flower_operator.status import observed
from flower_operator.status.admissions import HANG_SECONDS, Admissions, admissions_of, names_of
from flower_operator.status.observed import Pod
from flower_operator.trust.keys import MISSED_SECONDS, Enrolment, Keyring
from tests.unit.federations import Document

RING = Keyring(
    "2026-01-01T00:00:00+00:00", {"0": "key of 0", "1": "key of 1", "node-a": "key of a"}
)
KNOWN = frozenset(RING.keys.values())
GATES = [{"name": "flower.flwr.ai/key"}, {"name": "someone.else/gate"}]
START = 1767225600.0  # 2026-01-01T00:00:00Z
REFUSED = "grpc FAILED_PRECONDITION: SuperNode with node ID 17 could not be activated."


def pod(
    ordinal: str | None = "0",
    *,
    gated: bool = False,
    node: str = "",
    aim: str = "",
    containers: list[Document] | None = None,
) -> Pod:
    labels = {"flower.flwr.ai/pool": "north", "flower.flwr.ai/component": "supernode"}
    if ordinal is not None:
        labels["apps.kubernetes.io/pod-index"] = ordinal
    spec: Document = {"schedulingGates": GATES if gated else []}
    if node:
        spec["nodeName"] = node
    if aim:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [aim]}]}
        required = {"nodeSelectorTerms": [term]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec["affinity"] = {"nodeAffinity": affinity}
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    answer = {
        "metadata": {
            "name": f"fed-{ordinal or aim or node}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "namespace": "team",
            "uid": "uid",
            "labels": labels,
            "annotations": {"flower.flwr.ai/keys": RING.round},
        },
        "spec": spec,
        "status": {
            "conditions": conditions if gated else [],
            "containerStatuses": containers or [],
        },
    }
    form = msgspec.json.decode(msgspec.json.encode(answer), type=observed.PodForm)
    kept = observed.pod_of(form)
    assert kept
    return kept


def running(*, ended: str = "") -> list[Document]:
    status: Document = {
        "name": "supernode",
        "restartCount": 1 if ended else 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    if ended:
        status["lastState"] = {"terminated": {"exitCode": 1, "message": ended}}
    return [status]


def look(
    *pods: Pod, now: float = START, hang: Any = (), busy: bool = False, **known: frozenset[str]
) -> Admissions:
    enrolment = Enrolment(**{"registered": KNOWN, **known})
    return admissions_of(pods, {"north": RING}, enrolment, "", hang, now, busy=busy)


@pytest.mark.parametrize(
    "held", [pod("0", gated=True), pod(None, aim="node-a", gated=True)], ids=["ordinal", "node"]
)
def test_a_pod_is_let_go_once_its_key_is_registered(held: Pod) -> None:
    assert held.troubles == ()
    assert held.gates == ("flower.flwr.ai/key", "someone.else/gate")
    assert look(held).admitted == (held,)
    assert look(held).waiting == {}
    unknown = look(held, registered=frozenset())
    assert unknown.admitted == ()
    assert unknown.waiting == {held.name: "its key is to be registered"}


def test_a_pod_waits_for_its_predecessor_to_be_missed() -> None:
    held = pod("1", gated=True)
    found = look(held, online=frozenset({"key of 1"}))
    assert found.admitted == ()
    assert "predecessor" in found.waiting[held.name]


def test_a_run_misses_a_supernode_before_it_is_back() -> None:
    held = pod("0", gated=True)
    assert look(held, busy=True, now=START + 1) == Admissions(again=MISSED_SECONDS - 1)
    assert look(held, busy=True, now=START + MISSED_SECONDS).admitted == (held,)


def test_a_pod_waits_while_the_superlink_cannot_be_asked() -> None:
    held, free = pod("0", gated=True), pod("1", containers=running())
    found = admissions_of([held, free], {"north": RING}, None, "it is away", (), START)
    assert found == Admissions(waiting={held.name: "its key is to be registered, but it is away"})


def test_a_pod_without_a_key_of_the_ring_is_not_let_go() -> None:
    assert look(pod("7", gated=True)).admitted == ()


def test_who_is_refused_because_it_is_taken_to_be_there_waits_and_is_no_fault() -> None:
    crashed = pod("0", containers=running(ended=REFUSED))
    assert list(look(crashed, online=frozenset({"key of 0"})).waiting) == [crashed.name]
    assert look(crashed).waiting == {}
    other = pod("0", containers=running(ended="no such file"))
    assert look(other, online=frozenset({"key of 0"})).waiting == {}


def test_who_hangs_is_replaced_after_a_while_where_releases_hang() -> None:
    quiet = pod("0", containers=running())
    early = look(quiet, hang=["north"], now=START + 10)
    assert early == Admissions(again=HANG_SECONDS - 10)
    late = START + HANG_SECONDS
    assert look(quiet, hang=["north"], now=late) == Admissions(hanging=(quiet,))
    assert look(quiet, hang=["south"], now=late) == Admissions()
    assert look(quiet, hang=["north"], now=late, online=frozenset({"key of 0"})) == Admissions()
    assert look(quiet, hang=["north"], now=late, registered=frozenset()) == Admissions()


def test_whose_keys_a_pool_needs() -> None:
    nodes = [pod(None, node="node-a"), pod(None, aim="node-b", gated=True)]
    assert names_of(2, nodes, "north", RING, expected=None) == {"0", "1"}
    assert names_of(None, nodes, "north", RING, expected=2) == {"node-a", "node-b"}
    assert names_of(None, nodes, "south", None, expected=None) == set()
    assert names_of(None, [], "north", RING, expected=None) == set(RING.keys)
    assert names_of(None, [], "north", RING, expected=0) == set()
    # A pod was just deleted, and its DaemonSet does not tell so yet.
    assert names_of(None, nodes[1:], "north", RING, expected=2) == {*RING.keys, "node-b"}
