"""The controller while requests fail, watches break and processes are killed: it converges."""

import asyncio
import random
from collections.abc import Callable

import pytest

from flower_operator.kube.errors import ApiError, NotLeader
from flower_operator.kube.resources import DEPLOYMENT, POD, SERVICE, STATEFUL_SET, Resource
from flower_operator.operator.desired import FEDERATION
from tests.harness.memory_api import Fault, Request
from tests.unit.federations import Document, document
from tests.unit.memory_cluster import NAMESPACE, Cluster, play
from tests.unit.virtual_time import now

FEDERATIONS = 4
LATENCY = 0.3
CODES = (409, 410, 422, 429, 500, 503)


def named(name: str, **fields: object) -> Document:
    return document(**fields) | {"metadata": {"name": name}}  # type: ignore[arg-type]


class Storm:
    """Federations and their children, created, changed and deleted in a random order."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.wanted: dict[str, Document] = {}
        self._cluster = cluster
        self._random = random.Random(seed)

    async def rage(self, steps: int) -> None:
        actions = [
            *[self._apply] * 5,
            *[self._delete] * 2,
            *[self._delete_child] * 2,
            *[self._edit_child] * 2,
            self._cut_watches,
            self._forget_history,
            self._restart,
        ]
        for _ in range(steps):
            try:
                await self._random.choice(actions)()
            except ApiError as error:
                assert error.code == 404, error  # the object has gone in between
            await asyncio.sleep(self._random.choice((0.0, 0.01, 0.2, 1.0, 3.0)))

    async def _apply(self) -> None:
        name = f"f{self._random.randrange(FEDERATIONS)}"
        mode = self._random.choice(["StatefulSet", "DaemonSet"])
        pools = []
        for pool in self._random.sample(["a", "b", "c"], self._random.randint(1, 3)):
            config = {"nodeConfig": {"number": f"{self._random.randrange(3)}-{{pool}}"}}
            replicas = {"replicas": self._random.randint(1, 2)} if mode == "StatefulSet" else {}
            pools.append({"name": pool, **config, **replicas})
        service = {"type": self._random.choice(["ClusterIP", "NodePort"])}
        suspend = self._random.random() < 0.1
        manifest = document(mode, superlink={"service": service}, pools=pools, suspend=suspend)
        self.wanted[name] = manifest | {"metadata": {"name": name}}
        await self._cluster.apply(self.wanted[name])

    async def _delete(self) -> None:
        if self.wanted:
            name = self._random.choice(sorted(self.wanted))
            del self.wanted[name]
            await self._cluster.delete(FEDERATION, name)

    async def _delete_child(self) -> None:
        resource = self._random.choice([SERVICE, DEPLOYMENT, STATEFUL_SET, POD])
        if bodies := self._cluster.server.objects(resource, NAMESPACE):
            await self._cluster.delete(resource, self._random.choice(bodies)["metadata"]["name"])

    async def _edit_child(self) -> None:
        edits: list[tuple[Resource, Document]] = [
            (SERVICE, {"spec": {"selector": {"theirs": "x"}}}),
            (DEPLOYMENT, {"spec": {"replicas": 0}}),
            (STATEFUL_SET, {"spec": {"replicas": 7}}),
            (STATEFUL_SET, {"metadata": {"labels": {"flower.flwr.ai/component": None}}}),
            (DEPLOYMENT, {"metadata": {"annotations": {"flower.flwr.ai/applied": None}}}),
        ]
        resource, changes = self._random.choice(edits)
        if bodies := self._cluster.server.objects(resource, NAMESPACE):
            name = self._random.choice(bodies)["metadata"]["name"]
            await self._cluster.patch(resource, name, changes)

    async def _cut_watches(self) -> None:
        self._cluster.server.cut_watches()

    async def _forget_history(self) -> None:
        self._cluster.server.forget_history()
        self._cluster.server.cut_watches()

    async def _restart(self) -> None:
        await self._cluster.kill_operator()
        self._cluster.start_operator()

    async def check(self) -> None:
        """Exactly what is rendered exists, is reported as such, and is left alone."""
        await self._cluster.until_as_rendered(*self.wanted.values(), seconds=900)
        ready = [name for name, manifest in self.wanted.items() if not manifest["spec"]["suspend"]]
        if ready:
            await self._cluster.until_ready(*ready, seconds=600)
        await self._cluster.writes_within(40)
        assert await self._cluster.writes_within(40) == []
        assert self._cluster.differences(self.wanted.values()) == []


def faults(seed: int, chance: float, *kinds: Fault) -> Callable[[Request], Fault | None]:
    """Random faults of these kinds, for requests of the operator."""
    numbers = random.Random(seed)

    def fault(request: Request) -> Fault | None:
        if request.manager != "flower-operator" or "/leases" in request.path:
            return None
        return numbers.choice(kinds) if numbers.random() < chance else None

    return fault


def storm(seed: int, chance: float, *kinds: Fault, steps: int = 20) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        tempest = Storm(cluster, seed)
        if kinds:
            cluster.server.fault = faults(seed, chance, *kinds)
        await tempest.rage(steps)
        cluster.server.fault = lambda request: None
        await tempest.check()

    play(scenario, seed=seed, longest_latency=LATENCY)


@pytest.mark.parametrize("seed", range(6))
def test_changes_in_any_order_converge(seed: int) -> None:
    storm(seed, 0.0)


@pytest.mark.parametrize("code", CODES)
def test_answers_with_errors_delay_and_do_not_mislead(code: int) -> None:
    storm(100 + code, 0.3, Fault(code=code))


@pytest.mark.parametrize("seed", range(2))
def test_lost_answers_delay_and_do_not_mislead(seed: int) -> None:
    storm(200 + seed, 0.3, Fault(lost=True))


@pytest.mark.parametrize("seed", range(4))
def test_all_faults_together_converge(seed: int) -> None:
    kinds = [Fault(code=code) for code in CODES]
    storm(300 + seed, 0.3, *kinds, Fault(lost=True), Fault(seconds=5.0))


def test_a_federation_that_is_refused_delays_no_other() -> None:
    async def scenario(cluster: Cluster) -> None:
        def refuse(request: Request) -> Fault | None:
            return Fault(code=500) if request.is_write and "/bad-" in request.path else None

        cluster.server.fault = refuse
        cluster.start_operator()
        await cluster.apply(named("bad"))
        for number in range(4):
            await cluster.apply(named(f"good-{number}"))
            await cluster.until_ready(f"good-{number}", seconds=3)
        await cluster.until(
            lambda: cluster.reason("Degraded", "bad") == "Refused", "it is not told"
        )
        await asyncio.sleep(120)
        attempts = [each for each in cluster.writes() if "/bad-" in each.path]
        assert 10 < len(attempts) < 60, "it does not wait longer after each attempt"
        cluster.server.fault = lambda request: None
        await cluster.until_ready("bad", seconds=90)

    play(scenario)


def test_an_error_that_passes_is_not_reported() -> None:
    async def scenario(cluster: Cluster) -> None:
        failed: list[str] = []

        def fail_once(request: Request) -> Fault | None:
            ours = request.manager == "flower-operator" and request.is_write
            told = request.path.endswith(("/events", "/status"))
            if not ours or told or request.path in failed:
                return None
            failed.append(request.path)
            return Fault(code=503)

        cluster.server.fault = fail_once
        cluster.start_operator()
        await cluster.apply(document())
        await cluster.until_ready(seconds=5)
        assert len(failed) == 3
        assert cluster.events() == ["Ready"]

    play(scenario)


def test_a_federation_deleted_while_nobody_watched_is_forgotten() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        await cluster.apply(document())
        await cluster.until_ready()
        cluster.server.fault = lambda request: Fault(code=503) if request.is_watch else None
        cluster.server.cut_watches()
        await asyncio.sleep(5)
        await cluster.delete(FEDERATION, "fed")
        await cluster.until(lambda: not cluster.children(), "children stay")
        cluster.server.forget_history()
        cluster.server.fault = lambda request: None
        await cluster.apply(named("other"))
        await cluster.until_ready("other")
        await cluster.writes_within(60)
        assert {name for _, name in cluster.children()} == {
            "other-superlink",
            "other-supernode-default",
        }

    play(scenario)


def test_a_leader_that_is_cut_off_from_its_lease_stops_writing() -> None:
    async def scenario(cluster: Cluster) -> None:
        first = cluster.start_operator()
        await cluster.apply(document())
        await cluster.until_ready()
        cut = now()
        cluster.server.fault = lambda request: (
            Fault(code=503) if "/leases" in request.path else None
        )
        for number in range(20):
            await cluster.apply(document(pool={"nodeConfig": {"number": str(number)}}))
            await asyncio.sleep(1.0)
        assert cluster.writes()[-1].time < cut + 10
        cluster.operators.remove(first)
        with pytest.raises(NotLeader):
            await first.task
        cluster.server.fault = lambda request: None
        cluster.start_operator()
        await cluster.until_as_rendered(document(pool={"nodeConfig": {"number": "19"}}))

    play(scenario)


def test_a_server_that_does_not_answer_at_first_is_waited_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.server.fault = lambda request: (
            Fault(code=503) if request.manager == "flower-operator" else None
        )
        cluster.start_operator()
        await cluster.apply(document())
        await asyncio.sleep(30)
        assert cluster.children() == {}
        cluster.server.fault = lambda request: None
        await cluster.until_ready(seconds=30)

    play(scenario)
