"""The Federation: every field, its default and its limits. The CRD is generated from here."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from .kubernetes import KubernetesType, in_order
from .limits import MAX_CLAIMS, MAX_ITEMS, MAX_LINE, MAX_PEM, MAX_STRING, MAX_SUPERNODES
from .lists import Keyed
from .patterns import DNS_LABEL, DURATION, HOST, HOST_AND_PORT, IMAGE, IMAGE_OR_EMPTY

GROUP = "flwr.exalsius.ai"
VERSION = "v1"
KIND = "Federation"

Mode = Literal["DaemonSet", "StatefulSet"]
IsolationMode = Literal["process", "subprocess"]
Executor = Literal["subprocess", "kubernetes"]
AccessMode = Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"]

Line = Annotated[str, Field(max_length=MAX_LINE)]
Text = Annotated[Line, Field(min_length=1)]
String = Annotated[str, Field(max_length=MAX_STRING)]
Pem = Annotated[str, Field(min_length=1, max_length=MAX_PEM)]
Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Replicas = Annotated[int, Field(ge=1, le=MAX_SUPERNODES)]
Duration = Annotated[str, Field(pattern=DURATION, max_length=32)]
SECONDS = {"h": 3600, "m": 60, "s": 1}
LONGEST_SECONDS = 10 * 365 * 24 * 3600
Host = Annotated[str, Field(pattern=HOST, max_length=253)]
Address = Annotated[str, Field(pattern=HOST_AND_PORT, max_length=261)]
Image = Annotated[str, Field(min_length=1, pattern=IMAGE, max_length=MAX_LINE)]
ImageOrEmpty = Annotated[str, Field(pattern=IMAGE_OR_EMPTY, max_length=MAX_LINE)]
Texts = Annotated[dict[str, String], Field(max_length=MAX_ITEMS), AfterValidator(in_order)]

PodTemplate = Annotated[dict[str, Any], KubernetesType("PodTemplateSpec")]
Resources = Annotated[dict[str, Any], KubernetesType("ResourceRequirements")]
EnvVar = Annotated[dict[str, Any], KubernetesType("EnvVar")]
Volume = Annotated[dict[str, Any], KubernetesType("Volume")]
VolumeMount = Annotated[dict[str, Any], KubernetesType("VolumeMount")]
VolumeClaimTemplate = Annotated[dict[str, Any], KubernetesType("VolumeClaimTemplate")]
Quantity = Annotated[int | str, KubernetesType("Quantity")]
Share = Annotated[int | str, KubernetesType("Share")]
EgressRule = Annotated[dict[str, Any], KubernetesType("NetworkPolicyEgressRule")]
NetworkPeer = Annotated[dict[str, Any], KubernetesType("NetworkPolicyPeer")]
Metadata = Annotated[dict[str, Any], KubernetesType("FederationMetadata")]

Bounded = Field(max_length=MAX_ITEMS)
EnvVars = Annotated[list[EnvVar], Bounded, Keyed("name")]
Volumes = Annotated[list[Volume], Bounded, Keyed("name")]
VolumeMounts = Annotated[list[VolumeMount], Bounded, Keyed("mountPath")]
VolumeClaimTemplates = Annotated[list[VolumeClaimTemplate], Field(max_length=MAX_CLAIMS)]
Arguments = Annotated[list[String], Bounded]


def _time_of(duration: str) -> timedelta:
    """One too long for a calendar is as good as for ever."""
    parts = re.findall(r"([0-9]+)([hms])", duration)
    seconds = sum(int(number) * SECONDS[unit] for number, unit in parts)
    return timedelta(seconds=min(seconds, LONGEST_SECONDS))


class Part(BaseModel):
    """A part of the manifest: strict about types, closed to unknown fields."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Nobody changes one, so those that are defaults need not be copied for each manifest."""
        return self


class ServicePorts(Part):
    grpc: Port = Field(default=9092, description="Service port of the Fleet API (SuperNodes).")
    server_app_io: Port = Field(
        default=9091,
        alias="serverAppIO",
        description="Service port of the ServerApp runtime API (process isolation).",
    )
    extra: Port = Field(
        default=9093, description="Service port of the Control API, which `flwr run` uses."
    )


class NodePorts(Part):
    grpc: Port | None = Field(default=None, description="Node port of the Fleet API.")
    server_app_io: Port | None = Field(
        default=None,
        alias="serverAppIO",
        description="Node port of the ServerApp runtime API, where the Service has it.",
    )
    extra: Port | None = Field(default=None, description="Node port of the Control API.")

    @property
    def any_given(self) -> bool:
        return bool(self.grpc or self.server_app_io or self.extra)


class SuperLinkService(Part):
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        default="ClusterIP", description="How the SuperLink is exposed."
    )
    ports: ServicePorts = Field(
        default=ServicePorts(), description="Port numbers of the Service, on every release."
    )
    node_ports: NodePorts = Field(
        default=NodePorts(),
        description="Fixed node ports, for type NodePort or LoadBalancer; Kubernetes' choice if "
        "not set.",
    )
    external_address: Host | None = Field(
        default=None,
        description=(
            "Name or IP address by which other clusters reach the Service; if not set, the "
            "address that its load balancer has. The certificate is for it too."
        ),
    )
    labels: Texts = Field(default={}, description="Labels added to the Service.")
    annotations: Texts = Field(default={}, description="Annotations added to the Service.")


class Persistence(Part):
    size: Quantity = Field(description="Size of the claim, such as 10Gi.")
    storage_class_name: Line | None = Field(
        default=None, description="Class of the claim; the cluster's default if not set."
    )
    access_modes: Annotated[list[AccessMode], Field(min_length=1, max_length=MAX_ITEMS)] = Field(
        default=["ReadWriteOnce"],
        description="How the volume may be mounted; ReadWriteOnce if not set.",
    )


class ExternalSuperLink(Part):
    address: Address = Field(
        description="Host and port of its Fleet API, as in flower.example.org:9092."
    )
    ca: Pem | None = Field(
        default=None,
        description="Certificates of its CA as PEM, all that SuperNodes trust; insecure: false.",
    )

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


class Gateway(Part):
    enabled: bool = Field(
        default=False,
        description=(
            "true: Envoy stands in front of the SuperLink. It keeps the Fleet and Control APIs "
            "apart on every release, serves TLS, and refuses SuperNodes that register their own "
            "keys where supernodeAuth is enabled."
        ),
    )
    image: Image | None = Field(
        default=None, description="Image of Envoy; the operator's --gateway-image if not set."
    )
    resources: Resources = Field(default={}, description="Resources of the gateway container.")


class SuperLink(Part):
    image: Image | None = Field(
        default=None, description="Image of the SuperLink; required unless external is set."
    )
    external: ExternalSuperLink | None = Field(
        default=None,
        description="A SuperLink that runs elsewhere: the SuperNodes connect to it, none is made.",
    )
    superexec_image: ImageOrEmpty | None = Field(
        default=None,
        description="Image of the SuperExec that runs ServerApps; process isolation only.",
    )
    executor: Executor | None = Field(
        default=None,
        description=(
            "Where the SuperExec runs ServerApps: as its own subprocesses, which is what it does "
            "if not told, or with Flower's Kubernetes executor, each in a pod of its own."
        ),
    )
    resources: Resources = Field(default={}, description="Resources of the SuperLink container.")
    superexec_resources: Resources = Field(
        default={},
        description="Resources of the SuperExec container; with executor kubernetes, of each task.",
    )
    env: EnvVars = Field(default=[], description="Environment of the SuperLink and its SuperExec.")
    extra_args: Arguments = Field(
        default=[], description="Arguments added to the SuperLink's command line."
    )
    pod_template: PodTemplate = Field(
        default={}, description="Merged into the SuperLink's pod as a strategic merge patch."
    )
    volumes: Volumes = Field(default=[], description="Volumes of the SuperLink's pod.")
    volume_mounts: VolumeMounts = Field(
        default=[], description="Mounts of the SuperLink container."
    )
    superexec_volume_mounts: VolumeMounts = Field(
        default=[],
        description="Mounts of the SuperExec container; volumeMounts where this is empty.",
    )
    volume_claim_templates: VolumeClaimTemplates = Field(
        default=[],
        description="Claims of the SuperLink's own; with them it is a StatefulSet of one.",
    )
    persistence: Persistence | None = Field(
        default=None,
        description=(
            "A claim that holds runs and what else the SuperLink knows; with it, it is a "
            "StatefulSet of one, and ServerApps in process isolation have a pod of their own. If "
            "not set, all of it is lost when its pod restarts."
        ),
    )
    service: SuperLinkService = Field(
        default=SuperLinkService(), description="The Service in front of the SuperLink."
    )
    gateway: Gateway = Field(
        default=Gateway(), description="The proxy in front of the SuperLink, in the same pod."
    )

    @property
    def has_claims(self) -> bool:
        """Whether there are volumes of its own, which a Deployment cannot have."""
        return bool(self.volume_claim_templates or self.persistence)


class PoolImages(Part):
    supernode: ImageOrEmpty | None = Field(
        default=None, description="Image of this pool's SuperNodes; supernodes.image by default."
    )
    superexec_client_app: ImageOrEmpty | None = Field(
        default=None,
        description="Image of the SuperExec that runs ClientApps; process isolation only.",
    )


class Gpu(Part):
    enabled: bool = Field(default=False, description="Request GPUs for this pool.")
    vendor: Literal["nvidia", "amd"] | None = Field(
        default=None, description="Vendor, from which resourceName follows."
    )
    resource_name: Line | None = Field(
        default=None,
        description="Extended resource to request: nvidia.com/gpu or amd.com/gpu by vendor.",
    )
    count: Positive = Field(default=1, description="GPUs of each pod.")
    mount_all: bool = Field(
        default=False, description="Give each pod all GPUs of its node instead of requesting some."
    )


class Rollout(Part):
    max_concurrency: Share = Field(
        default="25%", description="On how many clusters at once, as a number or a share."
    )
    max_failures: Share = Field(
        default=0, description="How many clusters may fail before it stops, as a number or a share."
    )
    progress_deadline: Duration = Field(
        default="10m", description="When a cluster that is not done counts as failed."
    )

    @property
    def deadline(self) -> timedelta:
        return _time_of(self.progress_deadline)


class PoolPlacement(Part):
    name: Annotated[str, Field(max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of the Placement, in the namespace of the Federation.", min_length=1
    )
    rollout: Rollout = Field(
        default=Rollout(),
        description=(
            "How a new Flower release of SuperNodes spreads and, in process isolation, a new image "
            "of ClientApps' SuperExec."
        ),
    )


class Pool(Part):
    name: Annotated[str, Field(max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of the pool: unique, a DNS label.", min_length=1
    )
    replicas: Replicas | None = Field(
        default=None, description="Number of SuperNodes; StatefulSet mode only."
    )
    placement: PoolPlacement | None = Field(
        default=None,
        description=(
            "Runs the pool on every managed cluster that this Placement of Open Cluster "
            "Management selects: replicas SuperNodes on each, or one on each node of each."
        ),
    )
    images: PoolImages = Field(default=PoolImages(), description="Images of this pool.")
    executor: Executor | None = Field(
        default=None,
        description=(
            "Where the SuperExecs run ClientApps: as their own subprocesses, which is what they "
            "do if not told, or with Flower's Kubernetes executor, each in a pod of its own."
        ),
    )
    gpu: Gpu = Field(default=Gpu(), description="GPUs of this pool.")
    supernode_resources: Resources = Field(
        default={}, description="Resources of the SuperNode container."
    )
    superexec_resources: Resources = Field(
        default={},
        description="Resources of the SuperExec container; with executor kubernetes, of each task.",
    )
    pod_template: PodTemplate = Field(
        default={}, description="Merged into this pool's pods as a strategic merge patch."
    )
    extra_args: Arguments = Field(
        default=[], description="Arguments added to the SuperNode's command line."
    )
    env: EnvVars = Field(
        default=[], description="Environment of this pool; wins over supernodes.env by name."
    )
    volumes: Volumes = Field(default=[], description="Volumes of this pool's pods.")
    volume_mounts: VolumeMounts = Field(
        default=[], description="Mounts of the SuperNode container."
    )
    superexec_volume_mounts: VolumeMounts = Field(
        default=[],
        description="Mounts of the SuperExec container; volumeMounts where this is empty.",
    )
    volume_claim_templates: VolumeClaimTemplates = Field(
        default=[], description="Claims of each SuperNode's own; StatefulSet mode only."
    )
    node_config: Texts = Field(
        default={},
        description=(
            "What a ClientApp reads as its node config. Placeholders: {pool}, {node}; in "
            "StatefulSet mode also {index}, {replicas}, {partition} and {partitions}; with "
            "placement also {cluster}."
        ),
    )


class SuperNodes(Part):
    image: Image = Field(description="Image of the SuperNodes of every pool.")
    env: EnvVars = Field(default=[], description="Environment of the SuperNodes of all pools.")
    pools: Annotated[list[Pool], Keyed("name")] = Field(
        max_length=16, description="Pools of SuperNodes, each a workload of its own."
    )


class IssuerRef(Part):
    name: Text = Field(description="Name of the issuer.")
    kind: Text = Field(default="Issuer", description="Issuer, or ClusterIssuer.")
    group: Text = Field(default="cert-manager.io", description="API group of the issuer.")


class Rotation(Part):
    max_wait: Duration | None = Field(
        default=None,
        description=(
            "How long a restart for a new certificate, key or Flower release waits for runs to "
            "finish, such as 12h; if not set, as long as the old one allows. One for a new secret, "
            "or for a new CA of the Federation's own, waits until they have finished."
        ),
    )

    @property
    def longest(self) -> timedelta | None:
        """`max_wait` as a time."""
        return None if self.max_wait is None else _time_of(self.max_wait)


class Tls(Part):
    secret_name: Text | None = Field(
        default=None,
        description=(
            "A Secret of your own with the SuperLink's certificate (tls.crt), its key (tls.key) "
            "and the certificates of its CA (ca.crt); if not set, they are made and renewed."
        ),
    )
    issuer_ref: IssuerRef | None = Field(
        default=None,
        description="The issuer of cert-manager that is to make the SuperLink's certificate.",
    )
    rotation: Rotation = Field(
        default=Rotation(), description="What happens when something new takes a restart."
    )
    subject_alt_names: Annotated[list[Text], Bounded] = Field(
        default=[],
        description="More DNS names and IP addresses that the SuperLink is reached by.",
    )

    @property
    def from_elsewhere(self) -> bool:
        """Whether the certificate is not made by whoever runs the Federation."""
        return bool(self.secret_name or self.issuer_ref)


class SuperNodeAuth(Part):
    enabled: bool = Field(
        default=False,
        description=(
            "true: every SuperNode has a key of its own, and the SuperLink lets in only those "
            "whose key is registered. Needs insecure: false, and isolationMode: process or "
            "allowSubprocess."
        ),
    )
    allow_subprocess: bool = Field(
        default=False,
        description=(
            "true: keys may be used with isolationMode: subprocess, where ClientApps run in their "
            "SuperNode's container. App code can then read the SuperNode's private key."
        ),
    )


class NetworkPolicies(Part):
    enabled: bool | None = Field(
        default=None,
        description="Whether NetworkPolicies shut pods off; if not set, where insecure is false.",
    )
    egress: Annotated[list[EgressRule], Bounded] = Field(
        default=[],
        description="Where SuperNodes, the SuperLink and their apps may connect to beside Flower.",
    )
    control_from: Annotated[list[NetworkPeer], Bounded] = Field(
        default=[],
        description="Who may reach the Control API and so submit runs, beside the operator.",
    )


class FederationSpec(Part):
    mode: Mode = Field(description="One SuperNode a node, or a fixed number a pool.")
    isolation_mode: IsolationMode = Field(
        description="Apps in SuperExec containers (process) or inside SuperLink and SuperNodes."
    )
    version: Text | None = Field(
        default=None, description="Flower release of every component; by image tag if not set."
    )
    insecure: bool = Field(default=True, description="false: TLS for every connection.")
    tls: Tls = Field(default=Tls(), description="Certificates, where insecure is false.")
    supernode_auth: SuperNodeAuth = Field(
        default=SuperNodeAuth(), description="Which SuperNodes the SuperLink lets in."
    )
    suspend: bool = Field(
        default=False, description="true: no SuperNodes run; the SuperLink and its state stay."
    )
    network_policy: NetworkPolicies = Field(
        default=NetworkPolicies(), description="Whom the pods may talk to."
    )
    interconnect: Literal["skupper"] | None = Field(
        default=None,
        description="How other clusters reach the SuperLink: skupper, or directly if not set.",
    )
    superlink: SuperLink = Field(description="The coordinator.")
    supernodes: SuperNodes = Field(description="The data owners' side.")


class Condition(Part):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int | None = None


class Endpoints(Part):
    superlink_service: str | None = Field(
        default=None,
        description="Address for `flwr run` inside the cluster, or of a SuperLink elsewhere.",
    )


class ClusterStatus(Part):
    name: str
    desired: int = 0
    ready: int = 0
    connected: int | None = Field(
        default=None,
        description="SuperNodes online by the SuperLink's account, where they have keys.",
    )
    addon: str = Field(default="", description="Health of the addon there, in a word.")
    message: str = ""
    last_seen: str | None = Field(
        default=None, description="When the cluster was last known to be there, if it is lost."
    )
    partitions: str | None = Field(default=None, description='Its partitions, as in "0-3,7".')
    release: str | None = Field(
        default=None, description="Flower release that its SuperNodes are to have by now."
    )


class PoolStatus(Part):
    name: str
    kind: Mode
    release: str | None = Field(default=None, description="Flower release of its SuperNodes.")
    desired: int = 0
    ready: int = 0
    clusters: Annotated[list[ClusterStatus], Keyed("name")] = Field(
        default=[], description="Where it is placed, for pools with placement."
    )
    conditions: Annotated[list[Condition], Keyed("type")] = []


class FederationStatus(Part):
    observed_generation: int | None = Field(
        default=None, description="Generation of the spec that this status speaks of."
    )
    release: str | None = Field(default=None, description="Flower release of the SuperLink.")
    supernodes: str | None = Field(default=None, description='Ready of desired, as in "2/2".')
    ready_supernodes: int = 0
    desired_supernodes: int = 0
    connected_supernodes: int | None = Field(
        default=None,
        description="SuperNodes online by the SuperLink's own account, where it can be asked.",
    )
    endpoints: Endpoints = Endpoints()
    pools: Annotated[list[PoolStatus], Keyed("name")] = []
    conditions: Annotated[list[Condition], Keyed("type")] = []


class Federation(Part):
    """A Flower federation: one SuperLink and pools of SuperNodes."""

    api_version: Literal["flwr.exalsius.ai/v1"]
    kind: Literal["Federation"]
    metadata: Metadata
    spec: FederationSpec
    status: FederationStatus = FederationStatus()

    @property
    def name(self) -> str:
        name: str = self.metadata["name"]
        return name
