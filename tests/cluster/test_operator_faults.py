"""The operator when things go wrong around it: killed, cut off, lied to, doubled."""

import copy
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from flower_operator.kube.resources import LEASE
from flower_operator.operator.desired import CHILDREN
from tests.cluster.conftest import NAMESPACE
from tests.cluster.federations import (
    Document,
    Namespace,
    manifest,
    rendered,
    wait_until,
)
from tests.harness.control_plane import ControlPlane
from tests.harness.fault_proxy import FaultProxy, Faults, Request
from tests.harness.operator_process import OperatorProcess
from tests.harness.waiting import wait_for

KILLS = 10
FEDERATIONS = 12
POOL = "lab-supernode-default"


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(plane.kubeconfig) as proxy:
        yield proxy


@pytest.fixture
def room(plane: ControlPlane) -> Iterator[Namespace]:
    with Namespace.new(plane) as room:
        yield room


@pytest.fixture(autouse=True)
def free_lease(plane: ControlPlane) -> Iterator[None]:
    yield
    drop_lease(plane)


def drop_lease(plane: ControlPlane) -> None:
    """So that the next one need not wait until the Lease of one that was killed runs out."""
    plane.request("DELETE", LEASE.path(NAMESPACE, "flower-operator"))


class Storm:
    """Federations that are created, changed and deleted at random."""

    def __init__(self, room: Namespace, seed: int) -> None:
        self.room = room
        self.wanted: dict[str, Document] = {}
        self._random = random.Random(seed)

    def blow(self) -> None:
        name = f"f{self._random.randrange(FEDERATIONS)}"
        if name in self.wanted and self._random.random() < 0.3:
            del self.wanted[name]
            self.room.delete(name)
        else:
            self.wanted[name] = self._document(name)
            self.room.apply(self.wanted[name])

    def _document(self, name: str) -> Document:
        mode = self._random.choice(["StatefulSet", "DaemonSet"])
        pools = []
        for pool in self._random.sample(["a", "b", "c"], self._random.randint(1, 3)):
            config = {"nodeConfig": {"number": str(self._random.randrange(3))}}
            replicas = {"replicas": self._random.randint(1, 2)} if mode == "StatefulSet" else {}
            pools.append({"name": pool, **config, **replicas})
        service = {"type": self._random.choice(["ClusterIP", "NodePort"])}
        superlink = {"image": "flwr/superlink:1.41.0", "service": service}
        return manifest(name, mode=mode, pools=pools, superlink=superlink)

    def check(self, timeout: float = 120, revive: OperatorProcess | None = None) -> None:
        """Exactly what is rendered is there, and it is ready."""
        differences: list[str] = []

        def same() -> bool:
            if revive:
                revive.revive()
            differences[:] = self.room.differences(*self.wanted.values())
            return not differences

        wait_for(same, lambda: f"not as rendered: {differences}", timeout, interval=0.2)
        for name in self.wanted:
            self.room.wait_until_ready(name)


@pytest.mark.extended
def test_killed_at_any_moment_it_goes_on_where_it_was(
    plane: ControlPlane, rights: Path, room: Namespace
) -> None:
    moments = random.Random(5)
    storm = Storm(room, seed=5)
    for _ in range(KILLS):
        with OperatorProcess(rights) as operator:
            operator.wait_until_leading()
            until = time.monotonic() + moments.uniform(0, 0.6)
            while time.monotonic() < until:
                storm.blow()
            operator.kill()
        drop_lease(plane)
    with OperatorProcess(rights):
        storm.check()


@pytest.mark.extended
def test_an_api_server_that_restarts_is_waited_for(
    plane: ControlPlane, rights: Path, room: Namespace
) -> None:
    storm = Storm(room, seed=6)
    with OperatorProcess(rights) as operator:
        operator.wait_until_leading()
        for _ in range(3):
            for _ in range(5):
                storm.blow()
            plane.restart_apiserver()
        storm.check(timeout=240, revive=operator)
        assert operator.get_health("/healthz")[0] == 200


@pytest.mark.extended
def test_tasks_of_a_federation_that_is_gone_are_cleared_away_in_the_end(
    rights: Path, room: Namespace, proxy: FaultProxy
) -> None:
    """Nothing but the failed attempt itself reminds the operator of them."""
    labels = {"app.kubernetes.io/managed-by": "flower-operator"}
    labels |= {"flower.flwr.ai/federation": "gone", "flower.flwr.ai/component": "serverapp"}
    pod = {
        "metadata": {"name": "flwr-taskexecutor-1-a", "labels": labels},
        "spec": {"containers": [{"name": "taskexecutor", "image": "x"}]},
    }
    with OperatorProcess(proxy.kubeconfig_from(rights)) as operator:
        operator.wait_until_leading()
        deletes = lambda each: each.method == "DELETE"  # noqa: E731
        proxy.faults = Faults(applies_to=deletes, error_fractions={503: 1.0})
        status, _ = room.cluster.request("POST", f"/api/v1/namespaces/{room.name}/pods", pod)
        assert status == 201
        wait_until(
            lambda: any("not reconciled" in each["message"] for each in operator.log()),
            "the operator did not try",
        )
        proxy.faults = Faults()
        wait_until(lambda: not room.pods(), "the task stays")


@pytest.mark.extended
@pytest.mark.parametrize("trouble", ["cut", "gone watches", "gone events"])
def test_a_watch_that_breaks_loses_nothing(
    rights: Path, room: Namespace, proxy: FaultProxy, trouble: str
) -> None:
    storm = Storm(room, seed=7)
    with OperatorProcess(proxy.kubeconfig_from(rights)) as operator:
        operator.wait_until_leading()
        for _ in range(6):
            if trouble == "gone watches":
                proxy.faults = Faults(gone_watches=10)
            elif trouble == "gone events":
                proxy.faults = Faults(gone_events=8)
            assert proxy.cut_watches() > 0
            for _ in range(4):
                storm.blow()
            wait_until(lambda: len(proxy.open_watches) >= 9, "the watches are not back")
        storm.check()


@pytest.mark.extended
def test_a_federation_deleted_while_nobody_watched_is_forgotten(
    rights: Path, room: Namespace, proxy: FaultProxy
) -> None:
    """It is not in the list that follows, and must not be made again."""
    with OperatorProcess(proxy.kubeconfig_from(rights)) as operator:
        operator.wait_until_leading()
        room.apply(manifest("lab"))
        room.wait_until_ready("lab")
        proxy.faults = Faults(applies_to=lambda each: each.is_watch, error_fractions={503: 1.0})
        proxy.cut_watches()
        room.delete("lab")
        wait_until(lambda: not room.children(), "children stay")
        proxy.faults = Faults(gone_watches=10)
        wait_until(lambda: len(proxy.open_watches) >= 9, "the watches are not back")
        proxy.clear()
        room.apply(manifest("other"))
        room.wait_until_ready("other")
        assert set(room.children()) == {
            ("Service", "other-superlink"),
            ("Deployment", "other-superlink"),
            ("StatefulSet", "other-supernode-default"),
        }


def is_write(request: Request) -> bool:
    return request.method != "GET" and "/leases" not in request.path


# Each kind of fault by itself is tested on the API server in memory.
@pytest.mark.extended
@pytest.mark.parametrize(
    "faults",
    [
        Faults(is_write, delay_seconds=0.5),
        Faults(
            lambda each: "/leases" not in each.path,
            error_fractions={409: 0.05, 429: 0.05, 500: 0.05, 503: 0.05},
            lost_answer_fraction=0.05,
        ),
    ],
    ids=["slow", "all at once"],
)
def test_bad_answers_delay_but_do_not_mislead(
    rights: Path, room: Namespace, proxy: FaultProxy, faults: Faults
) -> None:
    storm = Storm(room, seed=8)
    with OperatorProcess(proxy.kubeconfig_from(rights)) as operator:
        operator.wait_until_leading()
        proxy.faults = faults
        for _ in range(20):
            storm.blow()
        wait_until(lambda: hit(proxy, faults), "no request met a fault", timeout=30)
        proxy.faults = Faults()
        storm.check()
        assert "Traceback" not in operator.output()


def hit(proxy: FaultProxy, faults: Faults) -> bool:
    if faults.delay_seconds:
        return sum(map(is_write, proxy.requests)) > 10
    return sum(each.fault is not None for each in proxy.requests) > 5


def test_one_federation_that_is_refused_delays_no_other(
    rights: Path, room: Namespace, proxy: FaultProxy
) -> None:
    with OperatorProcess(proxy.kubeconfig_from(rights)) as operator:
        operator.wait_until_leading()

        def refused(each: Request) -> bool:
            return is_write(each) and "/bad-" in each.path

        proxy.faults = Faults(refused, error_fractions={500: 1.0})
        room.apply(manifest("bad"))
        for number in range(5):
            name = f"good-{number}"
            room.apply(manifest(name))
            room.wait_until_ready(name)
        federation = room.wait_for_condition("bad", "Degraded", "True", "Refused")
        assert "Service bad-superlink" in str(federation["status"]["conditions"])
        attempts = [each for each in proxy.requests if refused(each)]
        assert len(attempts) < 40, "it does not wait between its attempts"
        proxy.faults = Faults()
        room.wait_until_ready("bad", timeout=90)


class Replicas:
    """Two operators, each behind a proxy that notes what it does; the first one leads."""

    def __init__(self, plane: ControlPlane, rights: Path) -> None:
        self._plane = plane
        self._rights = rights

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.one, self.two = (
                stack.enter_context(FaultProxy(self._plane.kubeconfig)) for _ in range(2)
            )
            kubeconfig = self.one.kubeconfig_from(self._rights)
            self.first = stack.enter_context(OperatorProcess(kubeconfig))
            self.first.wait_until_leading()
            kubeconfig = self.two.kubeconfig_from(self._rights)
            self.second = stack.enter_context(OperatorProcess(kubeconfig))
            wait_until(lambda: self.second.ready, "the second replica is not ready")
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def check_turns(self) -> None:
        """The second has written, and only after the first was done with it."""
        last_of_first = max(each.started for each in self.one.requests if is_write(each))
        first_of_second = min(each.started for each in self.two.requests if is_write(each))
        assert last_of_first < first_of_second


@pytest.mark.extended
def test_a_second_replica_takes_over_and_never_do_both_write(
    plane: ControlPlane, rights: Path, room: Namespace
) -> None:
    storm = Storm(room, seed=9)
    with Replicas(plane, rights) as replicas:
        for _ in range(10):
            storm.blow()
        storm.check()
        assert not [each for each in replicas.two.requests if is_write(each)]
        replicas.first.kill()
        wait_until(lambda: replicas.second.leading, "nobody leads")
        for _ in range(10):
            storm.blow()
        storm.check()
        replicas.check_turns()


@pytest.mark.extended
def test_a_leader_that_is_cut_off_stops_before_another_begins(
    plane: ControlPlane, rights: Path, room: Namespace
) -> None:
    """It lives on and would like to write, but cannot know whether it still leads."""
    storm = Storm(room, seed=10)
    with Replicas(plane, rights) as replicas:
        replicas.one.faults = Faults(
            lambda each: "/leases" in each.path, error_fractions={503: 1.0}
        )
        while not replicas.second.leading:
            storm.blow()
        storm.check()
        replicas.check_turns()


@pytest.mark.extended
def test_what_an_operator_before_us_made_is_taken_over(rights: Path, room: Namespace) -> None:
    """Fields of its own that nobody wants any more must not stay in between ours."""
    document = manifest("lab")
    uid = room.apply(document)["metadata"]["uid"]
    owner = {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": "lab",
        "uid": uid,
        "controller": True,
    }
    for child in rendered(document, room.name):
        resource = CHILDREN[child["kind"]]
        metadata = child["metadata"] | {"ownerReferences": [owner]}
        child = copy.deepcopy(child | {"metadata": metadata})
        if "template" in child["spec"]:
            child["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c"]
        else:
            child["spec"]["ports"].append({"name": "theirs", "port": 1})
        status, answer = room.cluster.request("POST", resource.path(room.name), child)
        assert status == 201, answer
    with OperatorProcess(rights):
        room.wait_until_ready("lab")
        there = room.children()
        for kind, name in (("Deployment", "lab-superlink"), ("StatefulSet", POOL)):
            assert "command" not in there[kind, name]["spec"]["template"]["spec"]["containers"][0]
        assert len(there["Service", "lab-superlink"]["spec"]["ports"]) == 2
        assert there["Deployment", "lab-superlink"]["metadata"]["ownerReferences"][0]["uid"] == uid


def test_a_clean_end_hands_over_at_once(plane: ControlPlane, rights: Path, room: Namespace) -> None:
    with OperatorProcess(rights) as first:
        first.wait_until_leading()
        assert first.stop() == 0
    _, lease = plane.request("GET", LEASE.path(NAMESPACE, "flower-operator"))
    assert lease["spec"]["holderIdentity"] == "", "the next one would wait until it expires"
    with OperatorProcess(rights) as second:
        second.wait_until_leading()


def test_a_restart_changes_nothing(rights: Path, room: Namespace, proxy: FaultProxy) -> None:
    storm = Storm(room, seed=11)
    with OperatorProcess(rights) as operator:
        operator.wait_until_leading()
        for _ in range(15):
            storm.blow()
        storm.check()
        operator.stop()
    with OperatorProcess(proxy.kubeconfig_from(rights)) as operator:
        operator.wait_until_leading()
        room.apply(manifest("last"))
        room.wait_until_ready("last")
        written = [
            each.path for each in proxy.requests if is_write(each) and room.name in each.path
        ]
        assert [path for path in written if "/last" not in path and "/events" not in path] == []
