"""The manifest with which another cluster joins a Federation, as SuperNodes of its SuperLink."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..api.manifest import parse
from ..api.types import GROUP, KIND, VERSION, Federation
from ..flower.node_config import placeholders
from ..trust.keys import keyring_name
from ..trust.layout import Files, encode_secret
from .skupper import Grant, linking_objects

Object = dict[str, Any]

NUMBERED = {"partition", "partitions"}


@dataclass(frozen=True)
class Joining:
    cluster: str
    """Its pool is named so."""
    replicas: int
    address: str
    """Where it finds the SuperLink."""
    authority: str | None
    """PEM text that it trusts; None without TLS."""
    keys: Files = field(default_factory=dict)
    """The keyring of its SuperNodes; empty where they have no keys."""
    grant: Grant | None = None
    """What it links with, where Skupper leads to the SuperLink."""


def check_joining(federation: Federation, joining: Joining) -> None:
    """Before keys are registered for it. Raises InvalidFederation."""
    parse(joining_objects(federation, joining)[-1])


def joining_objects(federation: Federation, joining: Joining) -> list[Object]:
    """A Federation of the same name for the other cluster, behind its keys and what links it."""
    spec = federation.spec
    external = {"address": joining.address}
    if joining.authority:
        external["ca"] = joining.authority
    joined: Object = {"mode": "StatefulSet", "isolationMode": spec.isolation_mode}
    if spec.version:
        joined["version"] = spec.version
    joined["insecure"] = spec.insecure
    if joining.keys:
        allowed = {"allowSubprocess": True} if spec.supernode_auth.allow_subprocess else {}
        joined["supernodeAuth"] = {"enabled": True} | allowed
    if joining.grant:
        joined["interconnect"] = spec.interconnect
    joined["superlink"] = {"external": external}
    joined["supernodes"] = {"image": spec.supernodes.image, "pools": [_pool(federation, joining)]}
    manifest = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": federation.name},
        "spec": joined,
    }
    links = linking_objects(federation, joining.grant) if joining.grant else []
    return [*links, *_secret(federation, joining), manifest]


def joining_notices(federation: Federation) -> list[str]:
    """What whoever applies the manifest has to know."""
    spec, notices = federation.spec, []
    used = {name for value in _node_config(federation).values() for name in placeholders(value)}
    if used & NUMBERED:
        notices.append(
            "nodeConfig: {partition} and {partitions} count the SuperNodes of one cluster alone; "
            "write numbers in their place that no other cluster has"
        )
    if spec.supernode_auth.enabled and not spec.superlink.persistence:
        notices.append(
            "the SuperLink forgets these keys when it is restarted, for the Federation has no "
            "superlink.persistence: say join again then"
        )
    return notices


def _pool(federation: Federation, joining: Joining) -> Object:
    pool: Object = {"name": joining.cluster, "replicas": joining.replicas}
    images = federation.spec.supernodes.pools[0].images
    if given := images.model_dump(by_alias=True, exclude_none=True):
        pool["images"] = given
    if config := _node_config(federation):
        own = {key: text.replace("{cluster}", joining.cluster) for key, text in config.items()}
        pool["nodeConfig"] = own
    return pool


def _node_config(federation: Federation) -> Mapping[str, str]:
    return federation.spec.supernodes.pools[0].node_config


def _secret(federation: Federation, joining: Joining) -> list[Object]:
    if not joining.keys:
        return []
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": keyring_name(federation.name, joining.cluster)},
            "data": encode_secret(joining.keys),
        }
    ]
