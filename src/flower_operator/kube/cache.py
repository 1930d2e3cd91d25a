"""What the API server has of one kind, kept at hand: list, then watch, then list again."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from .client import Client
from .errors import ApiError, Unreachable, error_of
from .resources import Resource

log = logging.getLogger(__name__)

PAGE = 500
# Each watch ends by itself in time: so that replicas of the API server share the load, and before
# it is taken for dead, for a watch of Events has no bookmarks and may be silent for good.
WATCH_SECONDS = (90, 140)
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
GONE = 410


class Metadata(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class Stored(Protocol):
    @property
    def metadata(self) -> Metadata: ...


Form = TypeVar("Form", bound=Stored)
Kept = TypeVar("Kept")
Key = tuple[str, str]
"""Namespace and name."""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct, Generic[Form]):
    type: str
    object: Form


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BareMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Bare(msgspec.Struct):
    """What every object has, also one that cannot be read otherwise."""

    metadata: _BareMetadata


class Cache(Generic[Form, Kept]):
    """Objects of one resource, as `keep` makes them from the fields that `form` reads.

    `changed` hears of every difference, before and after; None stands for no object, or for
    one that `keep` has no interest in.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        form: type[Form],
        keep: Callable[[Form], Kept | None],
        *,
        namespaces: Sequence[str] = (),
        select: Mapping[str, str] | None = None,
        calm: float = 0.0,
        index: Callable[[Kept], Hashable] = lambda kept: None,
        changed: Callable[[Key, Kept | None, Kept | None], None] = lambda key, old, new: None,
    ) -> None:
        self.resource = resource
        self.index = index
        self.changed = changed
        self._objects: dict[Key, tuple[int, Kept]] = {}
        self._groups: dict[Hashable, tuple[Key, ...]] = {}
        self._keep = keep
        self._decoder = msgspec.json.Decoder(form)
        scopes: Sequence[str | None] = namespaces or [None]
        self._feeds = [_Feed(self, client, form, select or {}, calm, scope) for scope in scopes]
        self._feed_of = {feed.namespace: feed for feed in self._feeds}

    def get(self, key: Key) -> Kept | None:
        entry = self._objects.get(key)
        return entry[1] if entry else None

    def group(self, value: Hashable) -> list[Kept]:
        """All objects with this value of the index."""
        return [self._objects[key][1] for key in self._groups.get(value, ())]

    def keys(self) -> list[Key]:
        return list(self._objects)

    def values(self) -> Iterable[Kept]:
        return (kept for _, kept in self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def synced(self) -> bool:
        """Whether everything that there was has been seen once."""
        return all(feed.synced.is_set() for feed in self._feeds)

    async def wait_until_synced(self) -> None:
        for feed in self._feeds:
            await feed.synced.wait()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for feed in self._feeds:
                group.create_task(feed.run())

    def put(self, answer: bytes) -> Kept | None:
        """Take over the answer to a write of ours, which the watch will tell of later."""
        form = self._decoder.decode(answer)
        feed = self._feed_of.get(form.metadata.namespace) or self._feed_of[None]
        key, version = (form.metadata.namespace, form.metadata.name), _number(form)
        kept = self._keep(form)
        # If the watch is past that version, the object was changed or even deleted since.
        if key in self._objects or version > feed.version:
            self.store(key, version, kept)
        return kept

    def store(self, key: Key, version: int, kept: Kept | None) -> None:
        before = self._objects.get(key)
        if before and version < before[0]:
            return
        old = before[1] if before else None
        if before:
            self._leave_group(key, before[1])
        if kept is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = (version, kept)
            self._enter_group(key, kept)
        if old != kept:
            self.changed(key, old, kept)

    def drop(self, key: Key, version: int) -> None:
        """Forget an object that was gone at this version, unless it has come again since."""
        before = self._objects.get(key)
        if before and before[0] <= version:
            del self._objects[key]
            self._leave_group(key, before[1])
            self.changed(key, before[1], None)

    def take(self, form: Form) -> Key:
        key = (form.metadata.namespace, form.metadata.name)
        self.store(key, _number(form), self._keep(form))
        return key

    def _enter_group(self, key: Key, kept: Kept) -> None:
        if (value := self.index(kept)) is not None:
            self._groups[value] = (*self._groups.get(value, ()), key)

    def _leave_group(self, key: Key, kept: Kept) -> None:
        if (value := self.index(kept)) is not None:
            others = tuple(member for member in self._groups[value] if member != key)
            if others:
                self._groups[value] = others
            else:
                del self._groups[value]


class _Feed(Generic[Form, Kept]):
    """Keeps a cache up to date with one namespace, or with all."""

    def __init__(
        self,
        cache: Cache[Form, Kept],
        client: Client,
        form: type[Form],
        select: Mapping[str, str],
        calm: float,
        namespace: str | None,
    ) -> None:
        self.namespace = namespace
        self._calm = calm
        self.synced = asyncio.Event()
        self.version = 0
        self._cache = cache
        self._client = client
        self._select = select
        self._path = cache.resource.path(namespace)
        events: type[_Event[Form]] = _Event[form]  # type: ignore[valid-type]
        self._items = msgspec.json.Decoder(form)
        self._events = msgspec.json.Decoder(events)

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        pause = FIRST_PAUSE
        position: str | None = None
        while True:
            started = clock()
            try:
                if position is None:
                    position = await self._list()
                async for version in self._watch(position):
                    position = version  # kept when the watch fails
            except ApiError as error:
                if error.code == GONE:
                    position = None
                else:
                    self._complain(error)
            except (Unreachable, msgspec.MsgspecError, UnicodeDecodeError) as error:
                self._complain(error)
            pause = FIRST_PAUSE if clock() - started > LONGEST_PAUSE else pause
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)

    def _complain(self, error: Exception) -> None:
        unknown = isinstance(error, ApiError) and error.code == 404
        hint = "; is its CustomResourceDefinition installed?" if unknown else ""
        log.warning("cannot follow %s: %s%s", self._path, error, hint)

    async def _list(self) -> str:
        """Everything that is there now, page by page; what is not there any more is dropped."""
        seen: set[Key] = set()
        parameters = {**self._select, "limit": str(PAGE)}
        while True:
            answer = await self._client.get(self._path, **parameters)
            page = msgspec.json.decode(answer, type=_List)
            for item in page.items or ():
                try:
                    seen.add(self._cache.take(self._items.decode(item)))
                except msgspec.ValidationError as error:
                    self._pass_over(item, error)
            if not page.metadata.continue_:
                break
            parameters["continue"] = page.metadata.continue_
        position = page.metadata.resource_version
        self._forget_all_but(seen, int(position) if position.isdigit() else 0)
        self.synced.set()
        return position

    def _forget_all_but(self, seen: set[Key], version: int) -> None:
        self.version = max(self.version, version)
        for key in self._cache.keys():  # noqa: SIM118 (a copy: the cache changes meanwhile)
            mine = self.namespace is None or key[0] == self.namespace
            if mine and key not in seen:
                self._cache.drop(key, version)

    async def _watch(self, position: str) -> AsyncIterator[str]:
        """Follow changes from there on, yielding how far it got."""
        seconds = random.randint(*WATCH_SECONDS)
        async with self._client.watch(
            self._path,
            self._calm,
            **self._select,
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=position,
            timeoutSeconds=str(seconds),
        ) as lines:
            async for line in lines:
                yield self._follow(line)

    def _follow(self, line: bytes) -> str:
        """Do as an event says; returns the version that it leads to."""
        try:
            event = self._events.decode(line)
        except msgspec.ValidationError as error:
            raw = msgspec.json.decode(line, type=_RawEvent)
            if raw.type == "ERROR":
                raise error_of(500, bytes(raw.object)) from None
            return self._pass_over(raw.object, error)
        if event.type == "ERROR":
            raise error_of(500, bytes(msgspec.json.decode(line, type=_RawEvent).object))
        metadata = event.object.metadata
        position, version = metadata.resource_version, _number(event.object)
        self.version = max(self.version, version)
        if event.type == "DELETED":
            self._cache.drop((metadata.namespace, metadata.name), version)
        elif event.type != "BOOKMARK":
            self._cache.take(event.object)
        return position

    def _pass_over(self, item: msgspec.Raw, error: Exception) -> str:
        """One odd object must not keep us from seeing all others."""
        bare = msgspec.json.decode(item, type=_Bare)
        key = (bare.metadata.namespace, bare.metadata.name)
        log.warning("cannot read %s %s: %s", self._path, "/".join(key), error)
        self.version = max(self.version, _number(bare))
        self._cache.drop(key, _number(bare))
        return bare.metadata.resource_version


def _number(form: Stored) -> int:
    """Versions of one resource count up; where they should not, each one is news."""
    version = form.metadata.resource_version
    return int(version) if version.isdigit() else 0
