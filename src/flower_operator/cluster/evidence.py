"""What an examination looks at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..api.crd import PLURAL
from ..api.types import GROUP
from .federations import Federation
from .pods import Pod

Struct = msgspec.Struct


@dataclass(frozen=True)
class Hidden:
    """What could not be looked at, and why."""

    why: str


@dataclass(frozen=True)
class Right:
    verb: str
    group: str
    resource: str
    subresource: str
    needed_for: str
    essential: bool
    """Without it nothing can be looked at; the others are for changes."""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")


RIGHTS = (
    Right("get", GROUP, PLURAL, "", "status", True),
    Right("list", GROUP, PLURAL, "", "list", True),
    Right("watch", GROUP, PLURAL, "", "status --watch", True),
    Right("list", "", "pods", "", "status", True),
    Right("get", "", "pods", "log", "logs", True),
    Right("list", "", "events", "", "doctor", True),
    Right("create", "", "pods", "portforward", "run", False),
    Right("patch", GROUP, PLURAL, "", "restart, suspend and resume", False),
    Right("delete", "", "pods", "", "restart of a component", False),
)


class Metadata(Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Replicas(Struct):
    replicas: int = 1


class _ReadyReplicas(Struct, rename="camel"):
    ready_replicas: int = 0


class Deployment(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _Replicas = msgspec.field(default_factory=_Replicas)
    status: _ReadyReplicas = msgspec.field(default_factory=_ReadyReplicas)


class _LeaseSpec(Struct, rename="camel"):
    holder_identity: str = ""
    renew_time: str = ""


class Lease(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class _Requirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Selector(Struct, rename="camel"):
    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[_Requirement, ...] = ()


class _PolicySpec(Struct, rename="camel"):
    pod_selector: Selector = msgspec.field(default_factory=Selector)
    policy_types: tuple[str, ...] = ()


class Policy(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _PolicySpec = msgspec.field(default_factory=_PolicySpec)


class _Involved(Struct):
    kind: str = ""
    name: str = ""


class Event(Struct, rename="camel"):
    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class FederationEvidence:
    federation: Federation
    pods: Sequence[Pod] | Hidden
    policies: Sequence[Policy] | Hidden
    warnings: Sequence[Event] | Hidden


@dataclass(frozen=True)
class Evidence:
    server: str
    version: str
    definition: dict[str, Any] | Hidden | None
    """The CustomResourceDefinition as the cluster has it."""
    expected: dict[str, Any]
    """The same as this version has it."""
    deployments: Sequence[Deployment] | Hidden
    leases: Sequence[Lease] | Hidden
    missing: Sequence[Right]
    """What the user may not do."""
    dns_endpoints: int | Hidden | None
    """How many there are that answer; None without the Service."""
    federations: Sequence[FederationEvidence] | Hidden
    namespace: str
    now: float
