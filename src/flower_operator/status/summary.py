"""summarize(): a Federation's status from everything that was observed of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ..api.types import Condition, Endpoints, FederationStatus, PoolStatus
from ..render.metadata import SUPEREXEC_SERVERAPP
from ..render.releases import Assumed
from .conditions import Finding, conditions_of
from .observation import Connected, Fault, Observation, Placed
from .observed import Pod, Workload
from .outline import Outline, PoolOutline
from .troubles import Trouble, refuses_arguments

READY = "Ready"
RECONCILING = "Reconciling"
SUPERLINK_AVAILABLE = "SuperLinkAvailable"
DEGRADED = "Degraded"
UPGRADING = "Upgrading"

# Images of SuperExecs are the apps' own and follow their owners without a word.
NAMED_CONTAINERS = ("superlink", "supernode")

EXTERNAL = "External"
"""Why it is not known whether a SuperLink is available."""


@dataclass(frozen=True)
class Summary:
    status: FederationStatus
    superlink_available: bool
    recheck: float | None
    """Seconds until time alone may change it."""


@dataclass(frozen=True)
class _Part:
    """The SuperLink, the SuperExec of its ServerApps, or one pool."""

    title: str
    workload: Workload | None
    faults: tuple[Fault, ...]
    waiting: str = ""
    """What one of its pods waits for."""

    @property
    def available(self) -> bool:
        return bool(self.workload and self.workload.ready and not self.faults)

    @property
    def complete(self) -> bool:
        return bool(self.workload and self.workload.settled and not self.faults)

    @property
    def state(self) -> tuple[str, str]:
        """Reason and message of a part that is not complete."""
        if self.faults:
            return self.faults[0].reason, self.faults[0].message
        if self.workload is None:
            return "Missing", f"{self.title} does not exist yet"
        ready, desired = self.workload.ready, self.workload.desired
        if self.waiting:
            message = f"{self.title}: {ready} of {desired} ready; {self.waiting}"
            return "WaitingForKey", message
        return "Starting", f"{self.title}: {ready} of {desired} ready, rolling out"


def summarize(
    outline: Outline,
    observation: Observation,
    previous: FederationStatus,
    generation: int,
    now: datetime,
) -> Summary:
    if observation.connected.asking:  # what it said before holds until it says otherwise
        known = replace(observation.connected, count=previous.connected_supernodes)
        observation = replace(observation, connected=known)
    superlink = None if outline.external else _superlink(outline, observation, now)
    serverapp = _serverapp(outline, observation, now)
    pools = [_pool(pool, observation, now) for pool in outline.pools]
    desired = sum(_desired(pool, part) for pool, part in zip(outline.pools, pools, strict=True))
    ready = sum(_ready(pool, part) for pool, part in zip(outline.pools, pools, strict=True))
    desired += sum(each.desired for each in observation.placed)
    ready += sum(each.ready for each in observation.placed)
    was_ready = any(each.type == READY and each.status == "True" for each in previous.conditions)
    parts = [each for each in (superlink, *serverapp) if each]
    findings = _findings(outline, observation, parts, pools, (ready, desired), was_ready)
    status = FederationStatus(
        observed_generation=generation,
        release=None if outline.external else outline.release,
        supernodes=f"{ready}/{desired}",
        ready_supernodes=ready,
        desired_supernodes=desired,
        connected_supernodes=observation.connected.count,
        endpoints=Endpoints(superlink_service=outline.endpoint),
        pools=_in_order(
            outline,
            [
                _pool_status(pool, part, outline, previous, generation, now)
                for pool, part in zip(outline.pools, pools, strict=True)
            ],
            [
                _placed_status(each, outline, previous, generation, now)
                for each in observation.placed
            ],
        ),
        conditions=conditions_of(findings, previous.conditions, generation, now),
    )
    available = superlink is not None and superlink.available
    return Summary(status, available, _recheck(observation, now))


def refuse(
    faults: Sequence[Fault],
    superlink: Workload | None,
    previous: FederationStatus,
    generation: int,
    now: datetime,
) -> FederationStatus:
    """The status of a Federation that cannot be rendered: what runs, runs on as it was."""
    message = "; ".join(fault.message for fault in faults)
    elsewhere = superlink is None and any(each.reason == EXTERNAL for each in previous.conditions)
    part = None if elsewhere else _Part("the SuperLink", superlink, ())
    findings = [
        Finding(READY, False, faults[0].reason, message),
        Finding(RECONCILING, False, faults[0].reason, "waiting for a spec that can be applied"),
        _availability(part, Connected()),
        Finding(DEGRADED, True, faults[0].reason, message),
    ]
    conditions = conditions_of(findings, previous.conditions, generation, now)
    changes = {"observed_generation": generation, "conditions": conditions}
    return previous.model_copy(update=changes)


def _findings(
    outline: Outline,
    observation: Observation,
    servers: Sequence[_Part],
    pools: Sequence[_Part],
    counts: tuple[int, int],
    was_ready: bool,
) -> list[Finding]:
    faults = [*observation.faults, *(f for part in (*servers, *pools) for f in part.faults)]
    faults += [fault for each in observation.placed for fault in each.faults]
    upgrade = observation.upgrade
    waiting = _waiting(outline, observation, servers, pools, counts, was_ready)
    if upgrade and upgrade.status:
        waiting = (upgrade.reason, upgrade.message)
    if faults:
        reconciling = Finding(RECONCILING, False, faults[0].reason, "waiting for a fault to end")
        verdict = _unready(outline, faults[0].reason, faults[0].message)
    elif waiting:
        reconciling = Finding(RECONCILING, True, *waiting)
        verdict = _unready(outline, *waiting)
    else:
        reconciling = Finding(RECONCILING, False, "Done", "everything is as the spec says")
        notes = [*observation.notes, *observation.interconnected.notes]
        verdict = _settled(outline, notes, counts)
    return [
        verdict,
        reconciling,
        _availability(servers[0] if servers else None, observation.connected),
        _degradation(faults),
        *([upgrade] if upgrade else []),
    ]


def _waiting(
    outline: Outline,
    observation: Observation,
    servers: Sequence[_Part],
    pools: Sequence[_Part],
    counts: tuple[int, int],
    was_ready: bool,
) -> tuple[str, str] | None:
    """What is still on its way, if anything is."""
    if observation.pending:
        return "Applying", f"to be applied or removed: {', '.join(observation.pending)}"
    if states := [part.state for part in servers if not part.complete]:
        return states[0]
    if observation.interconnected.waiting:
        return observation.interconnected.waiting
    states = [
        part.state
        for pool, part in zip(outline.pools, pools, strict=True)
        if not part.complete and not _absent_by_intent(pool, outline)
    ]
    if not outline.suspended:
        states += [state for each in observation.placed if (state := each.state)]
    if states:
        return states[0]
    if not outline.suspended:
        if counts[1] == 0:
            return "NoNodes", "no node of the cluster matches any pool"
        if observation.connected.asking and not was_ready:
            return "NotConnected", "the SuperLink is asked which SuperNodes are connected to it"
        connected = observation.connected.count
        if connected is not None and connected < counts[1]:
            return (
                "NotConnected",
                f"{connected} of {counts[1]} SuperNodes are connected to the SuperLink",
            )
    return None


def _unready(outline: Outline, reason: str, message: str) -> Finding:
    """What is assumed of images may be why."""
    assumed = [*outline.assumed, *(each for pool in outline.pools for each in pool.assumed)]
    images = dict.fromkeys(sentence for name, sentence in assumed if name in NAMED_CONTAINERS)
    notes = "".join(f"; note: {sentence}" for sentence in images if sentence not in message)
    return Finding(READY, False, reason, message + notes)


def _settled(outline: Outline, notes: Sequence[str], counts: tuple[int, int]) -> Finding:
    if outline.suspended:
        goes_on = "" if outline.external else ", the SuperLink does"
        message = f"spec.suspend is true: no SuperNodes run{goes_on}"
        return Finding(READY, False, "Suspended", message)
    ready = f"{counts[0]} of {counts[1]} SuperNodes are ready"
    message = ready if outline.external else f"the SuperLink and {ready}"
    told = "".join(f"; note: {notice}" for notice in (*outline.notices, *notes))
    return Finding(READY, True, "AllReady", message + told)


def _availability(superlink: _Part | None, connected: Connected) -> Finding:
    if superlink is None:
        message = "the SuperLink runs elsewhere; whether it answers is not known here"
        return Finding(SUPERLINK_AVAILABLE, None, EXTERNAL, message)
    if superlink.available:
        message = "the SuperLink answers"
        if connected.why_not:
            message += f"; how many SuperNodes are connected is not known: {connected.why_not}"
        return Finding(SUPERLINK_AVAILABLE, True, "Available", message)
    return Finding(SUPERLINK_AVAILABLE, False, *superlink.state)


def _degradation(faults: Sequence[Fault]) -> Finding:
    if not faults:
        return Finding(DEGRADED, False, "NoFaults", "no faults are known")
    messages = dict.fromkeys(fault.message for fault in faults)
    return Finding(DEGRADED, True, faults[0].reason, "; ".join(messages))


def _superlink(outline: Outline, observation: Observation, now: datetime) -> _Part:
    workload = observation.workloads.get((outline.superlink_kind, outline.superlink))
    pods = [pod for pod in observation.pods if pod.component == "superlink"]
    faults = _faults(workload, pods, observation, now, outline.assumed)
    return _Part("the SuperLink", workload, faults)


def _serverapp(outline: Outline, observation: Observation, now: datetime) -> list[_Part]:
    """The SuperExec for ServerApps, unless it is in the SuperLink's pod."""
    if outline.serverapp is None:
        return []
    workload = observation.workloads.get(("Deployment", outline.serverapp))
    pods = [pod for pod in observation.pods if pod.component == SUPEREXEC_SERVERAPP]
    faults = _faults(workload, pods, observation, now, outline.assumed)
    return [_Part("the SuperExec for ServerApps", workload, faults)]


def _pool(pool: PoolOutline, observation: Observation, now: datetime) -> _Part:
    workload = observation.workloads.get((pool.kind, pool.workload))
    pods = [
        pod for pod in observation.pods if pod.component == "supernode" and pod.pool == pool.name
    ]
    words = (
        f"pod {pod.name} waits: {observation.waiting[pod.name]}"
        for pod in sorted(pods, key=lambda each: each.name)
        if pod.name in observation.waiting
    )
    faults = _faults(workload, pods, observation, now, pool.assumed)
    return _Part(f"pool {pool.name}", workload, faults, next(words, ""))


def _faults(
    workload: Workload | None,
    pods: Iterable[Pod],
    observation: Observation,
    now: datetime,
    assumed: Assumed,
) -> tuple[Fault, ...]:
    found = []
    if workload and workload.created < workload.desired:
        words = workload.refused or observation.refusals.get(workload.metadata.uid)
        if words:
            found.append(Fault("PodsRefused", words))
    settled = workload is not None and workload.settled
    for pod in sorted(pods, key=lambda each: each.name):
        if (pod.ended and settled) or pod.name in observation.waiting:
            continue
        for trouble in pod.troubles:
            if trouble.until is None or trouble.until > now.timestamp():
                found.append(_fault(pod, trouble, assumed))
    if workload and not settled:
        for mishap in observation.mishaps:
            if workload.metadata.name in mishap.workloads and mishap.until > now.timestamp():
                found.append(Fault("VolumeNotMounted", f"pod {mishap.pod}: {mishap.message}"))
    return tuple(found)


def _fault(pod: Pod, trouble: Trouble, assumed: Assumed) -> Fault:
    message = f"pod {pod.name}: {trouble.message}"
    for container, sentence in assumed:
        if refuses_arguments(trouble, container):
            return Fault("ReleaseAssumed", f"{message}; {sentence}")
    return Fault(trouble.reason, message)


def _desired(pool: PoolOutline, part: _Part) -> int:
    if pool.replicas is not None:
        return pool.replicas
    return part.workload.desired if part.workload else 0


def _ready(pool: PoolOutline, part: _Part) -> int:
    return min(part.workload.ready, _desired(pool, part)) if part.workload else 0


def _absent_by_intent(pool: PoolOutline, outline: Outline) -> bool:
    return outline.suspended and pool.kind == "DaemonSet"


def _pool_status(
    pool: PoolOutline,
    part: _Part,
    outline: Outline,
    previous: FederationStatus,
    generation: int,
    now: datetime,
) -> PoolStatus:
    ready, desired = _ready(pool, part), _desired(pool, part)
    state = None if part.complete else part.state
    finding = _pool_finding(outline, state, f"{ready} of {desired} SuperNodes are ready")
    return PoolStatus(
        name=pool.name,
        kind=pool.kind,
        release=pool.release,
        desired=desired,
        ready=ready,
        conditions=conditions_of([finding], _history(pool, previous), generation, now),
    )


def _placed_status(
    placed: Placed, outline: Outline, previous: FederationStatus, generation: int, now: datetime
) -> PoolStatus:
    pool, clusters = placed.pool, placed.clusters
    message = f"{placed.ready} of {placed.desired} SuperNodes on {len(clusters)} clusters are ready"
    finding = _pool_finding(outline, placed.state, message)
    return PoolStatus(
        name=pool.name,
        kind=pool.kind,
        release=pool.release,
        desired=placed.desired,
        ready=placed.ready,
        clusters=list(clusters),
        conditions=conditions_of([finding], _history(pool, previous), generation, now),
    )


def _pool_finding(outline: Outline, state: tuple[str, str] | None, complete: str) -> Finding:
    if outline.suspended:
        return Finding(READY, False, "Suspended", "spec.suspend is true")
    return Finding(READY, False, *state) if state else Finding(READY, True, "AllReady", complete)


def _history(pool: PoolOutline, previous: FederationStatus) -> Sequence[Condition]:
    before = next((each for each in previous.pools if each.name == pool.name), None)
    return before.conditions if before else ()


def _in_order(
    outline: Outline, own: Iterable[PoolStatus], placed: Iterable[PoolStatus]
) -> list[PoolStatus]:
    """As in the manifest."""
    places = {pool.name: pool.position for pool in (*outline.pools, *outline.placed)}
    return sorted((*own, *placed), key=lambda each: places[each.name])


def _recheck(observation: Observation, now: datetime) -> float | None:
    times = [each.until for pod in observation.pods for each in pod.troubles if each.until]
    times += [mishap.until for mishap in observation.mishaps]
    later = [time - now.timestamp() for time in times if time > now.timestamp()]
    later += [each.recheck for each in observation.placed if each.recheck is not None]
    return min(later) if later else None
