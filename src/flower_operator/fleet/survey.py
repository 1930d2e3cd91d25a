"""Where the pools of a Federation are to run, and how they fare there, as the hub tells it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..api.types import ClusterStatus, Rollout
from ..kube.cache import Key
from ..status.observed import Metadata, Workload
from .addon import place_of
from .advance import Advance, Site
from .hub import Hub
from .keys import Report, key_limit, read_report
from .membership import (
    Membership,
    cluster_status,
    membership_of,
    missed_since,
    patience_left,
)
from .observed import DESIRED, READY, SINCE, UPDATED, Addon
from .partitions import Holder, Partitions
from .rollout import Spread, spread_of


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


class Surveyor:
    def __init__(self, hub: Hub, clock: Callable[[], datetime]) -> None:
        self._hub = hub
        self._clock = clock
        self._missed: dict[Key, dict[str, dict[str, datetime]]] = {}

    def forget(self, key: Key) -> None:
        self._missed.pop(key, None)

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

    def reports(self, key: Key, pools: Iterable[PlacedPool]) -> dict[Holder, Report]:
        """The public keys that clusters tell of; what a lost one told is old."""
        clusters = self._hub.clusters
        return {
            (pool.name, cluster): report
            for pool in pools
            for cluster, work in self._hub.works(place_of(*key, pool.name).addon).items()
            if cluster in clusters and clusters[cluster].available
            if work.report is not None
            and (report := read_report(work.report, key_limit(pool.size))) is not None
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

    def spread(self, key: Key, pool: PlacedPool, survey: Survey) -> Spread:
        """How far ClientApps' SuperExecs have come."""
        addon, membership = place_of(*key, pool.name).addon, survey.memberships[pool.name]
        newest = self._hub.newest_apps(key[0], addon)
        if newest is None or membership is None:
            return Spread()
        heard = {name for name, each in self._hub.clusters.items() if each.available}
        there = heard.intersection(membership.members)
        return spread_of(there, self._hub.apps(addon), newest, pool.rollout, self._clock())


def _since(told: Addon) -> datetime | None:
    try:
        return datetime.fromisoformat(told.metadata.annotations.get(SINCE, ""))
    except ValueError:
        return None
