"""What the operator may do on a cluster. The chart's roles are generated from here."""

from dataclasses import dataclass

from ..api.crd import PLURAL
from ..api.types import GROUP

LEASE = "flower-operator"


@dataclass(frozen=True)
class Rule:
    """Verbs on resources of one API group; with names, on the objects of these names alone."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


_OBSERVE = ("list", "watch")
_OWN = ("get", *_OBSERVE, "create", "patch", "delete")

# On all namespaces, or on those that the operator is told to look after.
MANAGER = (
    # The spec is the user's: it is read, never written.
    Rule(GROUP, (PLURAL,), ("get", *_OBSERVE)),
    Rule(GROUP, (f"{PLURAL}/status",), ("patch",)),
    # An owner reference that holds up deletion asks for this where the admission plugin
    # OwnerReferencesPermissionEnforcement is on.
    Rule(GROUP, (f"{PLURAL}/finalizers",), ("update",)),
    # What a Federation is rendered to. Server-side apply is patch, and create the first time.
    Rule("", ("services", "configmaps"), _OWN),
    Rule("apps", ("deployments", "statefulsets", "daemonsets"), _OWN),
    # Why a pool is not ready is written in its pods and in the events about them.
    Rule("", ("pods",), _OBSERVE),
    Rule("", ("events",), (*_OBSERVE, "create")),
)

# In the operator's own namespace.
LEADER_ELECTION = (
    # The name of an object that is yet to be made cannot be told from a role.
    Rule("coordination.k8s.io", ("leases",), ("create",)),
    Rule("coordination.k8s.io", ("leases",), ("get", "update"), names=(LEASE,)),
)

# On the cluster, and only where metrics are served: who asks, and may they read them?
METRICS = (
    Rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
    Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
)
