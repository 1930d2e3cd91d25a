"""The agent of a pool on another cluster, which makes there what must not travel.

These are the keys of SuperNodes, and what they and their SuperExecs know each other by. It holds
pods by their scheduling gate until the hub says that their keys are registered. What it tells the
hub, and what the hub tells it, are two ConfigMaps beside the pool.
"""

from typing import Any

from ..api.rules import pool_name
from ..api.types import Federation, Pool
from ..trust.keys import keyring_name
from . import pods
from .facts import Facts
from .metadata import agent_labels, namespace_of, pool_metadata
from .network import agent_policies
from .releases import PoolReleases
from .secrets import runtime_name, superexec_secret, supernode_certificate

Object = dict[str, Any]

REPORT, ADMITTED = "report", "admitted"
KEYS = "keys"
"""The entry of the report."""
ADMITTED_VARIABLE = "ADMITTED"
ROUND_VARIABLE = "KEYS_ROUND"
# A variable of a template holds 1,024 characters, a mark and its comma nine.
MARKS_A_VARIABLE = 100
# Of a pool with as many SuperNodes as there are nodes.
FILES_OF_NODES = 5
RBAC = "rbac.authorization.k8s.io"


def agent_name(federation: str, pool: str) -> str:
    return f"{federation}-keys-{pool}"


def report_name(federation: str, pool: str) -> str:
    return f"{pool_name(federation, pool)}-{REPORT}"


def admitted_name(federation: str, pool: str) -> str:
    return f"{pool_name(federation, pool)}-{ADMITTED}"


def admitted_variable(at: int) -> str:
    return f"{ADMITTED_VARIABLE}_{at}" if at else ADMITTED_VARIABLE


def admitted_files(replicas: int) -> int:
    """In how many parts the marks of admitted keys come; 0 replicas: as many as there are nodes."""
    return -(-replicas // MARKS_A_VARIABLE) if replicas else FILES_OF_NODES


def is_attended(federation: Federation, releases: PoolReleases, facts: Facts) -> bool:
    """Whether a pool on another cluster needs an agent there."""
    return federation.spec.supernode_auth.enabled or _introduces(federation, releases, facts)


def _introduces(federation: Federation, releases: PoolReleases, facts: Facts) -> bool:
    """Whether its SuperNodes and SuperExecs have to be told of each other."""
    sides = releases.supernode_dialect, releases.clientapp_dialect
    shares = any(superexec_secret(federation, each) for each in sides)
    return shares or supernode_certificate(federation, releases, facts) is not None


def agent_objects(
    federation: Federation, position: int, facts: Facts, releases: PoolReleases
) -> list[Object]:
    """The report first, which the hub reads, its workload last."""
    pool = federation.spec.supernodes.pools[position]
    introduces = _introduces(federation, releases, facts)
    name = agent_name(federation.name, pool.name)
    metadata = {
        "name": name,
        "namespace": namespace_of(federation, facts),
        "labels": agent_labels(federation, pool),
    }
    marks = {
        str(at): f"{{{{{admitted_variable(at)}}}}}"
        for at in range(admitted_files(pool.replicas or 0))
    }
    beside = pool_metadata(federation, pool, facts)
    report = beside | {"name": report_name(federation.name, pool.name)}
    told = beside | {"name": admitted_name(federation.name, pool.name)}
    role = {"apiGroup": RBAC, "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": metadata["namespace"]}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": report},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": told, "data": marks},
        *agent_policies(federation, metadata, facts),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        _object(f"{RBAC}/v1", "Role", metadata, rules=_rules(federation, pool, introduces)),
        _object(f"{RBAC}/v1", "RoleBinding", metadata, roleRef=role, subjects=[subject]),
        _workload(federation, pool, metadata, facts, introduces),
    ]


def _workload(
    federation: Federation, pool: Pool, metadata: Object, facts: Facts, introduces: bool
) -> Object:
    arguments = ["agent", "--namespace", metadata["namespace"]]
    arguments += ["--federation", federation.name, "--pool", pool.name]
    arguments += ["--introduce"] if introduces else []
    container = pods.container(
        "agent", facts.agent_image, arguments, env=[], resources={}, mounts=[], probes={}
    )
    template = pods.pod_template(
        metadata["labels"],
        [container],
        [],
        {},
        facts,
        spec={"serviceAccountName": metadata["name"], "automountServiceAccountToken": True},
    )
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": metadata["labels"]},
        "template": template,
    }
    return _object("apps/v1", "Deployment", metadata, spec=spec)


def _rules(federation: Federation, pool: Pool, introduces: bool) -> list[Object]:
    """Of the pods it may change the gates, which is all that can be changed of a pod's spec."""
    names = federation.name, pool.name
    report, told, keyring = report_name(*names), admitted_name(*names), keyring_name(*names)
    return [
        _rule("pods", ["list", "watch", "patch"]),
        _rule("secrets", ["create"]),
        _rule("secrets", ["get", "update"], keyring),
        *([_rule("secrets", ["get"], runtime_name(*names))] if introduces else []),
        _rule("configmaps", ["list", "watch"]),
        _rule("configmaps", ["get", "patch"], report),
        _rule("configmaps", ["get"], told),
    ]


def _rule(resource: str, verbs: list[str], name: str | None = None) -> Object:
    named = {"resourceNames": [name]} if name else {}
    return {"apiGroups": [""], "resources": [resource], **named, "verbs": verbs}


def _object(version: str, kind: str, metadata: Object, **rest: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
