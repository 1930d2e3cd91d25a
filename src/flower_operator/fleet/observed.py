"""What is read of a hub's objects: the fields that a decision depends on."""

import msgspec

from ..render.agent import REPORT
from ..render.metadata import PREFIX, RELEASE
from ..status.observed import Metadata, unversioned
from .partitions import numbers_of

Struct = msgspec.Struct

PLACEMENT = "cluster.open-cluster-management.io/placement"
ADDON_NAME = "open-cluster-management.io/addon-name"
WORK_SET_NAME = "work.open-cluster-management.io/manifestworkreplicaset"
PARTITIONS = f"{PREFIX}/partitions"
IMAGE, SINCE = f"{PREFIX}/image", f"{PREFIX}/since"
# What is told of a pool's workload on another cluster.
READY, DESIRED, UPDATED = "ready", "desired", "updated"
GENERATION, OBSERVED = "generation", "observed"
AUTHORITY, RUNNING = "authority", "release"
# What tells a new workload from the one before it, on the workload itself and as it is told.
MARKED, MARK = f"{PREFIX}/mark", "mark"
AVAILABLE = "ManagedClusterConditionAvailable"
# What a managed cluster reports is its own word, and goes into the status of a Federation.
MOST_PODS = 10_000
LONGEST_WORDS = 400
LONGEST_REPORT = 1 << 20
"""More than the keys of the largest pool."""


class _Condition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_time: str = ""


class _Decision(Struct, rename="camel"):
    cluster_name: str = ""


class _DecisionStatus(Struct):
    decisions: list[_Decision] | None = None


class DecisionForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    status: _DecisionStatus = msgspec.field(default_factory=_DecisionStatus)


class Decision(Struct):
    """One page of what a Placement selects."""

    namespace: str
    placement: str
    clusters: tuple[str, ...]


class _ClusterSpec(Struct, rename="camel"):
    hub_accepts_client: bool = False


class _Conditions(Struct):
    conditions: list[_Condition] | None = None

    def find(self, kind: str) -> _Condition | None:
        return next((each for each in self.conditions or () if each.type == kind), None)


class ClusterForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _ClusterSpec = msgspec.field(default_factory=_ClusterSpec)
    status: _Conditions = msgspec.field(default_factory=_Conditions)


class Cluster(Struct):
    name: str
    available: bool
    since: str
    """When that last changed."""
    accepted: bool = True
    """Whether it may be here; one that may not is not available either."""

    @property
    def lost(self) -> bool:
        """Whether it may be back any moment."""
        return self.accepted and not self.available


class ObjectForm(Struct):
    """Something of ours of which only matters whether it is as we made it."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class Object(Struct):
    metadata: Metadata


class AddonForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    status: _Conditions = msgspec.field(default_factory=_Conditions)


class Addon(Object):
    """A pool's addon on one cluster."""

    partitions: tuple[int, ...]
    available: str
    """True, False or Unknown."""

    @property
    def release(self) -> str:
        """Of Flower, which the cluster was told to run."""
        return self.metadata.annotations.get(RELEASE, "")


class _FieldValue(Struct):
    integer: int | None = None
    string: str | None = None


class _Value(Struct, rename="camel"):
    name: str = ""
    field_value: _FieldValue = msgspec.field(default_factory=_FieldValue)


class _Feedback(Struct):
    values: list[_Value] | None = None


class _Manifest(Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    status_feedback: _Feedback = msgspec.field(default_factory=_Feedback)


class _ResourceStatus(Struct):
    manifests: list[_Manifest] | None = None


class _WorkStatus(_Conditions, rename="camel"):
    resource_status: _ResourceStatus = msgspec.field(default_factory=_ResourceStatus)


class WorkForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    status: _WorkStatus = msgspec.field(default_factory=_WorkStatus)


class Work(Struct):
    """What a cluster has of an addon, and what it tells of it."""

    cluster: str
    addon: str
    numbers: dict[str, int]
    refusal: str = ""
    """Why something of it could not be applied there."""
    report: str | None = None
    """What it tells of keys, where it makes some."""
    authority: str = ""
    """The newest CA that its pods are given."""
    release: str = ""
    """Of Flower, which they are made for."""
    mark: str = ""
    """Which of several versions is there, where they spread cluster by cluster."""
    progressing: str = ""
    """Since when it has not been done with that; none: it is done."""

    @property
    def settled(self) -> bool:
        """Whether exactly the pods of its current generation run, and all are ready."""
        told = self.numbers
        counts = {told.get(each, 0) for each in (READY, DESIRED, UPDATED)}
        return len(counts) == 1 and told.get(OBSERVED) == told.get(GENERATION)


def decision_of(form: DecisionForm) -> Decision:
    metadata = form.metadata
    clusters = tuple(each.cluster_name for each in form.status.decisions or ())
    return Decision(metadata.namespace, metadata.labels.get(PLACEMENT, ""), clusters)


def cluster_of(form: ClusterForm) -> Cluster | None:
    """None of one that is on its way out for good."""
    if form.metadata.deletion_timestamp:
        return None
    found, accepted = form.status.find(AVAILABLE), form.spec.hub_accepts_client
    available = found is not None and found.status == "True"
    since = found.last_transition_time if found else ""
    return Cluster(form.metadata.name, available and accepted, since, accepted)


def object_of(form: ObjectForm) -> Object:
    return Object(unversioned(form.metadata))


def addon_of(form: AddonForm) -> Addon:
    health = form.status.find("Available")
    try:
        partitions = numbers_of(form.metadata.annotations.get(PARTITIONS, ""))
    except ValueError:  # someone else's doing
        partitions = ()
    return Addon(unversioned(form.metadata), partitions, health.status if health else "Unknown")


def work_of(form: WorkForm) -> Work:
    numbers = {
        value.name: _bounded(value.name, value.field_value.integer)
        for manifest in form.status.resource_status.manifests or ()
        for value in manifest.status_feedback.values or ()
        if value.field_value.integer is not None
    }
    refusals = (
        each.message
        for manifest in form.status.resource_status.manifests or ()
        for each in manifest.conditions or ()
        if each.type == "Applied" and each.status == "False" and not _is_early(each.message)
    )
    texts = {
        value.name: value.field_value.string
        for manifest in form.status.resource_status.manifests or ()
        for value in manifest.status_feedback.values or ()
        if value.field_value.string is not None
    }
    short = {name: text[:LONGEST_WORDS] for name, text in texts.items()}
    metadata, progress = form.metadata, form.status.find("Progressing")
    if progress and progress.status == "False":
        progress = None
    return Work(
        cluster=metadata.namespace,
        # The works of ClientApps have the same name.
        addon=metadata.labels.get(ADDON_NAME, metadata.name),
        numbers=numbers,
        refusal=next(refusals, "")[:LONGEST_WORDS],
        report=texts[REPORT][:LONGEST_REPORT] if REPORT in texts else None,
        authority=short.get(AUTHORITY, ""),
        release=short.get(RUNNING, ""),
        mark=short.get(MARK, ""),
        progressing=progress.last_transition_time if progress else "",
    )


def _bounded(name: str, number: int) -> int:
    """A number of pods is within what a cluster can have; generations are any number."""
    return min(max(number, 0), MOST_PODS) if name in (READY, DESIRED, UPDATED) else number


def _is_early(message: str) -> bool:
    """Agents apply in an order of their own, in which the namespace need not be first."""
    return "namespaces " in message and "not found" in message
