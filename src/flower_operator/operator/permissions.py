"""What the operator may do on a cluster. The chart's roles are generated from here."""

from dataclasses import dataclass

from ..api.crd import PLURAL
from ..api.types import GROUP
from ..fleet.resources import ADDON_GROUP, CLUSTER_GROUP, WORK_GROUP
from ..render.executor import ROLE

LEASE = "flower-operator"


@dataclass(frozen=True)
class Rule:
    """Verbs on resources of one API group; with names, on the objects of these names alone."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


_RBAC = "rbac.authorization.k8s.io"
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
    Rule("networking.k8s.io", ("networkpolicies",), _OWN),
    Rule("apps", ("deployments", "statefulsets", "daemonsets"), _OWN),
    # Why a pool is not ready is written in its pods and in the events about them. Pods of tasks,
    # and the Secrets with their tokens, belong to nobody and have to be cleared away. Pods with
    # keys are held back until the SuperLink knows them.
    Rule("", ("pods",), (*_OBSERVE, "patch", "delete")),
    # Certificates and keys of secure Federations are kept in Secrets too.
    Rule("", ("secrets",), _OWN),
    # Where cert-manager is to issue them: what is asked of it.
    Rule("cert-manager.io", ("certificates",), ("get", "create", "patch", "delete")),
    # Where Skupper leads other clusters to a SuperLink.
    Rule("skupper.io", ("sites", "connectors", "accessgrants"), _OWN),
    Rule("", ("events",), (*_OBSERVE, "create")),
)

# On a hub of Open Cluster Management, for pools on other clusters.
FLEET = (
    # A Federation with such pools may go only when those clusters are cleared.
    Rule(GROUP, (PLURAL,), ("patch",)),
    # The ledger of partitions is replaced, never merged.
    Rule("", ("configmaps",), ("update",)),
    Rule(CLUSTER_GROUP, ("managedclusters",), ("get", *_OBSERVE)),
    Rule(CLUSTER_GROUP, ("placementdecisions",), _OBSERVE),
    Rule(
        ADDON_GROUP,
        (
            "addontemplates",
            "clustermanagementaddons",
            "addondeploymentconfigs",
            "managedclusteraddons",
        ),
        _OWN,
    ),
    Rule(WORK_GROUP, ("manifestworks",), _OBSERVE),
    Rule(WORK_GROUP, ("manifestworkreplicasets",), _OWN),
)

# Where the operator may let SuperExecs start pods: it hands them the one role below, which it does
# not have itself, and makes the accounts that have it.
TASK_EXECUTOR_BINDING = (
    Rule("", ("serviceaccounts",), _OWN),
    Rule(_RBAC, ("rolebindings",), _OWN),
    Rule(_RBAC, ("clusterroles",), ("bind",), names=(ROLE,)),
)

# In a Federation's namespace, for a SuperExec with Flower's Kubernetes executor: what that calls.
TASK_EXECUTOR = (Rule("", ("pods", "secrets"), ("create", "list", "delete")),)

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
