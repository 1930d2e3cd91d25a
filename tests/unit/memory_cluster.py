"""The real controller on a cluster in memory, on a clock that leaps from event to event."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

from flower_operator.api.manifest import parse
from flower_operator.control import Unreachable
from flower_operator.flower.control import Node, Run
from flower_operator.flower.dialects import Dialect
from flower_operator.kube.connection import Connection
from flower_operator.kube.lease import Election
from flower_operator.kube.resources import CERTIFICATE, CONFIG_MAP, EVENT, POD, SECRET, Resource
from flower_operator.operator.controller import Controller, Options
from flower_operator.operator.desired import CHILDREN, FEDERATION
from flower_operator.operator.maker import Maker
from flower_operator.render import Facts, render
from flower_operator.render.admin_limits import NO_LIMITS, Limits
from flower_operator.render.facts import Identities
from flower_operator.render.secrets import KEYS
from flower_operator.trust.certificates import make_key_pair
from flower_operator.trust.given import Inspected
from flower_operator.trust.inspection import inspect
from flower_operator.trust.keys import KeyPair, keyring_name, read_keyring
from flower_operator.trust.layout import Files, Part, Stored, decode_secret, pool_secret_name
from flower_operator.trust.records import State, read_secret, read_state
from flower_operator.trust.steps import Change, Task, perform
from tests.harness.memory_api import Controllers, MemoryApiServer, MemoryClient, Request
from tests.harness.memory_api.controllers import POD_INDEX, is_ready
from tests.harness.memory_api.server import random_latency
from tests.unit.virtual_time import now, run

Document = dict[str, Any]

NAMESPACE = "team"
START = datetime(2026, 1, 1, tzinfo=UTC)
POLL_SECONDS = 0.1
PREFIX = "flower.flwr.ai"
HEAD = {"apiVersion", "kind", "metadata", "status"}


class InProcessMaker(Maker):
    """Makes certificates and keys without a process of its own."""

    async def make(self, task: Task) -> Change:
        return perform(task)

    async def make_pairs(self, names: Sequence[str]) -> dict[str, KeyPair]:
        return {name: make_key_pair() for name in names}

    async def inspect(self, files: Files) -> Inspected:
        return inspect(files)


@dataclass
class SuperLinks:
    """The Control API of every SuperLink whose pod is ready."""

    server: MemoryApiServer
    runs: list[Run] = field(default_factory=list)
    registered: list[Node] = field(default_factory=list)
    reachable: bool = True
    asked: list[str] = field(default_factory=list)
    """The Federation of each question, in order."""
    absent: int = 0
    """How many SuperNodes without keys run and do not connect."""

    def client(
        self, dialect: Dialect, address: str, timeout: float, roots: str | None, supernodes: int
    ) -> "_SuperLinkClient":
        self.asked.append(address.partition("-superlink.")[0])
        return _SuperLinkClient(self, address.partition("-superlink.")[0])

    def start_run(self) -> None:
        self.runs.append(Run(len(self.runs) + 1, "running", ""))

    def finish_runs(self) -> None:
        self.runs = [replace(each, status="finished") for each in self.runs]


@dataclass
class _SuperLinkClient:
    links: SuperLinks
    federation: str

    async def nodes(self) -> list[Node]:
        pods = [pod for pod in self._pods("superlink") if is_ready(pod)]
        if not pods or not self.links.reachable:
            raise Unreachable("connection refused")
        if self.links.registered:
            running = [pod for pod in self._pods("supernode") if is_ready(pod)]
            return [
                replace(node, status="online")
                if any(self._uses_key(pod, node) for pod in running)
                else node
                for node in self.links.registered
            ]
        nodes = [pod for pod in self._pods("supernode") if is_ready(pod)]
        count = max(len(nodes) - self.links.absent, 0)
        return [Node(number, "online", None, None) for number in range(count)]

    async def register(self, public_key: bytes, name: str) -> int:
        number = len(self.links.registered) + 1
        self.links.registered.append(Node(number, "registered", public_key, name))
        return number

    async def unregister(self, node_id: int) -> None:
        self.links.registered = [
            replace(node, status="unregistered") if node.id == node_id else node
            for node in self.links.registered
        ]

    async def runs(self) -> list[Run]:
        return self.links.runs

    async def close(self) -> None:
        pass

    def _pods(self, component: str) -> list[Document]:
        labels = {f"{PREFIX}/federation": self.federation, f"{PREFIX}/component": component}
        return [
            pod
            for pod in self.links.server.objects(POD)
            if labels.items() <= pod["metadata"]["labels"].items()
            and not pod["metadata"].get("deletionTimestamp")
        ]

    def _uses_key(self, pod: Document, node: Node) -> bool:
        """Whether a pod's SuperNode has the key that was registered as this node."""
        labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        pool, index = labels[f"{PREFIX}/pool"], labels.get(POD_INDEX, "")
        if node.status != "registered" or node.name != f"{pool}-{index}":
            return False
        name = keyring_name(self.federation, pool)
        secret = self.links.server.get(SECRET, pod["metadata"]["namespace"], name)
        ring = read_keyring(decode_secret(secret["data"])) if secret else None
        key = (node.public_key or b"").decode()
        if ring is None or annotations[KEYS] != ring.round:
            return ring is None or key in ring.retired
        return key == ring.keys.get(index)


class Operator:
    """One replica of the controller."""

    def __init__(self, *, inside: bool, limits: Limits) -> None:
        locate = (lambda address: address) if inside else None
        options = Options(lease_namespace="system", locate=locate, limits=limits)
        self.clients: list[MemoryClient] = []
        self._stop = asyncio.Event()
        self._controller = Controller(Connection("memory:", None, _no_token), options)
        self.task = asyncio.create_task(self._controller.run(self._stop))

    async def stop(self) -> None:
        self._stop.set()
        await self.task

    async def kill(self) -> None:
        """End without a word to the API server: the Lease stays held."""
        for client in self.clients:
            client.cut_off = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def check(self) -> None:
        """Raise the error that ended the controller, if one did."""
        if self.task.done():
            self.task.result()


async def _no_token() -> None:
    return None


class Cluster:
    """An API server, controllers, SuperLinks, and an operator that is started and stopped."""

    def __init__(self, seed: int = 0, longest_latency: float = 0.0) -> None:
        self.server = MemoryApiServer([FEDERATION, CERTIFICATE], self.clock)
        if longest_latency:
            self.server.latency = random_latency(seed, longest_latency)
        self.controllers = Controllers(self.server)
        self.superlinks = SuperLinks(self.server)
        self.user = MemoryClient(self.server, "kubectl")
        self.operators: list[Operator] = []

    def clock(self) -> datetime:
        return START + timedelta(seconds=now())

    # The operator.

    def start_operator(self, *, inside: bool = True, limits: Limits = NO_LIMITS) -> Operator:
        operator = Operator(inside=inside, limits=limits)
        self.operators.append(operator)
        return operator

    def operator_client(
        self, connection: Connection, manager: str, *args: Any, **options: Any
    ) -> MemoryClient:
        """In place of the real Client: it belongs to the operator whose task asks for it."""
        client = MemoryClient(self.server, manager, *args, **options)
        task = asyncio.current_task()
        for operator in self.operators:
            if operator.task is task:
                operator.clients.append(client)
        return client

    async def stop_operator(self) -> None:
        await self.operators.pop().stop()

    async def kill_operator(self) -> None:
        await self.operators.pop().kill()

    # What a user does.

    async def apply(self, document: Document) -> Document:
        """As `kubectl apply` does it: the whole of what is wanted."""
        metadata = {**document["metadata"], "namespace": NAMESPACE}
        await self.user.apply(FEDERATION, {**document, "metadata": metadata})
        return document

    async def delete(self, resource: Resource, name: str, how: str = "Background") -> None:
        await self.user.delete(resource, NAMESPACE, name, None, how)

    async def patch(self, resource: Resource, name: str, changes: Document) -> None:
        await self.user.patch(resource, NAMESPACE, name, changes)

    # What there is.

    def federation(self, name: str = "fed") -> Document:
        federation = self.server.get(FEDERATION, NAMESPACE, name)
        assert federation, f"there is no Federation {name}"
        return federation

    def get(self, resource: Resource, name: str) -> Document | None:
        return self.server.get(resource, NAMESPACE, name)

    def condition(self, kind: str, name: str = "fed") -> Document:
        """A condition of the Federation's current generation, empty if it has none."""
        federation = self.federation(name)
        generation = federation["metadata"]["generation"]
        for condition in federation.get("status", {}).get("conditions", []):
            if condition["type"] == kind and condition["observedGeneration"] == generation:
                result: Document = condition
                return result
        return {}

    def reason(self, kind: str, name: str = "fed") -> str:
        """The reason of a condition that is True, empty if it is not."""
        condition = self.condition(kind, name)
        return condition.get("reason", "") if condition.get("status") == "True" else ""

    def is_ready(self, name: str = "fed") -> bool:
        return self.condition("Ready", name).get("status") == "True"

    def children(self) -> dict[tuple[str, str], Document]:
        """Every object of the kinds that Federations are made of, certificates aside."""
        return {
            (kind, body["metadata"]["name"]): body
            for kind, resource in CHILDREN.items()
            if resource in self.server.resources.values()
            for body in self.server.objects(resource, NAMESPACE)
            if body["metadata"].get("labels", {}).get(f"{PREFIX}/component") != "trust"
        }

    def pods(self, part: str = "") -> list[Document]:
        return [
            pod
            for pod in self.server.objects(POD, NAMESPACE)
            if part in pod["metadata"]["name"] and not pod["metadata"].get("deletionTimestamp")
        ]

    def events(self) -> list[str]:
        """The reasons of the operator's Events, in order."""
        events = [
            each
            for each in self.server.objects(EVENT, NAMESPACE)
            if each["involvedObject"]["kind"] == FEDERATION.kind
        ]
        events.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [each["reason"] for each in events]

    def writes(self) -> list[Request]:
        """What the operator wrote, Leases aside."""
        return [
            request
            for request in self.server.requests
            if request.manager == "flower-operator" and request.is_write
        ]

    # Waiting.

    async def until(
        self,
        check: Callable[[], object],
        what: str | Callable[[], str],
        seconds: float = 120.0,
        every: float = POLL_SECONDS,
    ) -> None:
        end = now() + seconds
        while not check():
            for operator in self.operators:
                operator.check()
            if now() >= end:
                text = what if isinstance(what, str) else what()
                raise AssertionError(f"after {seconds:g} s: {text}")
            await asyncio.sleep(every)

    async def until_ready(self, *names: str, seconds: float = 120.0) -> None:
        for name in names or ("fed",):
            await self.until(partial(self.is_ready, name), partial(self._describe, name), seconds)

    def _describe(self, name: str) -> str:
        return f"{name} is not Ready: {self.status(name)}"

    def status(self, name: str = "fed") -> Any:
        return self.federation(name).get("status")

    async def until_as_rendered(self, *documents: Document, seconds: float = 300.0) -> None:
        end = now() + seconds
        while differences := self.differences(documents):
            for operator in self.operators:
                operator.check()
            assert now() < end, f"after {seconds:g} s: {'; '.join(differences)}"
            await asyncio.sleep(1.0)

    async def writes_within(self, seconds: float) -> list[str]:
        """What the operator writes in the seconds that follow."""
        before = len(self.writes())
        await asyncio.sleep(seconds)
        return [f"{each.method} {each.path}" for each in self.writes()[before:]]

    # What there should be.

    def differences(self, documents: Iterable[Document]) -> list[str]:
        wanted = {
            (body["kind"], body["metadata"]["name"]): body
            for document in documents
            for body in self._rendered(document)
        }
        existing = self.children()
        found = [f"{key} is missing" for key in wanted.keys() - existing.keys()]
        found += [f"{key} is left over" for key in existing.keys() - wanted.keys()]
        for key in wanted.keys() & existing.keys():
            if existing[key]["metadata"].get("deletionTimestamp"):
                found.append(f"{key} is being deleted")
            elif self._would_change(wanted[key], existing[key]):
                found.append(f"{key} differs")
        return found

    def _would_change(self, wanted: Document, existing: Document) -> bool:
        """Whether applying what is wanted would change more than the operator's own note."""
        resource = CHILDREN[wanted["kind"]]
        path = resource.path(NAMESPACE, wanted["metadata"]["name"])
        parameters = {"force": "true", "dryRun": "All"}
        content = "application/apply-patch+yaml"
        request = Request("PATCH", path, "flower-operator", parameters, wanted, content)
        code, answer = self.server.handle(request)
        if code != 200 or existing["metadata"]["labels"] != answer["metadata"]["labels"]:
            return True
        parts = (existing.keys() | answer.keys()) - HEAD
        return any(existing.get(part) != answer.get(part) for part in parts)

    def _rendered(self, document: Document) -> list[Document]:
        facts = Facts(namespace=NAMESPACE, identities=self._identities(document), skupper=False)
        return list(render(parse(document), facts).objects)

    def files(self, name: str, *, secret: bool = True) -> dict[str, str]:
        body = self.get(SECRET if secret else CONFIG_MAP, name) or {"data": {}}
        data: dict[str, str] = body["data"]
        return decode_secret(data) if secret else data

    def trust(self, name: str = "fed") -> State:
        """The certificates of a Federation, as they are stored."""
        parts = (Part.AUTHORITIES, Part.BUNDLE, Part.SERVER, Part.SUPERNODE)
        files = [self.files(part.object_name(name), secret=part.is_secret) for part in parts]
        return read_state(Stored(*files))

    def _identities(self, document: Document) -> Identities | None:
        if document["spec"].get("insecure", True):
            return None
        name, state = document["metadata"]["name"], self.trust(document["metadata"]["name"])
        secret = read_secret(self.files(Part.SUPEREXEC.object_name(name)))
        pools = [pool["name"] for pool in document["spec"]["supernodes"]["pools"]]
        found = {
            pool: read_secret(self.files(pool_secret_name(name, pool))) for pool in sorted(pools)
        }
        if state.certificate is None or state.called is None:
            return None
        rounds = []
        if document["spec"].get("supernodeAuth", {}).get("enabled"):
            for pool in document["spec"]["supernodes"]["pools"]:
                ring = read_keyring(self.files(keyring_name(name, pool["name"])))
                rounds.append((pool["name"], ring.round if ring else ""))
        return Identities(
            state.certificate.identity,
            state.called.identity,
            secret.identity if secret else None,
            tuple(rounds),
            supernode=state.supernode.identity if state.supernode else None,
            pool_secrets=tuple((pool, own.identity) for pool, own in found.items() if own),
        )


Scenario = Callable[[Cluster], Awaitable[None]]


# What happens every few seconds or minutes would fill years of virtual time with work.
FOR_YEARS: dict[str, object] = {
    "flower_operator.trust.certificates.AUTHORITY_LIFE": timedelta(days=400),
    "flower_operator.kube.cache.WATCH_SECONDS": (10**9, 10**9),
    "flower_operator.kube.lease.DURATION": 10**9,
    "flower_operator.kube.lease.RENEW_EVERY": 1e8,
    "flower_operator.operator.connections.SELDOM": 86400.0,
    "flower_operator.operator.connections.SOON": 3600.0,
}


def play(
    scenario: Scenario, *, seed: int = 0, longest_latency: float = 0.0, years: bool = False
) -> None:
    """Run a scenario on a new cluster, with virtual time and seeded randomness. `years`: the
    scenario lasts for months or years."""

    async def main() -> None:
        cluster = Cluster(seed, longest_latency)
        if years:
            cluster.server.history.bookmark_seconds = 1e9
        controllers = asyncio.create_task(cluster.controllers.run())
        replacements: dict[str, object] = {
            "flower_operator.operator.controller._now": cluster.clock,
            "flower_operator.operator.controller.Client": cluster.operator_client,
            "flower_operator.operator.controller.Election": partial(Election, clock=now),
            "flower_operator.operator.reconcile.Maker": InProcessMaker,
            "flower_operator.control.ControlClient": cluster.superlinks.client,
            **(FOR_YEARS if years else {}),
        }
        with ExitStack() as stack:
            for name, value in replacements.items():
                stack.enter_context(patch(name, value))
            try:
                await scenario(cluster)
            finally:
                controllers.cancel()
                for operator in cluster.operators:
                    await operator.kill()

    random.seed(seed)
    run(main())
