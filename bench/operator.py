"""The operator under load: many Federations on kwok nodes, beside the same objects made directly.

The operator asks every SuperLink who is connected, as it does inside a cluster: kwok's pods answer
nothing, so one server here answers for all, and says that both SuperNodes are.

In one namespace, and in as many as make a hundred for each: for each change of a pod or a
Deployment Kubernetes' own controllers look at all the Services, pods or ReplicaSets of its
namespace, so what they do grows faster than the number of Federations there.

python -m bench.operator [COUNT[/COUNT IN EACH NAMESPACE]...]
"""

import asyncio
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec
from aiohttp import web

from flower_operator.api.types import Federation
from flower_operator.flower.control import ONLINE
from flower_operator.kube.applied import Owner, owned
from flower_operator.kube.cache import Cache
from flower_operator.kube.client import Client
from flower_operator.kube.connection import connect
from flower_operator.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    SERVICE,
    STATEFUL_SET,
    Resource,
)
from flower_operator.operator.desired import CHILDREN, FEDERATION
from flower_operator.render import Facts, render
from scripts.manifests import CRD, ROOT, small_federation
from tests.harness.control_plane import ControlPlane
from tests.harness.https_client import LOOPBACK
from tests.harness.operator_process import OperatorProcess
from tests.harness.ports import free_port
from tests.harness.waiting import wait_for

NODES = 10
AT_ONCE = 16
EDITS = 50
REST_SECONDS = 120
GIVE_UP_SECONDS = 1800
SUPERNODES = 2


@dataclass(frozen=True)
class Load:
    count: int
    in_each: int
    """In each namespace."""

    @classmethod
    def of(cls, text: str) -> Self:
        count, _, in_each = text.partition("/")
        return cls(int(count), int(in_each or count))

    @property
    def namespaces(self) -> list[str]:
        return sorted({self.namespace(number) for number in range(self.count)})

    def namespace(self, number: int) -> str:
        return f"team-{number // self.in_each}"

    def federation(self, number: int) -> dict[str, Any]:
        document = _bare(number).model_dump(by_alias=True, exclude_unset=True)
        document["metadata"]["namespace"] = self.namespace(number)
        return document

    def children(self, number: int) -> list[dict[str, Any]]:
        objects = list(render(_bare(number), Facts()).objects)
        for each in objects:
            each["metadata"]["namespace"] = self.namespace(number)
        return objects

    def __str__(self) -> str:
        return f"{self.count:,}"


LOADS = (Load(1000, 1000), Load(100, 100), Load(1000, 100), Load(3000, 100))


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: int = 0


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    ready_replicas: int = 0
    observed_generation: int = 0


class _Spec(msgspec.Struct):
    replicas: int = 1


class Seen(msgspec.Struct):
    """Enough of a Federation or a workload to tell whether it is ready."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def federation_ready(self) -> bool:
        conditions = {each.type: each.status for each in self.status.conditions or ()}
        current = self.status.observed_generation == self.metadata.generation
        return current and conditions.get("Ready") == "True"

    @property
    def workload_ready(self) -> bool:
        return self.status.ready_replicas == self.spec.replicas


@dataclass
class Figures:
    load: Load
    floor: float
    floor_cpu: float
    ready: float
    cpu: float
    memory: float
    polls: int
    rest_writes: int
    rest_cpu: float
    restart: float
    restart_writes: int
    edit_median: float
    edit_p99: float


def main(loads: Sequence[Load] = LOADS) -> None:
    print("Federations on kwok nodes: StatefulSet, process isolation, one pool of 2")
    figures = [measure(load) for load in loads]
    rows: list[tuple[str, Callable[[Figures], str]]] = [
        ("in each namespace", lambda f: f"{f.load.in_each:,}"),
        ("floor: the same children by a bulk client, s", lambda f: f"{f.floor:.1f}"),
        ("all Ready, s", lambda f: f"{f.ready:.1f}"),
        ("  over the floor", lambda f: f"{f.ready / f.floor:.2f} x"),
        ("operator CPU until all Ready, s", lambda f: f"{f.cpu:.1f}"),
        ("  CPU of the bulk client, s", lambda f: f"{f.floor_cpu:.1f}"),
        ("operator memory, MiB", lambda f: f"{f.memory:.0f}"),
        ("times that SuperLinks were asked until all Ready", lambda f: f"{f.polls:,}"),
        (f"writes at rest in {REST_SECONDS} s, the Lease aside", lambda f: f"{f.rest_writes}"),
        ("operator CPU at rest per 60 s, s", lambda f: f"{f.rest_cpu:.2f}"),
        ("restart until synced, s", lambda f: f"{f.restart:.1f}"),
        ("  writes of that, the Lease aside", lambda f: f"{f.restart_writes}"),
        ("one edit until applied, median, ms", lambda f: f"{f.edit_median * 1000:.0f}"),
        ("one edit until applied, p99, ms", lambda f: f"{f.edit_p99 * 1000:.0f}"),
    ]
    print(f"  {'Federations':<46}" + "".join(f"{each.load!s:>10}" for each in figures))
    for title, cell in rows:
        print(f"  {title:<46}" + "".join(f"{cell(each):>10}" for each in figures))


def measure(load: Load) -> Figures:
    """Between two floors, for a machine may be slower at times: their mean is the floor."""
    before, floor_cpu = _measure_floor(load)
    with ControlPlane(controllers=True, nodes=NODES) as cluster:
        cluster.kubectl("apply", "-f", str(CRD))
        wait_for(lambda: _served(cluster), "the CRD is not served", timeout=30)
        _make_namespaces(cluster, load)
        asyncio.run(_warm_up(cluster, load))
        figures = asyncio.run(_operator(cluster, load, before, floor_cpu))
    after, _ = _measure_floor(load)
    print(f"  {load}: floor again {after:.1f} s", flush=True)
    return replace(figures, floor=(before + after) / 2)


def _measure_floor(load: Load) -> tuple[float, float]:
    with ControlPlane(controllers=True, nodes=NODES) as cluster:
        _make_namespaces(cluster, load)
        return asyncio.run(_floor(cluster, load))


async def _floor(cluster: ControlPlane, load: Load) -> tuple[float, float]:
    """Seconds, and CPU of the client, for the children alone."""
    objects = [each for number in range(load.count) for each in load.children(number)]
    async with _client(cluster) as client, _following(client, DEPLOYMENT, STATEFUL_SET) as caches:
        started, cpu = time.monotonic(), time.process_time()

        async def create(each: dict[str, Any]) -> None:
            await client.create(CHILDREN[each["kind"]], each["metadata"]["namespace"], each)

        await _all_at_once(objects, create)
        await _until(
            lambda: all(
                len(cache) == load.count and all(one.workload_ready for one in cache.values())
                for cache in caches
            )
        )
        return time.monotonic() - started, time.process_time() - cpu


async def _operator(cluster: ControlPlane, load: Load, floor: float, floor_cpu: float) -> Figures:
    async with (
        _client(cluster) as client,
        _following(client, FEDERATION) as (federations,),
        _superlink() as superlink,
    ):
        program = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "bench.polled_operator")

        def operator_process() -> OperatorProcess:
            return OperatorProcess(cluster.kubeconfig, program=(*program, superlink.address))

        def all_ready() -> bool:
            return len(federations) == load.count and all(
                each.federation_ready for each in federations.values()
            )

        async def create(each: dict[str, Any]) -> None:
            await client.create(FEDERATION, each["metadata"]["namespace"], each)

        documents = [load.federation(number) for number in range(load.count)]
        with operator_process() as operator:
            operator.wait_until_leading()
            started, cpu = time.monotonic(), operator.cpu()
            await _all_at_once(documents, create)
            await _until(all_ready)
            ready, cpu = time.monotonic() - started, operator.cpu() - cpu
            polls = superlink.polls
            memory = operator.memory()
            print(
                f"  {load}: floor {floor:.1f} s, Ready {ready:.1f} s, {cpu:.1f} CPU-s",
                flush=True,
            )
            rest_writes, rest_cpu = await _rest(cluster, operator)
            edits = []
            for number in _some(load.count):  # one at a time: the next when this one has rolled out
                edits.append(await _edit(client, load, number))
                await _until(all_ready)
        with operator_process() as operator:
            operator.wait_until_leading()
            restart = time.monotonic() - operator.started
            await asyncio.sleep(2)
            restart_writes = operator.writes(cluster.token)
        return Figures(
            load=load,
            floor=floor,
            floor_cpu=floor_cpu,
            ready=ready,
            cpu=cpu,
            memory=memory,
            polls=polls,
            rest_writes=rest_writes,
            rest_cpu=rest_cpu,
            restart=restart,
            restart_writes=restart_writes,
            edit_median=statistics.median(edits),
            edit_p99=statistics.quantiles(edits, n=100)[98],
        )


@dataclass
class _SuperLink:
    """What every SuperLink says."""

    address: str
    polls: int = 0

    async def list_nodes(self, request: web.Request) -> web.Response:
        self.polls += 1
        return web.Response(body=_NODES, content_type="application/protobuf")


def _node(number: int) -> bytes:
    """As protobuf: its id in field 1, its status in field 4."""
    return bytes([1 << 3, number, 4 << 3 | 2, len(ONLINE)]) + ONLINE.encode()


def _entry(message: bytes) -> bytes:
    return bytes([1 << 3 | 2, len(message)]) + message


_NODES = b"".join(_entry(_node(number)) for number in range(1, SUPERNODES + 1))


@asynccontextmanager
async def _superlink() -> AsyncIterator[_SuperLink]:
    port = free_port()
    superlink = _SuperLink(f"{LOOPBACK}:{port}")
    application = web.Application()
    application.router.add_post("/v1/control/list-nodes", superlink.list_nodes)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
        yield superlink
    finally:
        await runner.cleanup()


def _make_namespaces(cluster: ControlPlane, load: Load) -> None:
    for name in load.namespaces:
        cluster.kubectl("create", "namespace", name)
    path = "/api/v1/serviceaccounts?fieldSelector=metadata.name=default"

    def accounts() -> set[str]:
        items = cluster.request("GET", path)[1]["items"]
        return {each["metadata"]["namespace"] for each in items}

    wait_for(
        lambda: accounts().issuperset(load.namespaces),
        "a namespace has no ServiceAccount",
        timeout=60,
    )


async def _warm_up(cluster: ControlPlane, load: Load) -> None:
    """Wait for the garbage collector, which looks for new kinds twice a minute."""
    async with _client(cluster) as client:
        namespace = load.namespace(0)
        created = await client.create(FEDERATION, namespace, load.federation(0))
        metadata = msgspec.json.decode(created)["metadata"]
        owner = Owner(FEDERATION.api_version, FEDERATION.kind, metadata["name"], metadata["uid"])
        child = {"kind": "ConfigMap", "metadata": {"name": "child", "namespace": namespace}}
        await client.create(CONFIG_MAP, namespace, owned(child, owner))
        await client.delete(FEDERATION, namespace, owner.name, owner.uid, "Background")
        path = CONFIG_MAP.path(namespace, "child")
        await _until(lambda: cluster.request("GET", path)[0] == 404)


async def _rest(cluster: ControlPlane, operator: OperatorProcess) -> tuple[int, float]:
    """Writes, by the operator's own account and by what changed, and CPU for a minute."""
    await asyncio.sleep(5)
    writes, cpu, versions = operator.writes(cluster.token), operator.cpu(), _versions(cluster)
    await asyncio.sleep(REST_SECONDS)
    changed = sum(versions.get(key) != value for key, value in _versions(cluster).items())
    writes = operator.writes(cluster.token) - writes
    return max(writes, changed), (operator.cpu() - cpu) * 60 / REST_SECONDS


def _versions(cluster: ControlPlane) -> dict[str, str]:
    """The version of everything that the operator might write."""
    result = {}
    for resource in (FEDERATION, SERVICE, DEPLOYMENT, STATEFUL_SET, EVENT):
        answer = cluster.request("GET", resource.path())[1]
        for each in answer["items"]:
            metadata = each["metadata"]
            ours = resource != EVENT or each["source"].get("component") == "flower-operator"
            if ours:
                key = f"{resource.plural}/{metadata['namespace']}/{metadata['name']}"
                result[key] = metadata["resourceVersion"]
    return result


def _some(count: int) -> list[int]:
    return random.Random(7).sample(range(count), min(EDITS, count))


async def _edit(client: Client, load: Load, number: int) -> float:
    """Seconds from the answer to an edit until the StatefulSet has it."""
    path = STATEFUL_SET.path(load.namespace(number))
    now = msgspec.json.decode(await client.get(path, limit="1"))
    version = now["metadata"]["resourceVersion"]
    edited: list[float] = []

    async def edit() -> None:
        body = load.federation(number)
        body["spec"]["supernodes"]["pools"][0]["nodeConfig"] = {"edited": "true"}
        await client.apply(FEDERATION, body)
        edited.append(time.monotonic())

    async with client.watch(
        path,
        watch="1",
        resourceVersion=version,
        fieldSelector=f"metadata.name={_name(number)}-supernode-default",
    ) as lines:
        editing = asyncio.create_task(edit())
        async for line in lines:
            if b"edited=true" in line:
                seen = time.monotonic()
                break
        await editing
    return max(seen - edited[0], 0.0)


def _bare(number: int) -> Federation:
    return small_federation(_name(number), "1.41.0", "process", insecure=True)


def _name(number: int) -> str:
    return f"federation-{number}"


def _served(cluster: ControlPlane) -> bool:
    return cluster.request("GET", FEDERATION.path())[0] == 200


@asynccontextmanager
async def _client(cluster: ControlPlane) -> AsyncIterator[Client]:
    async with Client(connect(cluster.kubeconfig), "bench") as client:
        yield client


@asynccontextmanager
async def _following(
    client: Client, *resources: Resource
) -> AsyncIterator[list[Cache[Seen, Seen]]]:
    caches: list[Cache[Seen, Seen]] = [
        Cache(client, resource, Seen, lambda seen: seen) for resource in resources
    ]
    tasks = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        for cache in caches:
            await cache.wait_until_synced()
        yield caches
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _all_at_once(items: list[Any], work: Callable[[Any], Awaitable[None]]) -> None:
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(GIVE_UP_SECONDS):
        while not condition():
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    main([Load.of(each) for each in sys.argv[1:]] or LOADS)
