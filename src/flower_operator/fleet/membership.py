"""Which clusters a pool runs on, and how it fares there."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..api.types import ClusterStatus
from .observed import DESIRED, READY, Addon, Cluster, Work
from .partitions import ranges

PATIENCE = timedelta(seconds=5)
"""For so long a cluster has to be selected no more before its part is taken off. A Placement's
selection is written page by page: one that moves to another page is for a moment on none."""


@dataclass(frozen=True)
class Membership:
    members: tuple[str, ...]
    """Clusters that the pool is to run on."""
    leaving: tuple[str, ...]
    """Those where something of it may still run, which keep their partitions until it is gone."""
    staying: tuple[str, ...] = ()
    """Those of which nothing was taken yet: that they are no members may be known before it is
    known that they are only lost."""


def membership_of(
    decided: Collection[str],
    addons: Mapping[str, Addon],
    works: Mapping[str, Work],
    clusters: Mapping[str, Cluster],
    missed: Collection[str] = (),
) -> Membership:
    """`addons` and `works` are what there is of the pool, by cluster. A cluster that is lost is no
    longer selected, but stays: it may be back, and nothing could be taken from it meanwhile. So
    do those that were `missed` a moment ago. One that the hub does not accept any more leaves; one
    that it does not know is gone for good."""
    accepted = {name for name, cluster in clusters.items() if cluster.accepted}
    kept = {name for name, addon in addons.items() if not addon.metadata.deletion_timestamp}
    kept &= accepted
    members = accepted.intersection(decided)
    members |= {name for name in kept if name in missed or clusters[name].lost}
    there = {name for name in (*addons, *works) if name in clusters}
    leaving, staying = there - members, kept - members
    return Membership(tuple(sorted(members)), tuple(sorted(leaving)), tuple(sorted(staying)))


def missed_since(
    before: Mapping[str, datetime], absent: Collection[str], now: datetime
) -> dict[str, datetime]:
    """Since when each of those that are `absent` was seen to be."""
    return {name: before.get(name, now) for name in absent}


def patience_left(since: Mapping[str, datetime], now: datetime) -> dict[str, float]:
    """Of those that are missed, for how many seconds each is still a member."""
    left = {name: (then + PATIENCE - now).total_seconds() for name, then in since.items()}
    return {name: seconds for name, seconds in left.items() if seconds > 0}


def cluster_status(
    name: str,
    replicas: int | None,
    addon: Addon | None,
    work: Work | None,
    cluster: Cluster | None,
    partitions: Collection[int],
    connected: int | None = None,
) -> ClusterStatus:
    """`replicas`: of each cluster; None: as many as it has nodes."""
    numbers = work.numbers if work else {}
    desired = replicas if replicas is not None else numbers.get(DESIRED, 0)
    ready = min(numbers.get(READY, 0), desired)
    lost = cluster is not None and not cluster.available
    state, message = _health(addon, work, cluster)
    return ClusterStatus(
        name=name,
        desired=desired,
        ready=0 if lost else ready,
        connected=connected,
        addon=state,
        message=message,
        last_seen=cluster.since or None if cluster and lost else None,
        partitions=ranges(partitions) or None,
        release=(addon.release or None) if addon else None,
    )


def _health(addon: Addon | None, work: Work | None, cluster: Cluster | None) -> tuple[str, str]:
    if cluster is not None and not cluster.available:
        return "Lost", "the hub does not hear of the cluster"
    if addon is None:
        return "Placing", ""
    if work and work.refusal:
        return "Refused", work.refusal
    return {"True": "Available", "False": "Unavailable"}.get(addon.available, "Placing"), ""
