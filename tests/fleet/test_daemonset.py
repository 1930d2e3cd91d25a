"""A pool in DaemonSet mode on other clusters: a SuperNode on every node, as nodes come and go."""

from typing import Any

from flower_operator.kube.resources import POD
from tests.cluster.federations import Document, Namespace, condition
from tests.fleet.federations import SECONDS, fleet_manifest, listed, placed, select
from tests.fleet.test_membership import clusters_of
from tests.harness.nodes import node
from tests.harness.open_cluster_management import Hub
from tests.harness.waiting import wait_for

NODES = "/api/v1/nodes"


def on_nodes(**config: Any) -> Document:
    pool = placed(nodeConfig=config)
    del pool["replicas"]
    return fleet_manifest(mode="DaemonSet", pools=[pool])


def wait_for_counts(namespace: Namespace, **wanted: tuple[int, int]) -> Document:
    """Until so many of each cluster are desired and ready, and all in all too."""
    every = [sum(each) for each in zip(*wanted.values(), strict=True)]

    def found() -> Document | None:
        federation = namespace.wait_until_ready("fed")
        clusters = clusters_of(federation).items()
        seen = {name: (each["desired"], each["ready"]) for name, each in clusters}
        right = seen == wanted and federation["status"]["supernodes"] == f"{every[1]}/{every[0]}"
        return federation if right else None

    return wait_for(found, lambda: f"{wanted}: {namespace.federation('fed')['status']}", SECONDS)


def test_every_node_of_every_cluster_has_a_supernode_as_nodes_come_and_go(
    fleet: Hub, namespace: Namespace
) -> None:
    north = fleet.clusters["north"].plane
    select(namespace)
    namespace.apply(on_nodes(partition="{partition}"))
    said = condition(namespace.wait_for_condition("fed", "Ready", "False", "InvalidSpec"), "Ready")
    assert "{partition} is not to be had in DaemonSet mode; use {node}" in said["message"]

    namespace.apply(on_nodes(where="{cluster}/{node}"))
    federation = wait_for_counts(namespace, north=(1, 1), south=(1, 1))
    assert not any("partitions" in each for each in clusters_of(federation).values())
    assert north.request("POST", NODES, node(2))[0] == 201
    try:
        wait_for_counts(namespace, north=(2, 2), south=(1, 1))
        pods = listed(north, POD, namespace.name)
        assert {each["spec"]["nodeName"] for each in pods} == {"node-1", "node-2"}
        assert 'where="north/' in str(pods[0]["spec"]["containers"][0]["args"])
    finally:
        north.request("DELETE", f"{NODES}/node-2")
    # As Kubernetes does with pods of nodes that are gone, a minute later.
    (name,) = (pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"] == "node-2")
    north.request("DELETE", f"{POD.path(namespace.name, name)}?gracePeriodSeconds=0")
    wait_for_counts(namespace, north=(1, 1), south=(1, 1))
