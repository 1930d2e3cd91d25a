"""A new image of ClientApps spreads cluster by cluster, and no further than where it fails."""

from typing import Any

from tests.cluster.federations import Document, Namespace, condition
from tests.fleet.federations import SECONDS, fleet_manifest, placed, select
from tests.harness.open_cluster_management import Hub
from tests.harness.waiting import wait_for

REVISIONS = "/apis/apps/v1/namespaces/{}/controllerrevisions"


def with_apps(image: str) -> Document:
    """One cluster at a time; what is not ready after three seconds has failed."""
    rollout: dict[str, Any] = {"maxConcurrency": 1, "maxFailures": 0, "progressDeadline": "3s"}
    pool = placed(images={"superexecClientApp": image})
    pool["placement"]["rollout"] = rollout
    superlink = {"superexecImage": "flwr/superexec:1.41.0"}
    return fleet_manifest(
        pools=[pool], isolationMode="process", superlink=superlink, version="1.41.0"
    )


def images_ever(fleet: Hub, namespace: Namespace, cluster: str) -> set[str]:
    """Every image that ClientApps were ever given there."""
    _, answer = fleet.clusters[cluster].plane.request("GET", REVISIONS.format(namespace.name))
    return {
        container["image"]
        for each in answer["items"]
        if each["metadata"]["ownerReferences"][0]["name"] == "fed-superexec-edge"
        for container in each["data"]["spec"]["template"]["spec"]["containers"]
    }


def test_an_image_that_fails_on_the_first_cluster_reaches_no_other_and_a_mended_one_all(
    fleet: Hub, namespace: Namespace
) -> None:
    select(namespace)
    namespace.apply(with_apps("apps:1"))
    namespace.wait_until_ready("fed")
    namespace.apply(with_apps("apps:missing"))
    federation = namespace.wait_for_condition("fed", "Degraded", "True", "RolloutFailed")
    words = condition(federation, "Degraded")["message"]
    assert "cluster north" in words
    assert "1 of 2 clusters keep" in words
    assert images_ever(fleet, namespace, "north") == {"apps:1", "apps:missing"}

    namespace.apply(with_apps("apps:2"))
    namespace.wait_until_ready("fed")
    wait_for(
        lambda: images_ever(fleet, namespace, "south") == {"apps:1", "apps:2"},
        lambda: f"given to south: {images_ever(fleet, namespace, 'south')}",
        SECONDS,
    )
