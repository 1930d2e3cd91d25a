"""How far a new image of ClientApps has come, and where it has failed."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..api.types import Rollout
from ..status.conditions import parse_time
from ..status.observation import Fault
from .observed import Work


@dataclass(frozen=True)
class Spread:
    missing: str = ""
    """What there is to say of SuperExecs that are not all there yet."""
    fault: Fault | None = None
    recheck: float | None = None
    """Seconds until time alone may change it."""


def spread_of(
    clusters: Collection[str],
    works: Mapping[str, Work],
    newest: str,
    rollout: Rollout,
    now: datetime,
) -> Spread:
    """`clusters`: those that the hub hears of; `newest`: the mark of what all are to have. What
    counts as failed, and how many may, is as the hub has it, which does not tell."""
    given = {name: works[name] for name in sorted(clusters) if _has(works.get(name), newest)}
    under_way = {name: work for name, work in given.items() if work.progressing}
    done = len(given) - len(under_way)
    if done == len(clusters):
        return Spread()
    missing = f"SuperExecs of ClientApps are ready on {done} of {len(clusters)} clusters"
    for name in sorted(clusters):
        if (work := works.get(name)) and work.refusal:
            return Spread(missing, Fault("Refused", f"cluster {name}: {work.refusal}"))
    left = {name: _left(work, rollout, now) for name, work in under_way.items()}
    failed = [name for name, seconds in left.items() if seconds <= 0]
    if len(failed) > allowed_failures(rollout, len(clusters)):
        behind = len(clusters) - len(given)
        message = f"{missing}; on cluster {failed[0]} not within {rollout.progress_deadline}"
        message += f", so {behind} of {len(clusters)} clusters keep the old ones" if behind else ""
        return Spread(missing, Fault("RolloutFailed", message))
    return Spread(missing, recheck=min((each for each in left.values() if each > 0), default=None))


def allowed_failures(rollout: Rollout, clusters: int) -> int:
    """By the hub's reckoning: more than there are clusters is none."""
    given = share_of(rollout.max_failures, clusters)
    return given if given <= clusters else 0


def share_of(share: int | str, whole: int) -> int:
    """A number, or a percentage rounded up, as Open Cluster Management has it."""
    if isinstance(share, str):
        return math.ceil(whole * int(share.removesuffix("%")) / 100)
    return share


def _has(work: Work | None, newest: str) -> bool:
    return work is not None and work.mark == newest


def _left(work: Work, rollout: Rollout, now: datetime) -> float:
    since = parse_time(work.progressing) or now
    return (since + rollout.deadline - now).total_seconds()
