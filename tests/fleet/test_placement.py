"""Pools on the clusters that a Placement selects: they come, are counted, and go."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flower_operator.fleet.addon import place_of
from flower_operator.fleet.resources import ADDON, CONFIG, WORK
from flower_operator.kube.resources import POD
from flower_operator.render.metadata import RESTARTED_AT
from tests.cluster.federations import Document, Namespace, condition, wait_until
from tests.fleet.federations import (
    SECONDS,
    fleet_manifest,
    label,
    left_on,
    left_on_hub,
    listed,
    node_configs,
    partitions,
    placed,
    select,
)
from tests.harness.open_cluster_management import Hub
from tests.harness.waiting import wait_for


def clusters_of(federation: Document, pool: str = "edge") -> dict[str, Document]:
    (found,) = (each for each in federation["status"]["pools"] if each["name"] == pool)
    return {each["name"]: each for each in found.get("clusters", [])}


def wait_for_partitions(fleet: Hub, namespace: Namespace, **wanted: int) -> None:
    def seen() -> dict[str, int]:
        found = partitions(node_configs(fleet, namespace))
        return {name.partition("/")[0]: number for name, number in found.items()}

    wait_for(lambda: seen() == wanted, lambda: f"{wanted} wanted: {seen()}", SECONDS)


def test_a_pool_runs_on_every_cluster_that_is_selected(fleet: Hub, namespace: Namespace) -> None:
    select(namespace)
    namespace.apply(fleet_manifest())
    federation = namespace.wait_until_ready("fed")
    configs = node_configs(fleet, namespace)
    assert configs == {
        f"{name}/fed-supernode-edge-0": {
            "partition-id": number,
            "num-partitions": 2,
            "site": name,
        }
        for number, name in enumerate(sorted(fleet.clusters))
    }
    assert federation["status"]["supernodes"] == "2/2"
    assert {
        name: (each["desired"], each["ready"], each["partitions"])
        for name, each in clusters_of(federation).items()
    } == {"north": (1, 1, "0"), "south": (1, 1, "1")}


def test_a_restart_reaches_every_cluster(fleet: Hub, namespace: Namespace) -> None:
    select(namespace)
    document = fleet_manifest()
    namespace.apply(document)
    namespace.wait_until_ready("fed")
    before = pod_uids(fleet, namespace)
    document["metadata"]["annotations"] = {RESTARTED_AT: "2026-11-16T00:00:00Z"}
    namespace.apply(document)
    wait_until(
        lambda: len(after := pod_uids(fleet, namespace)) == 2 and not after & before,
        "pods are not restarted",
    )


def pod_uids(fleet: Hub, namespace: Namespace) -> set[str]:
    return {
        each["metadata"]["uid"]
        for cluster in fleet.clusters.values()
        for each in listed(cluster.plane, POD, namespace.name)
    }


def test_nothing_is_ever_run_without_its_partition(fleet: Hub, namespace: Namespace) -> None:
    """Every version of the work that a cluster was ever given has its number."""
    select(namespace, tier="edge")
    addon = place_of(namespace.name, "fed", "edge").addon
    path = f"{WORK.path('north')}?watch=1&timeoutSeconds=15&labelSelector="
    path += f"open-cluster-management.io/addon-name={addon}"
    with ThreadPoolExecutor() as pool:
        watch = pool.submit(fleet.plane.kubectl, "get", "--raw", path)
        namespace.apply(fleet_manifest())
        namespace.wait_until_ready("fed")
        versions = watch.result().stdout
    assert versions.count("partition-id=0 ") >= 1
    assert "partition-id= " not in versions


def test_who_joins_and_leaves_moves_nobody(fleet: Hub, namespace: Namespace) -> None:
    select(namespace, chosen="yes")
    label(fleet, "south", chosen="yes")
    try:
        here = {"name": "here", "replicas": 1, "nodeConfig": {"id": "{partition}"}}
        namespace.apply(fleet_manifest(pools=[here, placed()]))
        namespace.wait_until_ready("fed")
        wait_for_partitions(fleet, namespace, south=1)
        label(fleet, "north", chosen="yes")
        wait_for_partitions(fleet, namespace, south=1, north=2)
        label(fleet, "south", chosen=None)
        wait_for_partitions(fleet, namespace, north=2)
        wait_until(lambda: not left_on(fleet.clusters["south"].plane, namespace), "left on south")
        wait_until(lambda: not of_cluster(fleet, namespace, "south"), "left in south's namespace")
        label(fleet, "south", chosen="yes")
        wait_for_partitions(fleet, namespace, south=1, north=2)
    finally:
        for name in fleet.clusters:
            label(fleet, name, chosen=None)


def of_cluster(fleet: Hub, namespace: Namespace, cluster: str) -> list[str]:
    """What the hub has for one cluster."""
    addon = place_of(namespace.name, "fed", "edge").addon
    return [
        each["metadata"]["name"]
        for resource in (ADDON, CONFIG)
        for each in listed(fleet.plane, resource, cluster)
        if each["metadata"]["name"] == addon
    ]


def left_on_clusters(fleet: Hub, namespace: Namespace) -> list[list[str]]:
    return [left_on(cluster.plane, namespace) for cluster in fleet.clusters.values()]


def test_a_federation_that_goes_takes_everything_with_it(fleet: Hub, namespace: Namespace) -> None:
    select(namespace)
    process: dict[str, Any] = {
        "isolationMode": "process",
        "superlink": {"superexecImage": "flwr/superexec:1.41.0"},
    }
    pool = placed(images={"superexecClientApp": "flwr/superexec:1.41.0"})
    namespace.apply(fleet_manifest(pools=[pool], **process))
    namespace.wait_until_ready("fed")
    superexec = "statefulset.apps/fed-superexec-edge"
    assert all(superexec in found for found in left_on_clusters(fleet, namespace))
    assert left_on_hub(fleet, namespace)
    namespace.delete("fed")
    wait_for(
        lambda: not left_on_hub(fleet, namespace), lambda: str(left_on_hub(fleet, namespace)), 60
    )
    wait_until(
        lambda: not any(left_on_clusters(fleet, namespace)),
        lambda: f"left: {left_on_clusters(fleet, namespace)}",
    )


def test_without_an_address_it_says_what_is_missing(fleet: Hub, namespace: Namespace) -> None:
    select(namespace)
    namespace.apply(fleet_manifest(superlink={"service": {"type": "NodePort"}}))
    federation = namespace.wait_for_condition("fed", "Ready", "False", "NoAddress")
    assert "externalAddress" in condition(federation, "Ready")["message"]


def test_without_a_placement_it_waits(fleet: Hub, namespace: Namespace) -> None:
    namespace.apply(fleet_manifest())
    namespace.wait_for_condition("fed", "Ready", "False", "NoPlacement")
    select(namespace, no="cluster")
    namespace.wait_for_condition("fed", "Ready", "False", "NoClusters")
    select(namespace)
    namespace.wait_until_ready("fed")


def test_a_new_ca_is_trusted_elsewhere_while_the_old_one_serves(
    fleet: Hub, namespace: Namespace
) -> None:
    select(namespace)
    namespace.apply(fleet_manifest(insecure=False))
    namespace.wait_until_ready("fed")
    before = authorities(fleet, namespace)
    assert all(before)
    # The operator takes a CA whose key is gone for lost, and makes another one.
    path = f"/api/v1/namespaces/{namespace.name}/secrets/fed-ca-key"
    assert fleet.plane.request("DELETE", path)[0] == 200
    wait_until(
        lambda: all(each != before[0] for each in authorities(fleet, namespace)),
        lambda: f"pods do not trust the new CA: {authorities(fleet, namespace)}",
    )
    path = f"/api/v1/namespaces/{namespace.name}/configmaps/fed-supernode-edge-ca"
    for cluster in fleet.clusters.values():
        trusted = cluster.plane.request("GET", path)[1]["data"]["ca.crt"]
        assert trusted.count("BEGIN CERTIFICATE") == 2
    # Before that it says that not every client has it.
    words = "the new CA is published"
    wait_until(
        lambda: words in condition(namespace.federation("fed"), "Ready")["message"],
        lambda: f"no word of it: {condition(namespace.federation('fed'), 'Ready')}",
    )


def authorities(fleet: Hub, namespace: Namespace) -> list[str]:
    """The CA that pods on each cluster are started with, as the hub is told."""
    addon = place_of(namespace.name, "fed", "edge").addon
    return [
        value["fieldValue"]["string"]
        for cluster in fleet.clusters
        for work in listed(fleet.plane, WORK, cluster)
        if addon in work["metadata"]["name"]
        for each in work["status"]["resourceStatus"]["manifests"]
        for value in each["statusFeedback"].get("values", [])
        if value["name"] == "authority"
    ]
