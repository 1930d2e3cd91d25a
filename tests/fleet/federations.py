"""Federations over a fleet, and what to ask of its hub and its clusters about them."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flower_operator.fleet.addon import place_of
from flower_operator.fleet.resources import OWN, WORK, WORK_SET
from flower_operator.kube.resources import CONFIG_MAP, POD, STATEFUL_SET, Resource
from tests.cluster.federations import Document, Namespace, manifest
from tests.harness.control_plane import ControlPlane
from tests.harness.managed_cluster import MANAGED_CLUSTERS
from tests.harness.open_cluster_management import Hub
from tests.harness.waiting import wait_for

CLUSTER_API = "cluster.open-cluster-management.io"
SECONDS = 60.0
SHARED = {"shared": "yes"}
"""The label of clusters that are there for all tests."""
NODE_CONFIG = {
    "partition-id": "{partition}",
    "num-partitions": "{partitions}",
    "site": "{cluster}",
}
SERVICE = {"type": "NodePort", "externalAddress": "192.0.2.7"}


def fleet_manifest(name: str = "fed", **spec: Any) -> Document:
    """One pool on all clusters that the Placement `edge` selects; what is given lays over it."""
    pools = spec.pop("pools", [placed()])
    superlink = {"image": "flwr/superlink:1.41.0", "service": SERVICE} | spec.pop("superlink", {})
    return manifest(name, pools=pools, superlink=superlink, **spec)


def placed(name: str = "edge", placement: str = "edge", **fields: Any) -> Document:
    pool = {"replicas": 1, "placement": {"name": placement}, "nodeConfig": NODE_CONFIG}
    return {"name": name, **pool, **fields}


@contextmanager
def fleet_namespace(fleet: Hub) -> Iterator[Namespace]:
    """One of the hub that may choose among all clusters, with nothing left of it elsewhere."""
    with Namespace.new(fleet.plane) as namespace:
        bind(namespace)
        yield namespace
        paths = ["/apis/flwr.exalsius.ai/v1/namespaces", namespace.name, "federations"]
        fleet.plane.request("DELETE", "/".join(paths))
        wait_for(
            lambda: not fleet.plane.request("GET", "/".join(paths))[1]["items"],
            lambda: f"a Federation stays: {fleet.plane.request('GET', '/'.join(paths))[1]}",
            SECONDS,
        )


def bind(namespace: Namespace) -> None:
    """Let a namespace choose among all clusters."""
    document = {
        "apiVersion": f"{CLUSTER_API}/v1beta2",
        "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "default"},
        "spec": {"clusterSet": "default"},
    }
    create(namespace.cluster, document, namespace.name)


def select(namespace: Namespace, name: str = "edge", **labels: str) -> None:
    """A Placement, of all clusters that tests share if nothing else is said; one that is there
    already is changed."""
    chosen = labels or SHARED
    predicate = {"requiredClusterSelector": {"labelSelector": {"matchLabels": chosen}}}
    document = {
        "apiVersion": f"{CLUSTER_API}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": name},
        "spec": {"predicates": [predicate]},
    }
    create(namespace.cluster, document, namespace.name)


def create(plane: ControlPlane, document: Document, namespace: str) -> None:
    plane.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", input=json.dumps(document))


def label(hub: Hub, cluster: str, **labels: str | None) -> None:
    body = {"metadata": {"labels": labels}}
    status, answer = hub.plane.request("PATCH", f"{MANAGED_CLUSTERS}/{cluster}", body)
    assert status == 200, answer


def listed(plane: ControlPlane, resource: Resource, namespace: str | None = None) -> list[Document]:
    status, answer = plane.request("GET", resource.path(namespace))
    assert status == 200, answer
    items: list[Document] = answer["items"]
    return items


def node_configs(hub: Hub, namespace: Namespace, federation: str = "fed") -> dict[str, Document]:
    """What each SuperNode on a managed cluster reads, by the names of cluster and pod."""
    found = {}
    for name, cluster in hub.clusters.items():
        sets = {
            each["metadata"]["name"]: each
            for each in listed(cluster.plane, STATEFUL_SET, namespace.name)
        }
        files = {
            each["metadata"]["name"]: each.get("data", {})
            for each in listed(cluster.plane, CONFIG_MAP, namespace.name)
        }
        for pod in listed(cluster.plane, POD, namespace.name):
            owner = pod["metadata"]["ownerReferences"][0]["name"]
            if owner in sets and owner.startswith(f"{federation}-supernode-"):
                found[f"{name}/{pod['metadata']['name']}"] = _node_config(pod, files.get(owner, {}))
    return found


def _node_config(pod: Document, files: Document) -> Document:
    arguments = pod["spec"]["containers"][0]["args"]
    text = arguments[arguments.index("--node-config") + 1]
    if text.startswith("/"):
        index = pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"]
        return tomllib.loads(files[f"{index}.toml"])
    return tomllib.loads(text.replace(" ", "\n"))


def partitions(configs: dict[str, Document]) -> dict[str, int]:
    return {name: config["partition-id"] for name, config in configs.items()}


def left_on_hub(hub: Hub, namespace: Namespace, pool: str = "edge") -> list[str]:
    """What there still is of a Federation's pool, on the hub."""
    addon = place_of(namespace.name, "fed", pool).addon
    found = [
        f"{kind} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}"
        for kind, resource in OWN.items()
        for each in listed(hub.plane, resource)
        if each["metadata"]["name"].startswith(addon)
        or (kind == WORK_SET.kind and each["metadata"]["namespace"] == namespace.name)
    ]
    return found + [
        f"{WORK.kind} {each['metadata']['name']}"
        for each in listed(hub.plane, WORK)
        if addon in each["metadata"]["name"]
    ]


def left_on(plane: ControlPlane, namespace: Namespace) -> list[str]:
    """What there still is of the operator's, on a managed cluster."""
    kinds = "statefulsets,daemonsets,deployments,services,configmaps,secrets,networkpolicies"
    chosen = "app.kubernetes.io/managed-by=flower-operator"
    found = plane.kubectl("get", kinds, "-n", namespace.name, "-l", chosen, "-o", "name")
    return found.stdout.split()
