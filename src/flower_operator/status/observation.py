"""A Federation as it was found: all that its status is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..api.types import ClusterStatus
from ..trust.keys import Enrolment
from .conditions import Finding
from .interconnect import NOTHING, Interconnected
from .observed import Mishap, Pod, Workload
from .outline import PoolOutline


@dataclass(frozen=True)
class Fault:
    """Something that will not mend itself without a person's doing."""

    reason: str
    message: str


@dataclass(frozen=True)
class Connected:
    """How many SuperNodes the SuperLink says are online, or why it could not be asked."""

    count: int | None = None
    why_not: str = ""
    busy: bool | None = None
    """Whether a run is under way; None: it was not asked."""
    asking: bool = False
    """Whether it is being asked for the first time since it, or the operator, was started."""
    given_up: bool = False
    """Whether no answer is expected any more, or never was."""

    enrolment: Enrolment | None = None
    """What it knows of the keys of SuperNodes, where these have keys."""

    @property
    def untold(self) -> bool:
        """Whether it is yet to say if a run is under way: it was not asked, or has not answered."""
        return self.busy is None and not self.given_up


@dataclass(frozen=True)
class Placed:
    """A pool on other clusters, as it is."""

    pool: PoolOutline
    clusters: tuple[ClusterStatus, ...] = ()
    waiting: tuple[str, str] | None = None
    """Why it is on none yet, as reason and message."""
    apps_missing: str = ""
    """What there is to say of ClientApps, where they are in pods of their own."""
    apps_fault: Fault | None = None
    """Why they come no further."""
    recheck: float | None = None
    """Seconds until time alone may change it."""
    keys_faults: tuple[Fault, ...] = ()
    """What is wrong with what clusters report of keys."""

    @property
    def title(self) -> str:
        return f"pool {self.pool.name}"

    @property
    def desired(self) -> int:
        return sum(each.desired for each in self.clusters)

    @property
    def ready(self) -> int:
        return sum(each.ready for each in self.clusters)

    @property
    def faults(self) -> tuple[Fault, ...]:
        lost = [each.name for each in self.clusters if each.addon == "Lost"]
        found = [
            Fault("Refused", f"{self.title}: cluster {each.name}: {each.message}")
            for each in self.clusters
            if each.addon == "Refused"
        ]
        if lost:
            names = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if lost[3:] else "")
            found.append(Fault("ClusterLost", f"{self.title}: the hub does not hear of {names}"))
        further = (*self.keys_faults, *([self.apps_fault] if self.apps_fault else []))
        found += [Fault(fault.reason, f"{self.title}: {fault.message}") for fault in further]
        return tuple(found)

    @property
    def state(self) -> tuple[str, str] | None:
        """Reason and message of one that is not complete."""
        if self.waiting or self.faults:
            return self.waiting or (self.faults[0].reason, self.faults[0].message)
        unready = [each for each in self.clusters if each.ready < each.desired or not each.desired]
        if not unready:
            missing = self.apps_missing
            return ("Placing", f"{self.title}: {missing}") if missing else None
        return "Placing", (
            f"{self.title}: {self.ready} of {self.desired} ready; "
            f"{len(self.clusters) - len(unready)} of {len(self.clusters)} clusters are complete, "
            f"{unready[0].name} is not"
        )


@dataclass(frozen=True)
class Observation:
    """A Federation's objects as they are."""

    workloads: Mapping[tuple[str, str], Workload] = field(default_factory=dict)
    """By kind and name."""
    pods: Sequence[Pod] = ()
    """Those that something is wrong with."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """The API server's words to a workload without its pods, by the workload's uid."""
    mishaps: Sequence[Mishap] = ()
    """What keeps pods of these workloads from being started."""
    pending: Sequence[str] = ()
    """Objects that are still to be applied or removed."""
    faults: Sequence[Fault] = ()
    """Why some of them could not be."""
    connected: Connected = Connected()
    waiting: Mapping[str, str] = field(default_factory=dict)
    """What pods with keys wait for, by their names."""
    notes: Sequence[str] = ()
    """No fault, but worth a user's look, beside what follows from the plan."""
    placed: Sequence[Placed] = ()
    """Pools on other clusters."""
    interconnected: Interconnected = NOTHING
    """How far Skupper is."""
    upgrade: Finding | None = None
    """How far a change of Flower release has come, if there ever was one."""
