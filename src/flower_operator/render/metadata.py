"""Names and labels of everything rendered."""

from typing import Any

from ..api.rules import pool_name, serverapp_name, superexec_name, superlink_name
from ..api.types import Federation, Pool
from ..flower.releases import Release
from .facts import Facts

Object = dict[str, Any]

MANAGER = "flower-operator"
PREFIX = "flower.flwr.ai"
RESTARTED_AT = f"{PREFIX}/restarted-at"
RELEASE = f"{PREFIX}/release"
MANAGED_BY, NAME = "app.kubernetes.io/managed-by", "app.kubernetes.io/name"
COMPONENT, POOL = f"{PREFIX}/component", f"{PREFIX}/pool"
FEDERATION_LABEL = f"{PREFIX}/federation"

TRUST = "trust"
# Components that flwr's Kubernetes executor makes, not the operator.
SERVERAPP = "serverapp"
CLIENTAPP = "clientapp"
# What runs ServerApps, where that is not in the SuperLink's pod.
SUPEREXEC_SERVERAPP = "superexec-serverapp"
# Of a pool on another cluster, which runs ClientApps in pods of its own.
SUPEREXEC = "superexec"
AGENT = "agent"


def labels(federation: str, component: str, pool: str | None = None) -> dict[str, str]:
    """On everything of a Federation: by these the operator finds it."""
    found = {MANAGED_BY: MANAGER, COMPONENT: component, FEDERATION_LABEL: federation}
    return found | ({POOL: pool} if pool else {})


def selector_labels(
    federation: Federation, component: str, pool: Pool | None = None
) -> dict[str, str]:
    """On workloads and their pods, and all that selectors hold. They never change, for the selector
    of a workload cannot; what only describes a pod is added to its labels alone."""
    own = {MANAGED_BY: MANAGER, NAME: component}
    return own | labels(federation.name, component, pool.name if pool else None)


def superlink_labels(federation: Federation) -> dict[str, str]:
    return selector_labels(federation, "superlink")


def superexec_serverapp_labels(federation: Federation) -> dict[str, str]:
    """Of the pod of the SuperExec for ServerApps, where it has one of its own."""
    return selector_labels(federation, SUPEREXEC_SERVERAPP)


def supernode_labels(federation: Federation) -> dict[str, str]:
    """What the SuperNodes of all pools have in common."""
    return selector_labels(federation, "supernode")


def pool_labels(federation: Federation, pool: Pool) -> dict[str, str]:
    return selector_labels(federation, "supernode", pool)


def agent_labels(federation: Federation, pool: Pool) -> dict[str, str]:
    return selector_labels(federation, AGENT, pool)


def superexec_labels(federation: Federation, pool: Pool) -> dict[str, str]:
    return selector_labels(federation, SUPEREXEC, pool)


def serverapp_labels(federation: Federation) -> dict[str, str]:
    """Labels of the pods and Secrets of the SuperLink's tasks, where these are pods."""
    return labels(federation.name, SERVERAPP)


def clientapp_labels(federation: Federation, pool: Pool) -> dict[str, str]:
    """The same for a pool; `index_label` tells its SuperNodes apart."""
    return labels(federation.name, CLIENTAPP, pool.name)


def trust_labels(federation: str) -> dict[str, str]:
    """On certificates and keys, which no pod is made of."""
    return labels(federation, TRUST)


def index_label(index: int) -> dict[str, str]:
    return {f"{PREFIX}/index": str(index)}


def namespace_of(federation: Federation, facts: Facts) -> str:
    namespace: str = federation.metadata.get("namespace") or facts.namespace
    return namespace


def superlink_metadata(federation: Federation, facts: Facts) -> Object:
    return {
        "name": superlink_name(federation.name),
        "namespace": namespace_of(federation, facts),
        "labels": superlink_labels(federation),
    }


def serverapp_metadata(federation: Federation, facts: Facts) -> Object:
    """Labelled as the SuperLink's, with which it comes, goes and changes."""
    return superlink_metadata(federation, facts) | {"name": serverapp_name(federation.name)}


def service_address(federation: Federation, facts: Facts, port: int) -> str:
    """Where pods of the cluster find a port of the SuperLink's Service."""
    return f"{superlink_name(federation.name)}.{namespace_of(federation, facts)}.svc:{port}"


def pool_metadata(federation: Federation, pool: Pool, facts: Facts) -> Object:
    return {
        "name": pool_name(federation.name, pool.name),
        "namespace": namespace_of(federation, facts),
        "labels": pool_labels(federation, pool),
    }


def superexec_metadata(federation: Federation, pool: Pool, facts: Facts) -> Object:
    return {
        "name": superexec_name(federation.name, pool.name),
        "namespace": namespace_of(federation, facts),
        "labels": superexec_labels(federation, pool),
    }


def with_release(metadata: Object, release: Release) -> Object:
    """On workloads, not on their pods: an operator that begins to write it restarts nothing."""
    return metadata | {"annotations": {RELEASE: str(release)}}


def restart_annotations(federation: Federation) -> dict[str, str]:
    """On pods: a Federation that says when it was last to be restarted restarts them."""
    asked = (federation.metadata.get("annotations") or {}).get(RESTARTED_AT)
    return {RESTARTED_AT: asked} if asked else {}
