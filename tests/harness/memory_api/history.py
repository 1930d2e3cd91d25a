"""The history of an API server's objects, and the watches that are served from it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

import msgspec

from flower_operator.kube import resources as kinds
from flower_operator.kube.resources import Resource

from .field_managers import Object
from .requests import Refused, Target
from .selectors import matches

BOOKMARK_SECONDS = 60.0


@dataclass(frozen=True)
class Change:
    """One entry of the history that watches are served from."""

    version: int
    resource: Resource
    old: Object | None
    new: Object | None


class History:
    """Every change since the last compaction. `latency` delays the events of watches."""

    def __init__(self, version: int, latency: Callable[[], float]) -> None:
        self.version = version
        self.bookmark_seconds = BOOKMARK_SECONDS
        self._latency = latency
        self._oldest = version
        self._changes: list[Change] = []
        self._watchers: set[_Watcher] = set()

    def record(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        """A change that has led to the current version."""
        self._changes.append(Change(self.version, resource, old, new))
        for watcher in self._watchers:
            if watcher.resource == resource:
                watcher.news.set()

    async def watch(self, target: Target, parameters: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The lines of a watch until its time is over or somebody cuts it."""
        loop = asyncio.get_running_loop()
        position = int(parameters["resourceVersion"])
        watcher = _Watcher(target.resource)
        end = loop.time() + float(parameters.get("timeoutSeconds", "1800"))
        bookmarks = parameters.get("allowWatchBookmarks") and target.resource != kinds.EVENT
        self._watchers.add(watcher)
        try:
            while not watcher.cut and loop.time() < end:
                if position < self._oldest:
                    message = f"too old resource version: {position} ({self._oldest})"
                    yield _line("ERROR", Refused(410, "Expired", message).status)
                    return
                watcher.news.clear()
                changes = self._changes_since(position)
                position = changes[-1].version if changes else position
                for change in changes:
                    if line := _event(change, target, parameters):
                        yield line
                pause = min(self.bookmark_seconds, end - loop.time())
                idle = not changes and not await watcher.wait(pause)
                if idle and bookmarks and loop.time() < end:
                    position = self.version
                    yield _bookmark(target.resource, position)
                await asyncio.sleep(self._latency())
        finally:
            self._watchers.discard(watcher)

    def cut_watches(self) -> None:
        """End every watch."""
        for watcher in self._watchers:
            watcher.cut = True
            watcher.news.set()

    def compact(self) -> None:
        """Compact: a watch from an older version than the current one is answered 410."""
        self._oldest = self.version
        self._changes.clear()

    def _changes_since(self, position: int) -> list[Change]:
        first = len(self._changes)
        while first and self._changes[first - 1].version > position:
            first -= 1
        return self._changes[first:]


class _Watcher:
    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.news = asyncio.Event()
        self.cut = False

    async def wait(self, seconds: float) -> bool:
        """Whether something happened within that time."""
        try:
            async with asyncio.timeout(seconds):
                await self.news.wait()
        except TimeoutError:
            return False
        return True


def _event(change: Change, target: Target, parameters: Mapping[str, str]) -> bytes | None:
    """What a change is to a watch with these selectors, if anything."""
    if change.resource != target.resource:
        return None
    old = _selected(change.old, target, parameters)
    new = _selected(change.new, target, parameters)
    if new:
        return _line("MODIFIED" if old else "ADDED", new)
    if old:
        metadata = {**old["metadata"], "resourceVersion": str(change.version)}
        return _line("DELETED", {**old, "metadata": metadata})
    return None


def _selected(body: Object | None, target: Target, parameters: Mapping[str, str]) -> Object | None:
    if body is None or target.namespace not in ("", body["metadata"]["namespace"]):
        return None
    return body if matches(body, parameters) else None


def _line(kind: str, body: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": body})


def _bookmark(resource: Resource, version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    return _line("BOOKMARK", {**head, "metadata": metadata})
