"""The controller: everything above wired together, for as long as the process lives."""

import asyncio
import gc
import logging
import secrets
import signal
import socket
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..api.types import FederationStatus
from ..fleet.hub import CALM_SECONDS, Hub
from ..fleet.resources import CLUSTER_GROUP
from ..flower.commands import ENVOY_IMAGE
from ..kube.client import Client
from ..kube.connection import Connection
from ..kube.errors import ApiError, NotLeader, Unreachable
from ..kube.lease import Election
from ..render import Facts
from ..render.admin_limits import NO_LIMITS, Limits
from ..render.facts import IMAGE
from ..render.metadata import MANAGER
from ..render.skupper import GROUP as SKUPPER_GROUP
from .caches import Caches, Key
from .connections import Connections, Locate
from .metrics import Metrics
from .permissions import LEASE
from .platform import OPENSHIFT_GROUP, api_groups
from .queue import Queue
from .reconcile import Reconciler, Retry, read_status
from .server import health_server, metrics_server

log = logging.getLogger(__name__)

WORKERS = 16
TLS_BUFFER = 32 * 1024
# News of other clusters come in groups, of which the first need not be the one that led to the
# others: a cluster can be selected before it is known to be there.
GATHERING_SECONDS = 2 * CALM_SECONDS


@dataclass(frozen=True)
class Options:
    namespaces: Sequence[str] = ()
    """Those to look after; none: all."""
    lease_namespace: str = "default"
    health_address: str | None = None
    metrics_address: str | None = None
    locate: Locate | None = None
    """How this process reaches a SuperLink, if it does at all."""
    namespace: str = "flower-operator-system"
    """Where the operator's own pods are."""
    openshift: bool | None = None
    """None: as the API server's groups tell."""
    fleet: bool = False
    """Whether to put pools on other clusters, where this is a hub of Open Cluster Management."""
    agent_image: str | None = None
    """The operator's own; None: as it is called where it is built."""
    gateway_image: str = ENVOY_IMAGE
    """Of Envoy, where a Federation does not name one."""
    limits: Limits = NO_LIMITS
    """What Federations may ask for."""


class Controller:
    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._queue: Queue[Key] = Queue()
        self._metrics = Metrics(lambda: len(self._queue), self._statuses)
        identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._election = Election(options.lease_namespace, LEASE, identity)
        self._connections = Connections(options.locate, self._queue.add)

    async def run(self, stop: asyncio.Event) -> None:
        """Until it is asked to stop. Raises NotLeader when another one took over."""
        async with AsyncExitStack() as stack:
            client = await self._client(stack, fenced=True)
            unfenced = await self._client(stack, fenced=False)
            self._caches = Caches(
                client,
                self._options.namespaces,
                self._queue.add,
                self._queue.add_news,
                task_executor=self._options.limits.task_executor,
            )
            if self._options.health_address:
                await stack.enter_async_context(
                    health_server(self._options.health_address, lambda: self._caches.synced)
                )
            if self._options.metrics_address:
                await stack.enter_async_context(
                    metrics_server(self._options.metrics_address, unfenced, self._metrics.text)
                )
            following = asyncio.create_task(self._caches.run())
            leading = asyncio.create_task(self._lead(client, unfenced))
            stopping = asyncio.create_task(stop.wait())
            tasks: set[asyncio.Task[Any]] = {following, leading, stopping}
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                await _end(tasks)
                await self._election.release(unfenced)

    async def _client(self, stack: AsyncExitStack, *, fenced: bool) -> Client:
        observe = self._metrics.request
        if fenced:
            client = Client(self._connection, MANAGER, self._election.remaining, observe)
        else:
            client = Client(self._connection, MANAGER, observe=observe)
        return await stack.enter_async_context(client)

    async def _lead(self, client: Client, unfenced: Client) -> None:
        await self._election.acquire(unfenced)
        keeping = asyncio.create_task(self._election.keep(unfenced))
        working = asyncio.create_task(self._work(client))
        try:
            done, _ = await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await _end({working, keeping})

    async def _work(self, client: Client) -> None:
        started = time.monotonic()
        await self._caches.wait_until_synced()
        groups = await api_groups(client)
        hub = Hub(client, self._hear_of_clusters) if self._manages_clusters(groups) else None
        self._reconciler = Reconciler(
            client,
            self._caches,
            self._connections,
            self._facts(groups),
            _now,
            hub,
            self._options.namespace if self._options.locate else None,
        )
        try:
            async with asyncio.TaskGroup() as group:
                if hub:
                    group.create_task(hub.run())
                    await hub.wait_until_synced()
                for cache in self._caches.add_skupper() if SKUPPER_GROUP in groups else ():
                    group.create_task(cache.run())
                    await cache.wait_until_synced()
                self._start(group, started)
        finally:
            await self._reconciler.close()

    def _start(self, group: asyncio.TaskGroup, started: float) -> None:
        seconds = round(time.monotonic() - started, 3)
        log.info("leading", extra={"federations": len(self._caches.federations), "synced": seconds})
        group.create_task(self._connections.run())
        for _ in range(WORKERS):
            group.create_task(self._worker())

    def _hear_of_clusters(self, key: Key) -> None:
        self._queue.add_after(key, GATHERING_SECONDS)

    def _manages_clusters(self, groups: set[str]) -> bool:
        return self._options.fleet and CLUSTER_GROUP in groups

    def _facts(self, groups: set[str]) -> Facts:
        openshift = self._options.openshift
        if openshift is None:
            openshift = OPENSHIFT_GROUP in groups
        return Facts(
            operator_namespace=self._options.namespace,
            openshift=openshift,
            skupper=SKUPPER_GROUP in groups,
            agent_image=self._options.agent_image or IMAGE,
            gateway_image=self._options.gateway_image,
            limits=self._options.limits,
        )

    async def _worker(self) -> None:
        while True:
            key = await self._queue.get()
            started = time.monotonic()
            try:
                await self._reconcile(key)
            finally:
                self._metrics.reconciles.inc()
                self._metrics.seconds.observe(time.monotonic() - started)
            # What is known already is reconciled without a request, and so without a pause.
            await asyncio.sleep(0)

    async def _reconcile(self, key: Key) -> None:
        """One Federation's faults are its own: they delay it, and nothing else."""
        try:
            recheck = await self._reconciler.reconcile(key, self._queue.failures(key))
        except Retry as retry:
            self._queue.failed(key, retry.seconds)
        except (ApiError, Unreachable, NotLeader) as error:
            seconds = self._queue.failed(key, getattr(error, "retry_after", 0.0))
            self._complain(key, str(error), seconds)
        except Exception as error:
            seconds = self._queue.failed(key)
            self._complain(key, repr(error), seconds, error)
        else:
            self._queue.done(key)
            if recheck is not None:
                self._queue.add_after(key, recheck)
            if self._caches.federations.get(key) is None:
                self._queue.forget(key)

    def _complain(
        self, key: Key, message: str, seconds: float, error: Exception | None = None
    ) -> None:
        self._metrics.errors.inc()
        extra = {"federation": "/".join(key), "error": message, "again_after": round(seconds, 1)}
        log.warning("not reconciled", extra=extra, exc_info=error)

    def _statuses(self) -> Iterator[FederationStatus]:
        """One at a time: of thousands each is small, and all are not."""
        return map(read_status, self._caches.federations.values())


def _now() -> datetime:
    return datetime.now(UTC)


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def run(connection: Connection, options: Options) -> None:
    """The controller as a process: a signal ends it."""
    # Each connection has a buffer of this size for as long as it lives: a quarter of a megabyte
    # otherwise, of which answers fill a few percent.
    SSLProtocol.max_size = TLS_BUFFER
    # Modules and models stay for good: not to be gone through whenever garbage is looked for.
    gc.collect()
    gc.freeze()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await Controller(connection, options).run(stop)
