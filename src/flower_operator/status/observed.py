"""What the operator looks at: of each object only the fields that a decision reads."""

from datetime import datetime
from sys import intern

import msgspec

from ..render.metadata import CLIENTAPP, PREFIX, SERVERAPP
from ..render.secrets import AUTHORITY, CERTIFICATE, GATE, KEYS
from ..render.skupper import Grant
from .troubles import PodStatus, Trouble, running_since, seconds_of, troubles_of

Struct = msgspec.Struct

REVISION = "deployment.kubernetes.io/revision"
# The kubelet waits up to 122 s before it tries to mount a volume again, and tells if it could not.
MOUNT_SECONDS = 150.0

TASKS = {SERVERAPP, CLIENTAPP}


class OwnerReference(Struct, rename="camel"):
    uid: str
    name: str
    controller: bool = False

    def __post_init__(self) -> None:
        self.uid, self.name = intern(self.uid), intern(self.name)


class Metadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # The same on all objects of a Federation, or even on all that there are.
        self.name, self.namespace = intern(self.name), intern(self.namespace)
        self.uid = intern(self.uid)
        self.labels = {intern(key): intern(value) for key, value in self.labels.items()}

    @property
    def owner(self) -> OwnerReference | None:
        """The object that this one belongs to."""
        return next((each for each in self.owner_references if each.controller), None)


class ChildForm(Struct):
    """A ConfigMap."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    data: msgspec.Raw = msgspec.Raw(b"")


class _Ingress(Struct):
    ip: str = ""
    hostname: str = ""


class _LoadBalancer(Struct):
    ingress: list[_Ingress] | None = None


class _ServiceStatus(Struct, rename="camel"):
    load_balancer: _LoadBalancer = msgspec.field(default_factory=_LoadBalancer)


class _ServicePort(Struct, rename="camel"):
    name: str = ""
    node_port: int | None = None


class _ServiceSpec(Struct):
    external_addresses: list[str] | None = msgspec.field(name="externalIPs", default=None)
    ports: list[_ServicePort] | None = None


class ServiceForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _ServiceStatus = msgspec.field(default_factory=_ServiceStatus)


class CountedForm(Struct):
    """A NetworkPolicy: its generation tells whether it has changed."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class _InterconnectionSpec(Struct, rename="camel"):
    redemptions_allowed: int = 1


class _InterconnectionStatus(Struct, rename="camel"):
    status: str = ""
    message: str = ""
    url: str = ""
    code: str = ""
    ca: str = ""
    redemptions: int = 0
    expiration_time: str = ""


class InterconnectionForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _InterconnectionSpec = msgspec.field(default_factory=_InterconnectionSpec)
    status: _InterconnectionStatus = msgspec.field(default_factory=_InterconnectionStatus)


class ServiceAccountForm(Struct, rename="camel"):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    automount_service_account_token: bool | None = None
    image_pull_secrets: list[dict[str, str]] | None = None


class RoleBindingForm(Struct, rename="camel"):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    role_ref: dict[str, str] | None = None
    subjects: list[dict[str, str]] | None = None


class Child(Struct):
    """An object of ours that only has to be as it was rendered."""

    metadata: Metadata
    content: bytes
    """Its spec, data or what else it has, as JSON: read when called for, and small until then."""


class Interconnection(Child):
    """An object of Skupper's."""

    kind: str
    state: str
    message: str
    grant: Grant | None = None
    """What lets other clusters link, of an AccessGrant."""
    used_up: bool = False
    """Whether as many have linked by it as may."""
    ends: float | None = None
    """When it lets nobody link any more."""


class Service(Child):
    addresses: tuple[str, ...]
    """Where it is reached from outside of the cluster, as far as it says so itself."""


class _Condition(Struct):
    type: str = ""
    status: str = ""
    message: str = ""


class _TemplateAnnotations(Struct):
    certificate: str = msgspec.field(name=CERTIFICATE, default="")
    authority: str = msgspec.field(name=AUTHORITY, default="")
    keys: str = msgspec.field(name=KEYS, default="")


class _TemplateMetadata(Struct):
    annotations: _TemplateAnnotations = msgspec.field(default_factory=_TemplateAnnotations)


class _Template(Struct):
    metadata: _TemplateMetadata = msgspec.field(default_factory=_TemplateMetadata)


class _WorkloadSpec(Struct):
    replicas: int = 1
    template: _Template = msgspec.field(default_factory=_Template)


class _WorkloadStatus(Struct, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0
    conditions: list[_Condition] | None = None


class WorkloadForm(Struct):
    """A Deployment, StatefulSet or DaemonSet as the API server tells it."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = msgspec.field(default_factory=_WorkloadStatus)


class Workload(Struct):
    """A workload in the numbers that all three kinds have in common."""

    metadata: Metadata
    desired: int
    created: int
    ready: int
    settled: bool
    """Whether exactly the pods of the current generation run, and all are ready."""
    refused: str | None = None
    """Why pods could not be created, where the workload itself says so."""
    certificate: str = ""
    authority: str = ""
    keys: str = ""
    """What its pods are started with, where they are told."""


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


class _EventMetadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _InvolvedObject(Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""


class EventForm(Struct, rename="camel"):
    metadata: _EventMetadata = msgspec.field(default_factory=_EventMetadata)
    involved_object: _InvolvedObject = msgspec.field(default_factory=_InvolvedObject)
    reason: str = ""
    message: str = ""
    count: int | None = 1
    last_timestamp: str | None = None


class Refusal(Struct):
    """The API server's words to a workload that wanted a pod."""

    uid: str
    workload: str
    message: str

    @property
    def workloads(self) -> set[str]:
        return {self.workload}


class TrustForm(Struct):
    """A Secret, or a ConfigMap, with certificates or keys."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    data: msgspec.Raw = msgspec.Raw(b"{}")


class Trust(Struct):
    metadata: Metadata
    data: bytes


class Mishap(Struct):
    """The kubelet's words about a pod that it cannot start: a volume is not there."""

    namespace: str
    pod: str
    message: str
    until: float
    """When it is taken to be over, as seconds of the epoch, unless it happens again."""

    @property
    def workloads(self) -> set[str]:
        """Whose pod it can be: names of pods end with a number, or with one or two hashes."""
        parts = self.pod.split("-")
        return {"-".join(parts[:-1]), "-".join(parts[:-2])}


class FederationForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class Federation(Struct):
    """A Federation as it came; its spec is read when that is called for."""

    metadata: Metadata
    spec: bytes
    status: bytes


def federation_of(form: FederationForm) -> Federation:
    return Federation(unversioned(form.metadata), bytes(form.spec), bytes(form.status))


def child_of(form: ChildForm) -> Child:
    return Child(unversioned(form.metadata), bytes(form.data))


def node_port_of(service: Service, name: str) -> int | None:
    spec = msgspec.json.decode(service.content, type=_ServiceSpec)
    return next((port.node_port for port in spec.ports or () if port.name == name), None)


def service_of(form: ServiceForm) -> Service:
    spec, ingress = bytes(form.spec), form.status.load_balancer.ingress or ()
    given = msgspec.json.decode(spec, type=_ServiceSpec).external_addresses or ()
    addresses = [*given, *(text for each in ingress for text in (each.ip, each.hostname) if text)]
    return Service(unversioned(form.metadata), spec, tuple(addresses))


def interconnection_of(kind: str, form: InterconnectionForm) -> Interconnection:
    status = form.status
    granted = status.url and status.code and status.ca
    grant = Grant(status.url, status.code, status.ca) if granted else None
    return Interconnection(
        unversioned(form.metadata),
        b"",
        kind,
        status.status,
        status.message,
        grant,
        used_up=grant is not None and status.redemptions >= form.spec.redemptions_allowed,
        ends=_moment(status.expiration_time),
    )


def _moment(text: str) -> float | None:
    """None for what is no time: any text may stand there."""
    try:
        return seconds_of(text) or None
    except ValueError:
        return None


def counted_of(form: CountedForm) -> Child:
    return Child(unversioned(form.metadata), b"")


def service_account_of(form: ServiceAccountForm) -> Child:
    content = {
        "automountServiceAccountToken": form.automount_service_account_token,
        "imagePullSecrets": form.image_pull_secrets,
    }
    return Child(unversioned(form.metadata), msgspec.json.encode(content))


def role_binding_of(form: RoleBindingForm) -> Child:
    content = {"roleRef": form.role_ref, "subjects": form.subjects}
    return Child(unversioned(form.metadata), msgspec.json.encode(content))


def trust_of(form: TrustForm) -> Trust:
    return Trust(unversioned(form.metadata), bytes(form.data))


def deployment_of(form: WorkloadForm) -> Workload:
    form.metadata.annotations.pop(REVISION, None)  # the controller's count is nobody's news
    return _replicated(form, form.status.available_replicas)


def stateful_set_of(form: WorkloadForm) -> Workload:
    return _replicated(form, form.status.ready_replicas)


def daemon_set_of(form: WorkloadForm) -> Workload:
    status = form.status
    desired = status.desired_number_scheduled
    whole = status.updated_number_scheduled == desired and status.number_ready >= desired
    return Workload(
        metadata=unversioned(form.metadata),
        desired=desired,
        created=status.current_number_scheduled,
        ready=status.number_ready,
        settled=_current(form) and whole,
        **_started_with(form),
    )


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


def told_by(form: EventForm) -> Refusal | Mishap | None:
    """What an Event says that nothing else does."""
    match form.reason:
        case "FailedCreate":
            return _refusal_of(form)
        case "FailedMount":
            return _mishap_of(form)
    return None


def _refusal_of(form: EventForm) -> Refusal | None:
    """A Deployment tells it in its own status, these two only in Events."""
    about = form.involved_object
    if about.kind not in ("StatefulSet", "DaemonSet"):
        return None
    return Refusal(about.uid, about.name, form.message)


def _mishap_of(form: EventForm) -> Mishap | None:
    """Twice is nothing: a pod and what it mounts are often made at the same time."""
    if form.involved_object.kind != "Pod" or not form.last_timestamp or (form.count or 1) < 3:
        return None
    last: float = datetime.fromisoformat(form.last_timestamp).timestamp()
    pod = form.involved_object.name
    return Mishap(form.metadata.namespace, pod, form.message, last + MOUNT_SECONDS)


def _replicated(form: WorkloadForm, available: int) -> Workload:
    status, desired = form.status, form.spec.replicas
    failures = [each for each in status.conditions or () if each.type == "ReplicaFailure"]
    whole = status.replicas == status.updated_replicas == desired and available >= desired
    return Workload(
        metadata=unversioned(form.metadata),
        desired=desired,
        created=status.replicas,
        ready=status.ready_replicas,
        settled=_current(form) and whole,
        refused=next((each.message for each in failures if each.status == "True"), None),
        **_started_with(form),
    )


def _started_with(form: WorkloadForm) -> dict[str, str]:
    given = form.spec.template.metadata.annotations
    return {
        "certificate": given.certificate,
        "authority": given.authority,
        "keys": given.keys,
    }


def _current(form: WorkloadForm) -> bool:
    return form.status.observed_generation >= form.metadata.generation


def unversioned(metadata: Metadata) -> Metadata:
    """The cache knows the version; without it, objects compare by what they say."""
    metadata.resource_version = ""
    return metadata
