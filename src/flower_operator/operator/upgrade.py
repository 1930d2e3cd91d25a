"""A changed Flower release: which parts of a Federation follow it now, and which are held back.

The SuperLink comes first, then one pool after another, each when the one before is settled and no
run is under way; last those of other clusters, a few clusters at a time. What is held back is left
as it is, with everything that was changed beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from ..api.types import Condition, Mode
from ..fleet.advance import Advance, Site
from ..fleet.partitions import Holder
from ..flower.compatibility import database_mismatch, supernode_mismatch
from ..flower.dialects import dialect_of
from ..flower.releases import Release, parse_release
from ..render.metadata import RELEASE
from ..status.conditions import Finding, format_time, parse_time
from ..status.observation import Connected, Fault
from ..status.observed import Pod, Workload
from ..status.outline import Outline, PoolOutline
from ..status.summary import UPGRADING
from .desired import SUPERLINK, Identity, Part, pool_part


@dataclass(frozen=True)
class Upgrade:
    held: frozenset[Part]
    """What is not to be touched yet."""
    outline: Outline
    """The Federation with what is held back as it is, not as it will be."""
    finding: Finding | None = None
    fault: Fault | None = None
    """Why it cannot be done at all."""
    recheck: float | None = None
    """Seconds until time alone may change it."""
    held_elsewhere: frozenset[Holder] = frozenset()
    """The same of pools on other clusters."""
    stopped: Fault | None = None
    """Why no more of those follow."""

    @property
    def under_way(self) -> bool:
        return bool(self.finding and self.finding.status)


@dataclass(frozen=True)
class _Stage:
    """The SuperLink or a pool, on its way from one release to another."""

    title: str
    part: Part
    wanted: Release
    kind: str = ""
    workload: Workload | None = None
    elsewhere: bool = False
    """Whether it is not this operator's to change."""
    superexec: Workload | None = None
    """Of the SuperLink, where it is not in the same pod."""

    @property
    def current(self) -> Release | None:
        """What it was last applied with; an operator before this one did not write it down."""
        if self.workload is None:
            return None
        return parse_release(self.workload.metadata.annotations.get(RELEASE, ""))

    @property
    def changes(self) -> bool:
        return self.current not in (None, self.wanted)

    @property
    def settled(self) -> bool:
        every = [each for each in (self.workload, self.superexec) if each]
        return self.elsewhere or bool(self.workload and all(each.settled for each in every))


@dataclass(frozen=True)
class _Wait:
    """Whether a restart has to wait for runs, and until when at most."""

    needed: bool
    until: datetime | None = None


def decide_upgrade(
    outline: Outline,
    workloads: Mapping[Identity, Workload],
    pods: Iterable[Pod],
    connected: Connected,
    previous: Sequence[Condition],
    now: datetime,
    certificate: str = "",
    elsewhere: Sequence[Advance] = (),
) -> Upgrade:
    """What to do about releases that differ from those that run. `certificate`: the one that
    the SuperLink is to serve; `elsewhere`: pools on other clusters."""
    link = replace(
        _stage("the SuperLink", SUPERLINK, outline.superlink, outline.release, workloads),
        superexec=workloads.get(("Deployment", outline.serverapp or "")),
    )
    if outline.external:
        link = _Stage(link.title, SUPERLINK, link.wanted, elsewhere=True)
    pools = [
        _stage(f"pool {each.name}", pool_part(each.name), each.workload, each.release, workloads)
        for each in outline.pools
    ]
    if fault := _fault(outline, link, pods):
        return Upgrade(frozenset(), outline, fault=fault)
    before = next((each for each in previous if each.type == UPGRADING), None)
    since = _since(before, now)
    changing = [each for each in (link, *pools) if each.changes]
    unsettled = [each for each in (link, *pools) if each.workload and not each.settled]
    here = bool(changing or (since is not None and unsettled))
    away = [each for each in elsewhere if each.behind or (since and each.working(now))]
    if not here and not away:
        done = Finding(UPGRADING, False, "Done", "every part has the release that the spec says")
        return Upgrade(frozenset(), outline, done if before else None)
    wait = _wait(outline, link, connected, since, now, certificate)
    turns = [wait.until] if wait.needed and wait.until else []
    if here:
        held, finding = _next(link, pools, wait, connected)
        upgrade = Upgrade(
            frozenset(each.part for each in held),
            _as_it_is(outline, held),
            finding,
            held_elsewhere=_kept_away(link, link in held, away, elsewhere),
        )
    else:
        upgrade = _next_elsewhere(outline, link, away, wait, connected, now)
        turns += [turn for turn in (away[0].deadline(now),) if turn]
    again = min(((turn - now).total_seconds() for turn in turns), default=None)
    return replace(upgrade, recheck=again)


def _next(
    link: _Stage, pools: Sequence[_Stage], wait: _Wait, connected: Connected
) -> tuple[list[_Stage], Finding]:
    """Who is held back, and what is told."""
    changing = [each for each in pools if each.changes]
    done = sum(not each.changes and each.settled for each in pools)
    progress = f"{done} of {len(pools)} pools done"
    if link.changes and wait.needed:
        # A new pool that does not understand the SuperLink of now waits too.
        new = [each for each in pools if not each.workload and _mismatch(link.current, each.wanted)]
        return [link, *changing, *new], _waiting(link, wait, progress)
    # SuperNodes that do not understand the new SuperLink have nothing to lose.
    waiting = [each for each in changing if not _mismatch(link.wanted, each.current)]
    # Who is not ready as it is goes first: until it is, no other pool should be down.
    waiting.sort(key=lambda each: each.settled)
    if link.changes or not link.settled:
        return waiting, _going(link, connected, progress)
    rolling = [each for each in pools if each.workload and not each.changes and not each.settled]
    if rolling or not waiting:
        first = (rolling or changing)[0]
        return waiting, _going(first, connected, progress)
    if wait.needed:
        return waiting, _waiting(waiting[0], wait, progress)
    return waiting[1:], _going(waiting[0], connected, progress)


def _kept_away(
    link: _Stage, waits: bool, away: Iterable[Advance], elsewhere: Iterable[Advance]
) -> frozenset[Holder]:
    """Clusters that are held back for what comes before them; `waits`: the SuperLink itself."""
    held = {
        (each.pool, site.cluster)
        for each in away
        for site in each.behind
        if waits or not _mismatch(link.wanted, parse_release(site.release))
    }
    if waits:  # who does not understand the SuperLink of now does not join it yet
        held |= {
            (each.pool, site.cluster)
            for each in elsewhere
            for site in each.joining
            if _mismatch(link.current, parse_release(each.release))
        }
    return frozenset(held)


def _next_elsewhere(
    outline: Outline,
    link: _Stage,
    away: Sequence[Advance],
    wait: _Wait,
    connected: Connected,
    now: datetime,
) -> Upgrade:
    """One pool after another, as on the SuperLink's own cluster."""
    first, held = away[0], _kept_away(link, False, away, ())
    following = {(first.pool, site.cluster) for site in first.following(now)} & held
    done = len(first.sites) - len(first.behind) - len(first.working(now)) - len(first.failed(now))
    progress = f"{done} of {len(first.sites)} clusters done"
    title = f"pool {first.pool}"
    if held and first.stopped(now):
        names = _names(first.failed(now))
        message = (
            f"{title} is not ready with Flower {first.release} on {names} after "
            f"{first.rollout.progress_deadline}: the others stay as they are; {progress}"
        )
        finding = Finding(UPGRADING, True, "UpgradeStopped", message)
        fault = Fault("UpgradeStopped", message)
        return Upgrade(frozenset(), outline, finding, held_elsewhere=held, stopped=fault)
    if following and wait.needed:
        latest = f", or at {format_time(wait.until)}" if wait.until else ""
        message = (
            f"{title} goes to Flower {first.release} on {len(first.behind)} clusters when no run "
            f"is under way{latest}; {progress}"
        )
        finding = Finding(UPGRADING, True, "WaitingForRuns", message)
        return Upgrade(frozenset(), outline, finding, held_elsewhere=held)
    names = _names(first.working(now) or first.following(now))
    message = (
        f"waiting until {title} is ready with Flower {first.release} on {names}; {progress}"
        f"{_blindly(connected)}"
    )
    finding = Finding(UPGRADING, True, "UpgradingClusters", message)
    return Upgrade(frozenset(), outline, finding, held_elsewhere=held - following)


def _names(sites: Sequence[Site]) -> str:
    names = [site.cluster for site in sites]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")


def _stage(
    title: str, part: Part, name: str, wanted: str, workloads: Mapping[Identity, Workload]
) -> _Stage:
    release = parse_release(wanted)
    assert release
    for (kind, own), workload in workloads.items():
        if own == name and not workload.metadata.deletion_timestamp:
            return _Stage(title, part, release, kind, workload)
    return _Stage(title, part, release)


def _fault(outline: Outline, link: _Stage, pods: Iterable[Pod]) -> Fault | None:
    """A database that the wanted release cannot read, unless nothing has touched it yet."""
    if not outline.keeps_state or not link.current or link.kind != outline.superlink_kind:
        return None
    mismatch = database_mismatch(link.current, link.wanted)
    if mismatch is None or _never_started(link, pods):
        return None
    return Fault(
        "DatabaseMismatch",
        f"{mismatch}; what runs, runs on. Write {link.current} again, or begin anew without its "
        f"runs: delete the volume of the database, then {link.kind} {outline.superlink}",
    )


def _never_started(link: _Stage, pods: Iterable[Pod]) -> bool:
    """Whether no process of the release that was applied last has run: there is nothing to undo
    but a wish, such as for an image that does not exist."""
    own = [pod for pod in pods if pod.component == "superlink"]
    ready = link.workload is not None and link.workload.ready
    return bool(own) and not ready and not any(pod.has_run for pod in own)


def _wait(
    outline: Outline,
    link: _Stage,
    connected: Connected,
    since: datetime | None,
    now: datetime,
    certificate: str,
) -> _Wait:
    until = (since or now) + outline.max_wait if outline.max_wait is not None else None
    if until and now >= until:
        return _Wait(False)
    if outline.suspended or connected.given_up:
        return _Wait(False)  # runs are to be stopped anyway, or nobody can be asked
    if link.workload is None or not link.workload.ready:
        return _Wait(False)  # there are none
    if link.changes and link.workload.certificate != certificate:
        return _Wait(False)  # it is restarted anyway, and that has waited already
    # What was said before anyone wanted a restart may be old.
    return _Wait(since is None or connected.busy is not False, until)


def _waiting(stage: _Stage, wait: _Wait, progress: str) -> Finding:
    latest = f", or at {format_time(wait.until)}" if wait.until else ""
    message = (
        f"{stage.title} goes from Flower {stage.current} to {stage.wanted} when no run is under "
        f"way{latest}; {progress}"
    )
    return Finding(UPGRADING, True, "WaitingForRuns", message)


def _going(stage: _Stage, connected: Connected, progress: str) -> Finding:
    reason = "UpgradingSuperLink" if stage.part == SUPERLINK else "UpgradingPools"
    message = (
        f"waiting until {stage.title} is ready with Flower {stage.wanted}; {progress}"
        f"{_blindly(connected)}"
    )
    return Finding(UPGRADING, True, reason, message)


def _blindly(connected: Connected) -> str:
    return f"; runs are not waited for: {connected.why_not}" if connected.given_up else ""


def _since(before: Condition | None, now: datetime) -> datetime | None:
    """When it began, if it is under way."""
    if before is None or before.status != "True":
        return None
    return parse_time(before.last_transition_time) or now


def _mismatch(superlink: Release | None, supernode: Release | None) -> bool:
    return bool(superlink and supernode and supernode_mismatch(superlink, supernode))


def _as_it_is(outline: Outline, held: Iterable[_Stage]) -> Outline:
    stages = {each.part: each for each in held if each.workload}
    pools = tuple(_pool_as_it_is(pool, stages.get(pool_part(pool.name))) for pool in outline.pools)
    if link := stages.get(SUPERLINK):
        outline = replace(
            outline,
            release=str(link.current),
            superlink_kind=link.kind,
            launches_pods=True,
            serverapp=outline.serverapp if link.superexec else None,
        )
    return replace(outline, pools=pools)


def _pool_as_it_is(pool: PoolOutline, stage: _Stage | None) -> PoolOutline:
    if stage is None or stage.workload is None or stage.current is None:
        return pool
    return replace(
        pool,
        kind=cast("Mode", stage.kind),
        replicas=stage.workload.desired if stage.kind == "StatefulSet" else None,
        release=str(stage.current),
        launches_pods=True,  # if it does, its tasks are not to be cleared away
        hangs=dialect_of(stage.current).refused_supernode_hangs,
    )
