"""A Federation and its pods, as they change."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ..kube.cache import Cache
from ..kube.client import Client
from ..kube.resources import POD
from .federations import FEDERATION, Federation, in_order, pods_of
from .pods import Pod

# Pods change many times in a row; to look at them once for all is soon enough.
CALM_SECONDS = 0.2

View = tuple[Federation | None, list[Pod]]
"""None: the Federation is gone."""


class Following:
    """What the API server's watches have told so far; survives the API server."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._key = (namespace, name)
        self._changed = asyncio.Event()
        self._federations: Cache[Federation, Federation] = Cache(
            client,
            FEDERATION,
            Federation,
            lambda federation: federation,
            namespaces=[namespace],
            select={"fieldSelector": f"metadata.name={name}"},
            changed=self._wake,
        )
        self._pods: Cache[Pod, Pod] = Cache(
            client,
            POD,
            Pod,
            lambda pod: pod,
            namespaces=[namespace],
            select=pods_of(name),
            calm=CALM_SECONDS,
            changed=self._wake,
        )

    @property
    def view(self) -> View:
        return self._federations.get(self._key), in_order(list(self._pods.values()))

    async def views(self) -> AsyncIterator[View]:
        """What there is, then again after each change."""
        await self._federations.wait_until_synced()
        await self._pods.wait_until_synced()
        while True:
            self._changed.clear()
            yield self.view
            try:
                async with asyncio.timeout(_seconds_until_change(self.view[1])):
                    await self._changed.wait()
            except TimeoutError:
                pass  # time alone has changed something

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._federations.run())
            group.create_task(self._pods.run())

    def _wake(self, *_: Any) -> None:
        self._changed.set()


@asynccontextmanager
async def following(client: Client, namespace: str, name: str) -> AsyncIterator[Following]:
    found = Following(client, namespace, name)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _seconds_until_change(pods: Sequence[Pod]) -> float | None:
    """When the next trouble is over by itself, if one will be."""
    now = time.time()
    times = [until - now for until in _ends(pods, now)]
    return min(times) if times else None


def _ends(pods: Sequence[Pod], now: float) -> Iterator[float]:
    for pod in pods:
        for trouble in pod.troubles(now):
            if trouble.until is not None:
                yield trouble.until
