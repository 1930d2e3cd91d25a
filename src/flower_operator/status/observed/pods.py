"""Pods that something is wrong with, or that have a key or a task."""

import msgspec
from msgspec import Struct

from ...render.metadata import CLIENTAPP, PREFIX, SERVERAPP
from ...render.secrets import GATE, KEYS
from ..troubles import PodStatus, Trouble, running_since, seconds_of, troubles_of

TASKS = {SERVERAPP, CLIENTAPP}


class _PodLabels(Struct):
    federation: str = msgspec.field(name=f"{PREFIX}/federation", default="")
    pool: str = msgspec.field(name=f"{PREFIX}/pool", default="")
    component: str = msgspec.field(name=f"{PREFIX}/component", default="")
    index: str = msgspec.field(name=f"{PREFIX}/index", default="")
    ordinal: str = msgspec.field(name="apps.kubernetes.io/pod-index", default="")


class _PodAnnotations(Struct):
    keys: str = msgspec.field(name=KEYS, default="")


class _PodMetadata(Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: _PodLabels = msgspec.field(default_factory=_PodLabels)
    annotations: _PodAnnotations = msgspec.field(default_factory=_PodAnnotations)


class _Gate(Struct):
    name: str = ""


class _Requirement(Struct):
    key: str = ""
    values: tuple[str, ...] = ()


class _Term(Struct, rename="camel"):
    match_fields: tuple[_Requirement, ...] = ()


class _NodeSelector(Struct, rename="camel"):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(Struct):
    required: _NodeSelector = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default_factory=_NodeSelector
    )


class _Affinity(Struct, rename="camel"):
    node_affinity: _NodeAffinity = msgspec.field(default_factory=_NodeAffinity)


class _PodSpec(Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: tuple[_Gate, ...] = ()
    affinity: _Affinity = msgspec.field(default_factory=_Affinity)

    @property
    def node(self) -> str:
        """Where it is, or where a DaemonSet wants it to be."""
        aims = (
            value
            for term in self.affinity.node_affinity.required.node_selector_terms
            for field in term.match_fields
            if field.key == "metadata.name"
            for value in field.values
        )
        return self.node_name or next(aims, "")


class PodForm(Struct):
    metadata: _PodMetadata = msgspec.field(default_factory=_PodMetadata)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Pod(Struct, frozen=True):
    """A pod that something is wrong with, or that has a key, or one of a task, which has no
    troubles of its own: how tasks fare is between Flower and its users."""

    namespace: str
    federation: str
    pool: str
    component: str
    name: str
    ended: bool
    """Whether it has ended for good, and only lies about until it is cleared away."""
    troubles: tuple[Trouble, ...]
    uid: str = ""
    index: str = ""
    """Of the SuperNode that a task is for."""
    key: str = ""
    """Which of its pool's keys is its own, where SuperNodes have keys."""
    gates: tuple[str, ...] = ()
    """What holds it back from being scheduled."""
    created: float = 0.0
    """Since when there is a pod with a key, as seconds of the epoch."""
    started: float | None = None
    """Since when its SuperNode runs."""
    has_run: bool = True
    """Whether any of its containers was ever started."""

    @property
    def is_held(self) -> bool:
        return GATE in self.gates


def pod_of(form: PodForm) -> Pod | None:
    """Pods that are on their way out are of no interest, nor are those that are well, unless
    they are tasks' or have keys."""
    metadata, labels = form.metadata, form.metadata.labels
    if metadata.deletion_timestamp:
        return None
    task, keyed = labels.component in TASKS, bool(metadata.annotations.keys)
    gates = tuple(gate.name for gate in form.spec.scheduling_gates)
    # A pod that we hold back cannot be scheduled, and that is all that is wrong with it.
    excused = task or GATE in gates
    troubles = () if excused else tuple(troubles_of(form.status, form.spec.node_name))
    if not troubles and not task and not keyed:
        return None
    return Pod(
        namespace=metadata.namespace,
        federation=labels.federation,
        pool=labels.pool,
        component=labels.component,
        name=metadata.name,
        # One value for a task's whole life: nobody has to hear how it gets on.
        ended=not task and form.status.phase in ("Failed", "Succeeded"),
        troubles=troubles,
        uid=metadata.uid,
        index=labels.index,
        key=(labels.ordinal or form.spec.node) if keyed else "",
        gates=gates if keyed else (),
        created=seconds_of(metadata.creation_timestamp) if keyed else 0.0,
        started=running_since(form.status, "supernode") if keyed else None,
        has_run=task or form.status.has_run,
    )
