"""Puts pools on the clusters that their Placements select, and takes them off again."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from ..api.types import ClusterStatus, Federation, Rollout
from ..kube.applied import digest, mark, marked
from ..kube.cache import Key
from ..kube.client import Client
from ..kube.errors import ApiError
from ..render.facts import Facts, Numbers
from ..render.metadata import POOL
from ..render.releases import find_releases
from ..render.skupper import Grant
from ..status.observed import Metadata, Workload
from ..trust.records import time_text
from .addon import Edition, Route, addon_objects, cluster_objects, place_of, variables_of
from .advance import Advance, Site
from .decisions import APPLIED, Action, Apply, Remove, Wait, Wanted, decide
from .hub import Hub, Identity
from .keys import read_report
from .membership import (
    Membership,
    cluster_status,
    membership_of,
    missed_since,
    patience_left,
)
from .observed import (
    DESIRED,
    IMAGE,
    READY,
    SINCE,
    UPDATED,
    Addon,
    ClusterForm,
    Object,
    cluster_of,
)
from .partitions import Holder, Partitions, total
from .resources import ADDON, MANAGED_CLUSTER, OWN, WORK_SET
from .rollout import Spread, spread_of

# Each cluster's objects are made one after the other; so many clusters at a time.
SIDE_BY_SIDE = 16


@dataclass(frozen=True)
class PlacedPool:
    """What placing needs to know of a pool with a placement."""

    name: str
    position: int
    placement: str
    size: int
    """SuperNodes with a number, on each cluster."""
    replicas: int | None
    """What there are now; None: as many as it has nodes."""
    release: str
    rollout: Rollout


@dataclass(frozen=True)
class Survey:
    """Where the pools of a Federation are to run, and where something of them still does."""

    memberships: Mapping[str, Membership | None]
    """By pool; None: its Placement is not there, or yet to decide."""
    recheck: float | None = None
    """Seconds until time alone may change it."""

    @property
    def members(self) -> list[Holder]:
        return [
            (pool, cluster)
            for pool, membership in self.memberships.items()
            for cluster in (membership.members if membership else ())
        ]

    @property
    def keyholders(self) -> list[Holder]:
        """Whose keys are good: a key that is taken away is gone for ever."""
        staying = [
            (pool, cluster)
            for pool, membership in self.memberships.items()
            for cluster in (membership.staying if membership else ())
        ]
        return self.members + staying

    def holders(self, pools: Sequence[PlacedPool], held: Partitions) -> dict[Holder, int]:
        """Who needs how many partitions; those that leave keep theirs."""
        wanted: dict[Holder, int] = {}
        for pool in pools:
            membership = self.memberships[pool.name] or Membership((), ())
            for cluster in membership.members:
                wanted[pool.name, cluster] = pool.size
            for cluster in membership.leaving:
                wanted[pool.name, cluster] = len(held.get((pool.name, cluster), ()))
        return wanted


@dataclass(frozen=True)
class Order:
    """What of a Federation is to be placed."""

    parse: Callable[[], Federation]
    """Called where anything has changed."""
    version: tuple[Any, ...]
    """What rendering depends on beside what follows."""
    facts: Facts
    route: Route
    bundle: str | None
    """The CA's certificates, where there is TLS."""
    grant: Grant | None
    """What lets clusters link, where Skupper leads them."""


@dataclass
class Outcome:
    done: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    retry: float | None = None


@dataclass(frozen=True)
class _Rendered:
    version: tuple[Any, ...]
    wanted: dict[Identity, Wanted]
    variables: dict[str, dict[str, str]]
    """By pool."""


class Placing:
    def __init__(self, client: Client, hub: Hub, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._hub = hub
        self._clock = clock
        self._rendered: dict[Key, _Rendered] = {}
        self._missed: dict[Key, dict[str, dict[str, datetime]]] = {}

    def survey(self, key: Key, pools: Sequence[PlacedPool]) -> Survey:
        places = {pool.name: place_of(*key, pool.name) for pool in pools}
        addons = [place.addon for place in places.values()]
        self._hub.follow(key, {pool.placement for pool in pools}, addons)
        memberships: dict[str, Membership | None] = {}
        now, before, turns = self._clock(), self._missed.get(key, {}), list[float]()
        since = self._missed[key] = dict[str, dict[str, datetime]]()
        for pool in pools:
            decided = self._hub.decided(key[0], pool.placement)
            addon = places[pool.name].addon
            installed, works = self._hub.addons(key, addon), self._hub.works(addon)
            absent = installed.keys() - (decided or set())
            since[pool.name] = missed_since(before.get(pool.name, {}), absent, now)
            missed = patience_left(since[pool.name], now)
            turns += missed.values()
            found = membership_of(decided or (), installed, works, self._hub.clusters, missed)
            memberships[pool.name] = found if decided is not None or installed else None
        return Survey(memberships, min(turns, default=None))

    def recorded(self, key: Key, pools: Iterable[PlacedPool]) -> Partitions:
        """The partitions that clusters were given, by what is written on their addons."""
        return {
            (pool.name, cluster): partitions
            for pool in pools
            for cluster, addon in self._hub.addons(key, place_of(*key, pool.name).addon).items()
            if (partitions := addon.partitions)
        }

    def reports(self, key: Key, pools: Iterable[PlacedPool]) -> dict[Holder, list[str]]:
        """The public keys that clusters tell of; what a lost one told is old."""
        clusters = self._hub.clusters
        return {
            (pool.name, cluster): keys
            for pool in pools
            for cluster, work in self._hub.works(place_of(*key, pool.name).addon).items()
            if cluster in clusters and clusters[cluster].available
            if work.report is not None and (keys := read_report(work.report)) is not None
        }

    def workloads(self, key: Key, pools: Iterable[PlacedPool]) -> list[Workload]:
        """Those of other clusters, as far as they tell; of one that is lost nobody knows."""
        clusters = self._hub.clusters
        return [
            Workload(
                metadata=Metadata(name=work.addon, namespace=cluster),
                desired=work.numbers.get(DESIRED, 0),
                created=work.numbers.get(UPDATED, 0),
                ready=work.numbers.get(READY, 0),
                settled=work.settled,
                authority=work.authority,
            )
            for pool in pools
            for cluster, work in self._hub.works(place_of(*key, pool.name).addon).items()
            if cluster in clusters and clusters[cluster].available
        ]

    def advances(self, key: Key, pools: Iterable[PlacedPool], survey: Survey) -> list[Advance]:
        """How far each pool has come with the release that it is to have."""
        return [
            Advance(pool.name, pool.release, pool.rollout, tuple(self._sites(key, pool, survey)))
            for pool in pools
        ]

    def _sites(self, key: Key, pool: PlacedPool, survey: Survey) -> Iterator[Site]:
        addon, membership = place_of(*key, pool.name).addon, survey.memberships[pool.name]
        addons, works = self._hub.addons(key, addon), self._hub.works(addon)
        clusters = self._hub.clusters
        for name in membership.members if membership else ():
            told, work = addons.get(name), works.get(name)
            if told is None or told.metadata.deletion_timestamp:
                yield Site(name, "")
                continue
            there = work is not None and work.release == told.release and work.settled
            yield Site(
                name,
                told.release,
                settled=there or pool.replicas == 0,
                since=_since(told),
                lost=name in clusters and clusters[name].lost,
            )

    async def care(
        self,
        key: Key,
        order: Order,
        pools: Sequence[PlacedPool],
        survey: Survey,
        partitions: Partitions,
        further: Mapping[Holder, dict[str, str]],
        held: Collection[Holder],
    ) -> Outcome:
        """Make everything so. `further`: variables of one cluster alone; `held`: those that stay at
        the release that they have."""
        rendered = self._render(key, order, pools, total(partitions))
        wanted = dict(rendered.wanted)
        moving: set[str] = set()
        for pool in pools:
            place, membership = place_of(*key, pool.name), survey.memberships[pool.name]
            addons, works = self._hub.addons(key, place.addon), self._hub.works(place.addon)
            for cluster in membership.members if membership else ():
                holder, told = (pool.name, cluster), addons.get(cluster)
                if told is None and holder in held:
                    continue
                variables = rendered.variables[pool.name] | further.get(holder, {})
                new = Edition(pool.release, variables["IMAGE"], time_text(self._clock()))
                edition = _edition(told, new, holder in held)
                work = works.get(cluster)
                if work and pool.replicas != 0 and work.release != edition.release:
                    moving.add(cluster)
                numbers_of = partitions.get(holder, ())
                wanted |= _wanted(cluster_objects(place, cluster, variables, numbers_of, edition))
        waiting = {pool for pool, _ in held}
        actions = [
            each
            for each in decide(wanted, self._hub.objects(key), moving)
            if not _changes_apps(each, waiting) and not await self._is_just_lost(each)
        ]
        return await self._act(key, actions)

    def _render(
        self, key: Key, order: Order, pools: Sequence[PlacedPool], partitions: int
    ) -> _Rendered:
        version = (*order.version, order.route, order.bundle, order.grant, partitions)
        known = self._rendered.get(key)
        if known and known.version == version:
            return known
        federation, route = order.parse(), order.route
        facts = replace(order.facts, numbers=Numbers((), str(partitions)))
        releases, objects = find_releases(federation), []
        for pool in pools:
            objects += addon_objects(
                federation, pool.position, facts, releases, route, order.bundle, order.grant
            )
        variables = {pool.name: variables_of(federation, pool.position, route) for pool in pools}
        rendered = self._rendered[key] = _Rendered(version, _wanted(objects), variables)
        return rendered

    async def leave(self, key: Key) -> bool:
        """Take everything off; whether all that can be is gone. A cluster that is lost takes its
        part off when it is back, and nobody waits for it."""
        self._rendered.pop(key, None)
        self._missed.pop(key, None)
        clusters = self._hub.clusters
        gone = {name for name, cluster in clusters.items() if not cluster.available}
        reachable: dict[Identity, Object] = {}
        actions: list[Action] = []
        for identity, each in self._hub.objects(key).items():
            namespace = identity[1]
            if namespace in ("", key[0]) or (namespace in clusters and namespace not in gone):
                reachable[identity] = each
            elif not each.metadata.deletion_timestamp:
                actions.append(Remove(identity, each.metadata.uid))
        outcome = await self._act(key, [*actions, *decide({}, reachable)])
        if reachable or outcome.retry is not None:
            return False
        self._hub.forget(key)
        return True

    def statuses(
        self,
        key: Key,
        pool: PlacedPool,
        survey: Survey,
        partitions: Partitions,
        connected: Mapping[Holder, int],
    ) -> list[ClusterStatus]:
        place, membership = place_of(*key, pool.name), survey.memberships[pool.name]
        addons, works = self._hub.addons(key, place.addon), self._hub.works(place.addon)
        clusters = self._hub.clusters
        return [
            cluster_status(
                name,
                pool.replicas,
                addons.get(name),
                works.get(name),
                clusters.get(name),
                partitions.get((pool.name, name), ()),
                connected.get((pool.name, name)),
            )
            for name in (membership.members if membership else ())
        ]

    def spread(self, key: Key, pool: PlacedPool, survey: Survey, now: datetime) -> Spread:
        """How far ClientApps' SuperExecs have come."""
        addon, membership = place_of(*key, pool.name).addon, survey.memberships[pool.name]
        newest = self._hub.newest_apps(key[0], addon)
        if newest is None or membership is None:
            return Spread()
        heard = {name for name, each in self._hub.clusters.items() if each.available}
        there = heard.intersection(membership.members)
        return spread_of(there, self._hub.apps(addon), newest, pool.rollout, now)

    async def _is_just_lost(self, action: Action) -> bool:
        """Whether a cluster is to lose its addon that is only lost itself: that it is not selected
        any more may be known here before the reason is, so that is looked up."""
        if not isinstance(action, Remove) or action.identity[0] != ADDON.kind:
            return False
        try:
            answer = await self._client.get(MANAGED_CLUSTER.path(None, action.identity[1]))
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        cluster = cluster_of(msgspec.json.decode(answer, type=ClusterForm))
        return cluster is not None and cluster.lost

    async def _act(self, key: Key, actions: Iterable[Action]) -> Outcome:
        """What all clusters share first; then cluster by cluster, for the config of each must be
        there before its addon."""
        outcome = Outcome()
        lanes: dict[str, list[Action]] = {}
        for action in actions:
            lanes.setdefault(_cluster(action, key[0]), []).append(action)
        await self._follow(lanes.pop("", []), outcome)
        gate = asyncio.Semaphore(SIDE_BY_SIDE)

        async def follow(lane: list[Action]) -> None:
            async with gate:
                await self._follow(lane, outcome)

        await asyncio.gather(*(follow(lane) for lane in lanes.values()))
        return outcome

    async def _follow(self, actions: Iterable[Action], outcome: Outcome) -> None:
        for action in actions:
            title = _title(action)
            try:
                match action:
                    case Apply():
                        await self._apply(action)
                        outcome.done.append(f"applied {title}")
                    case Remove((kind, namespace, name), uid):
                        await self._client.delete(
                            OWN[kind], namespace or None, name, uid, "Background"
                        )
                        outcome.done.append(f"removed {title}")
                    case Wait():
                        outcome.pending.append(title)
            except ApiError as error:
                if isinstance(action, Remove) and error.code == 404:
                    continue
                outcome.retry = max(outcome.retry or 0.0, error.retry_after)
                if error.final:
                    outcome.refused.append(f"{title}: {error.message}")
                else:
                    outcome.pending.append(title)
                return  # what comes after depends on it

    async def _apply(self, action: Apply) -> None:
        kind = action.wanted.identity[0]
        note = mark(action.wanted.digest, action.generation)
        body = marked(action.wanted.body, APPLIED, note)
        if action.uid is None:
            answer = await self._client.apply_new(OWN[kind], body)
        else:
            body = {**body, "metadata": {**body["metadata"], "uid": action.uid}}
            answer = await self._client.apply(OWN[kind], body)
        counted = self._hub.put(kind, answer).metadata
        if counted.generation != action.generation:  # someone else had a hand in it
            note = mark(action.wanted.digest, counted.generation)
            body = marked(action.wanted.body, APPLIED, note)
            body = {**body, "metadata": {**body["metadata"], "uid": counted.uid}}
            self._hub.put(kind, await self._client.apply(OWN[kind], body))


def _wanted(objects: Iterable[Mapping[str, Any]]) -> dict[Identity, Wanted]:
    found = {}
    for each in objects:
        metadata = each["metadata"]
        identity = each["kind"], metadata.get("namespace", ""), metadata["name"]
        found[identity] = Wanted(identity, digest(each), metadata["labels"], dict(each))
    return found


def _edition(told: Addon | None, new: Edition, held: bool) -> Edition:
    """What a cluster is to run, if it was `told` something already."""
    if told is None or not told.release:
        return new
    notes = told.metadata.annotations
    if held:
        return Edition(told.release, notes.get(IMAGE, ""), notes.get(SINCE, ""))
    return replace(new, since=notes.get(SINCE, "")) if told.release == new.release else new


def _since(told: Addon) -> datetime | None:
    try:
        return datetime.fromisoformat(told.metadata.annotations.get(SINCE, ""))
    except ValueError:
        return None


def _changes_apps(action: Action, pools: Collection[str]) -> bool:
    """Whether it changes ClientApps' SuperExecs of these pools, which follow their SuperNodes."""
    if not isinstance(action, Apply) or action.uid is None:
        return False
    wanted = action.wanted
    return wanted.identity[0] == WORK_SET.kind and wanted.labels[POOL] in pools


def _cluster(action: Action, own: str) -> str:
    """Whose it is; "" stands for all. `own`: the namespace of the Federation."""
    namespace = _identity(action)[1]
    return "" if namespace == own else namespace


def _identity(action: Action) -> Identity:
    return action.wanted.identity if isinstance(action, Apply) else action.identity


def _title(action: Action) -> str:
    kind, namespace, name = _identity(action)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
