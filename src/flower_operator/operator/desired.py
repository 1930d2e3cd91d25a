"""What a Federation should be made of: parsed and rendered once for each change of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

import msgspec

from ..api import types
from ..api.crd import PLURAL
from ..api.limits import MAX_STORED_BYTES
from ..api.manifest import parse_stored, too_large
from ..api.problems import InvalidFederation
from ..api.types import GROUP, KIND, VERSION
from ..kube.applied import Owner, digest, owned
from ..kube.resources import (
    ACCESS_GRANT,
    CONFIG_MAP,
    CONNECTOR,
    DAEMON_SET,
    DEPLOYMENT,
    NETWORK_POLICY,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    SITE,
    STATEFUL_SET,
    Resource,
)
from ..render import Facts, render
from ..render.facts import Identities, Numbers
from ..render.metadata import COMPONENT, POOL, RESTARTED_AT
from ..status.observed import Federation
from ..status.outline import Outline, outline_of

FEDERATION = Resource(GROUP, VERSION, KIND, PLURAL)
WORKLOADS = {each.kind: each for each in (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)}
PLAIN = {
    each.kind: each for each in (NETWORK_POLICY, SERVICE, CONFIG_MAP, SERVICE_ACCOUNT, ROLE_BINDING)
}
SKUPPER = {each.kind: each for each in (SITE, CONNECTOR, ACCESS_GRANT)}
CHILDREN = PLAIN | WORKLOADS | SKUPPER
# Their changes are counted by the API server; other kinds are compared by what they hold.
COUNTED = {*WORKLOADS, *SKUPPER, NETWORK_POLICY.kind}

NO_FACTS = Facts()
HEAD = {"apiVersion", "kind", "metadata"}

Identity = tuple[str, str]
"""Kind and name of a child."""
Part = tuple[str, str]
"""The SuperLink or a pool, by component and name of the pool: a workload and what goes with it."""
SUPERLINK: Part = ("superlink", "")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One child: enough of it to tell whether what is there is as it should be."""

    kind: str
    name: str
    digest: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    content: bytes | None
    """What a kind without a generation is compared by, as JSON."""

    @property
    def identity(self) -> Identity:
        return self.kind, self.name


@dataclass(frozen=True, slots=True)
class Desired:
    version: tuple[Any, ...]
    """Of which Federation, and which state of it, this was made."""
    identities: Identities | None
    numbers: Numbers | None
    outline: Outline
    children: tuple[Wanted, ...]


def version_of(federation: Federation, facts: Facts = NO_FACTS) -> tuple[Any, ...]:
    """Everything that rendering depends on."""
    metadata = federation.metadata
    restarted = metadata.annotations.get(RESTARTED_AT)
    return metadata.uid, metadata.generation, restarted, facts.identities, facts.numbers


def pool_part(name: str) -> Part:
    return "supernode", name


def part_of(labels: Mapping[str, str]) -> Part:
    """What a child belongs to."""
    return labels.get(COMPONENT, ""), labels.get(POOL, "")


def owner_of(federation: Federation) -> Owner:
    metadata = federation.metadata
    return Owner(FEDERATION.api_version, FEDERATION.kind, metadata.name, metadata.uid)


def parsed_of(federation: Federation) -> types.Federation:
    """With all of its metadata that rendering depends on. Raises InvalidFederation."""
    if len(federation.spec) > MAX_STORED_BYTES:  # stored before there were limits
        raise InvalidFederation([too_large(len(federation.spec), MAX_STORED_BYTES)])
    metadata = federation.metadata
    restarted = {RESTARTED_AT: at} if (at := metadata.annotations.get(RESTARTED_AT)) else {}
    return parse_stored(
        {"name": metadata.name, "namespace": metadata.namespace, "annotations": restarted},
        msgspec.json.decode(federation.spec),
    )


def desired_of(
    federation: Federation, facts: Facts = NO_FACTS
) -> tuple[Desired, dict[Identity, dict[str, Any]]]:
    """What there should be, and the objects themselves. Raises InvalidFederation."""
    facts = replace(facts, namespace=federation.metadata.namespace)
    parsed = parsed_of(federation)
    plan = render(parsed, facts)
    owner = owner_of(federation)
    children = [owned(each, owner) for each in plan.objects]
    bodies = {(each["kind"], each["metadata"]["name"]): each for each in children}
    wanted = tuple(_wanted(each) for each in children)
    outline = outline_of(parsed, plan, facts)
    version = version_of(federation, facts)
    return Desired(version, facts.identities, facts.numbers, outline, wanted), bodies


def _wanted(child: Mapping[str, Any]) -> Wanted:
    kind, metadata = child["kind"], child["metadata"]
    return Wanted(
        kind=kind,
        name=metadata["name"],
        digest=digest(child),
        # Objects in the cache have the same texts.
        labels={intern(key): intern(value) for key, value in metadata["labels"].items()},
        annotations=metadata.get("annotations", {}),
        content=None if kind in COUNTED else _content(child),
    )


def _content(child: Mapping[str, Any]) -> bytes:
    """The spec or the data; all there is of kinds that have neither."""
    rest = {key: value for key, value in child.items() if key not in HEAD}
    return msgspec.json.encode(child.get("spec", child.get("data", rest)))
