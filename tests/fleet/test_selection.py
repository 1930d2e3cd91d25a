"""What a Placement selects is written in pages, one after another."""

from flower_operator.fleet.addon import place_of
from flower_operator.fleet.observed import PLACEMENT
from flower_operator.fleet.resources import ADDON, PLACEMENT_DECISION
from tests.cluster.federations import Document, Namespace
from tests.fleet.federations import SECONDS, create, fleet_manifest
from tests.harness.open_cluster_management import Hub
from tests.harness.waiting import wait_for


def write_page(namespace: Namespace, name: str, *clusters: str) -> None:
    """As Open Cluster Management does; there is no Placement, so it does not meddle."""
    document: Document = {
        "apiVersion": PLACEMENT_DECISION.api_version,
        "kind": PLACEMENT_DECISION.kind,
        "metadata": {"name": name, "labels": {PLACEMENT: "edge"}},
    }
    create(namespace.cluster, document, namespace.name)
    decisions = [{"clusterName": each, "reason": ""} for each in clusters]
    path = f"{PLACEMENT_DECISION.path(namespace.name, name)}/status"
    status, answer = namespace.cluster.request("PATCH", path, {"status": {"decisions": decisions}})
    assert status == 200, answer


def wait_until_placed(namespace: Namespace, cluster: str) -> None:
    def names() -> list[str]:
        pools = namespace.federation("fed").get("status", {}).get("pools", [])
        return [each["name"] for pool in pools for each in pool.get("clusters", [])]

    wait_for(lambda: cluster in names(), lambda: f"{cluster} is not among {names()}", SECONDS)


def test_a_cluster_that_moves_to_another_page_keeps_its_addon(
    fleet: Hub, namespace: Namespace
) -> None:
    """A page that is full loses a cluster for each that joins, and the next one gains it later."""
    joining, moving = fleet.seed(2, {}, prefix="page")
    path = ADDON.path(moving, place_of(namespace.name, "fed", "edge").addon)
    write_page(namespace, "edge-1", moving)
    namespace.apply(fleet_manifest())
    wait_until_placed(namespace, moving)
    before = fleet.plane.request("GET", path)[1]["metadata"]
    write_page(namespace, "edge-1", joining)
    wait_until_placed(namespace, joining)  # so much for what the first page says
    write_page(namespace, "edge-2", moving)
    after = fleet.plane.request("GET", path)[1]["metadata"]
    assert (after["uid"], after.get("deletionTimestamp")) == (before["uid"], None)

    write_page(namespace, "edge-2")
    wait_for(lambda: fleet.plane.request("GET", path)[0] == 404, "the addon stays", SECONDS)
