"""A changed Flower release goes from cluster to cluster, and no further than it works."""

from typing import Any

from flower_operator.fleet.resources import CONFIG, TEMPLATE
from flower_operator.kube.resources import STATEFUL_SET
from tests.cluster.federations import Document, Namespace, condition, wait_until
from tests.fleet.federations import fleet_manifest, listed, placed, select
from tests.harness.nodes import FATE
from tests.harness.open_cluster_management import Hub

ONE_BY_ONE = {"maxConcurrency": 1, "progressDeadline": "5s"}


def lab(release: str, **pool: Any) -> Document:
    placement = {"name": "edge", "rollout": ONE_BY_ONE}
    document = fleet_manifest(
        superlink={"image": f"flwr/superlink:{release}"},
        pools=[placed() | {"placement": placement} | pool],
    )
    document["spec"]["supernodes"]["image"] = f"flwr/supernode:{release}"
    return document


def images(fleet: Hub, namespace: Namespace) -> dict[str, str]:
    """The release that each cluster runs."""
    return {
        name: container["image"].partition(":")[2]
        for name, cluster in fleet.clusters.items()
        for each in listed(cluster.plane, STATEFUL_SET, namespace.name)
        for container in each["spec"]["template"]["spec"]["containers"]
    }


def editions(fleet: Hub) -> set[str]:
    """The releases of which there is a template, or a cluster's config."""
    names = [
        each["metadata"]["name"]
        for resource in (TEMPLATE, CONFIG)
        for each in listed(fleet.plane, resource)
        if each["metadata"]["name"].startswith("flower-fed-edge-")
    ]
    return {parts[4] for name in names if len(parts := name.split("-")) > 4}


def test_a_release_that_fails_on_one_cluster_reaches_no_other(
    fleet: Hub, namespace: Namespace
) -> None:
    select(namespace)
    namespace.apply(lab("1.40.0"))
    namespace.wait_until_ready("fed")
    assert images(fleet, namespace) == {"north": "1.40.0", "south": "1.40.0"}

    missing = {"podTemplate": {"metadata": {"annotations": {FATE: "image-missing"}}}}
    namespace.apply(lab("1.41.0", **missing))
    federation = namespace.wait_for_condition("fed", "Degraded", "True", "UpgradeStopped")
    assert "on north after 5s" in condition(federation, "Upgrading")["message"]
    assert images(fleet, namespace) == {"north": "1.41.0", "south": "1.40.0"}
    (pool,) = federation["status"]["pools"]
    assert [each["release"] for each in pool["clusters"]] == ["1.41.0", "1.40.0"]

    namespace.apply(lab("1.41.0"))
    federation = namespace.wait_until_ready("fed")
    assert condition(federation, "Upgrading")["status"] == "False"
    assert images(fleet, namespace) == {"north": "1.41.0", "south": "1.41.0"}
    wait_until(lambda: editions(fleet) == {"1.41.0"}, lambda: f"left: {editions(fleet)}")
