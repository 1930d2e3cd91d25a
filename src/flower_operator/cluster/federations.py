"""Federations of a cluster: found, listed and changed."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from ..api.crd import PLURAL
from ..api.types import GROUP, KIND, VERSION
from ..flower.commands import ApiPorts, api_ports
from ..flower.dialects import Dialect, dialect_of
from ..flower.releases import Release, parse_release
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import POD, Resource
from ..render.metadata import PREFIX, RESTARTED_AT
from .errors import ClusterError, is_unknown_kind
from .pods import Pod

Struct = msgspec.Struct

FEDERATION = Resource(GROUP, VERSION, KIND, PLURAL)


class _Metadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    resource_version: str = ""


class _External(Struct):
    address: str = ""


class _Gateway(Struct):
    enabled: bool = False


class _SuperLink(Struct):
    external: _External | None = None
    gateway: _Gateway = msgspec.field(default_factory=_Gateway)


class _Spec(Struct, rename="camel"):
    mode: str = ""
    isolation_mode: str = ""
    insecure: bool = True
    suspend: bool = False
    superlink: _SuperLink = msgspec.field(default_factory=_SuperLink)


class Condition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""

    @property
    def fine(self) -> bool:
        good = "False" if self.type in ("Degraded", "Reconciling", "Upgrading") else "True"
        return self.status in (good, "Unknown")


class ManagedCluster(Struct, rename="camel"):
    """One of those that a pool with placement runs on."""

    name: str = ""
    desired: int = 0
    ready: int = 0
    connected: int | None = None
    addon: str = ""
    last_seen: str = ""
    partitions: str = ""


class Pool(Struct, rename="camel"):
    name: str = ""
    kind: str = ""
    release: str = ""
    desired: int = 0
    ready: int = 0
    conditions: tuple[Condition, ...] = ()
    clusters: tuple[ManagedCluster, ...] = ()

    @property
    def reason(self) -> str:
        return self.conditions[0].reason if self.conditions else ""


class _Endpoints(Struct, rename="camel"):
    superlink_service: str = ""


class _Status(Struct, rename="camel"):
    observed_generation: int = 0
    release: str = ""
    supernodes: str = ""
    ready_supernodes: int = 0
    desired_supernodes: int = 0
    connected_supernodes: int | None = None
    endpoints: _Endpoints = msgspec.field(default_factory=_Endpoints)
    pools: tuple[Pool, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Federation(Struct):
    """A Federation in the fields that a person is shown."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def observed(self) -> bool:
        """Whether the status speaks of the spec as it is now."""
        return self.status.observed_generation >= self.metadata.generation

    @property
    def verdict(self) -> str:
        """The status of the condition Ready, as `kubectl get` prints it."""
        ready = [each.status for each in self.status.conditions if each.type == "Ready"]
        return ready[0] if ready else ""

    @property
    def ready(self) -> bool:
        return self.observed and self.verdict == "True"

    @property
    def release(self) -> Release:
        """That of the SuperLink, by the operator's word."""
        release = parse_release(self.status.release)
        if release is None:
            raise ClusterError(
                f"the operator has not said yet which Flower release {self.name} runs; "
                f"look at: kubectl flower doctor {self.name} -n {self.metadata.namespace}"
            )
        return release

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.release)

    @property
    def ports(self) -> ApiPorts:
        """Of the SuperLink's pod."""
        return api_ports(self.dialect, gateway=self.spec.superlink.gateway.enabled)

    @property
    def external(self) -> str | None:
        """The address of a SuperLink that runs elsewhere."""
        external = self.spec.superlink.external
        return external.address if external else None

    def check_superlink(self) -> None:
        """Raises ClusterError if it runs elsewhere."""
        if self.external:
            raise ClusterError(
                f"the SuperLink of {self.name} runs elsewhere, at {self.external}: ask there"
            )


class _Federations(Struct):
    items: list[Federation]


class _Pods(Struct):
    items: list[Pod]


async def find(client: Client, namespace: str, name: str | None) -> Federation:
    """The Federation of that name, or the only one of the namespace."""
    if name is not None:
        try:
            answer = await client.get(FEDERATION.path(namespace, name))
        except ApiError as error:
            if error.code != 404 or is_unknown_kind(error):
                raise
        else:
            federation = msgspec.json.decode(answer, type=Federation)
            if federation.name != name:  # files are named after it
                raise ClusterError(f"the cluster answers with another object than {name}")
            return federation
    found = await list_federations(client, namespace)
    if name is None and len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in found) or "none"
    if name is None:
        raise ClusterError(f"say which Federation; namespace {namespace} has: {names}")
    raise ClusterError(
        f"there is no Federation {name} in namespace {namespace} of the cluster; it has: {names}"
    )


async def list_federations(client: Client, namespace: str | None) -> list[Federation]:
    """Those of a namespace, or of all."""
    answer = await client.get(FEDERATION.path(namespace))
    return msgspec.json.decode(answer, type=_Federations).items


async def list_pods(client: Client, federation: Federation) -> list[Pod]:
    """Its pods, the SuperLink's first."""
    path = POD.path(federation.metadata.namespace)
    answer = await client.get(path, **pods_of(federation.name))
    return in_order(msgspec.json.decode(answer, type=_Pods).items)


def pods_of(federation: str) -> dict[str, str]:
    """What selects the pods of a Federation."""
    return {"labelSelector": f"{PREFIX}/federation={federation}"}


def in_order(pods: Sequence[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (not pod.is_superlink, pod.pool, pod.name))


async def set_suspended(client: Client, federation: Federation, suspended: bool) -> bool:
    """Let its SuperNodes rest, or run again; says whether that changed anything."""
    if federation.spec.suspend == suspended:
        return False
    metadata = federation.metadata
    changes = {"spec": {"suspend": suspended}}
    await client.patch(FEDERATION, metadata.namespace, metadata.name, changes)
    return True


async def restart(client: Client, federation: Federation) -> None:
    """Ask the operator to restart every pod."""
    metadata = federation.metadata
    changes = {"metadata": {"annotations": {RESTARTED_AT: datetime.now(UTC).isoformat()}}}
    await client.patch(FEDERATION, metadata.namespace, metadata.name, changes)


async def restart_pod(client: Client, pod: Pod) -> None:
    """Delete it: its workload makes it anew."""
    metadata = pod.metadata
    await client.delete(POD, metadata.namespace, metadata.name, metadata.uid, "Background")
