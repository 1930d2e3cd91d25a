"""Puts pools on the clusters that their Placements select, and takes them off again."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from ..api.types import Federation
from ..kube.applied import digest, mark, marked
from ..kube.cache import Key
from ..kube.client import Client
from ..kube.errors import ApiError
from ..render.facts import Facts, Numbers
from ..render.metadata import POOL
from ..render.releases import find_releases
from ..render.skupper import Grant
from ..trust.records import time_text
from .addon import Edition, Route, addon_objects, cluster_objects, place_of, variables_of
from .decisions import APPLIED, Action, Apply, Remove, Wait, Wanted, decide
from .hub import Hub, Identity
from .observed import IMAGE, SINCE, Addon, ClusterForm, Object, cluster_of
from .partitions import Holder, Partitions, total
from .resources import ADDON, MANAGED_CLUSTER, OWN, WORK_SET
from .selectors import WITH_WORKLOADS, keep_selector
from .survey import PlacedPool, Survey

# Each cluster's objects are made one after the other; so many clusters at a time.
SIDE_BY_SIDE = 16


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
        rendered = await self._render(key, order, pools, total(partitions))
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

    async def _render(
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
            own = addon_objects(
                federation, pool.position, facts, releases, route, order.bundle, order.grant
            )
            live = await self._live(key, pool)
            objects += [
                keep_selector(each, live) if each["kind"] in WITH_WORKLOADS else each
                for each in own
            ]
        variables = {pool.name: variables_of(federation, pool.position, route) for pool in pools}
        rendered = self._rendered[key] = _Rendered(version, _wanted(objects), variables)
        return rendered

    async def _live(self, key: Key, pool: PlacedPool) -> list[Any]:
        """What there is of a pool with workloads in it; of templates one for each release."""
        found = []
        for (kind, namespace, name), each in self._hub.objects(key).items():
            if kind not in WITH_WORKLOADS or each.metadata.labels.get(POOL) != pool.name:
                continue
            try:
                answer = await self._client.get(OWN[kind].path(namespace or None, name))
            except ApiError as error:
                if error.code != 404:
                    raise
            else:
                found.append(msgspec.json.decode(answer))
        return found

    async def leave(self, key: Key) -> bool:
        """Take everything off; whether all that can be is gone. A cluster that is lost takes its
        part off when it is back, and nobody waits for it."""
        self._rendered.pop(key, None)
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
