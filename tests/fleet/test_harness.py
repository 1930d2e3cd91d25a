"""What other tests lean on: clusters that join, are chosen, get work and addons, and leave."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.control_plane import ControlPlane
from tests.harness.managed_cluster import MANAGED_CLUSTERS, ManagedCluster
from tests.harness.open_cluster_management import Hub
from tests.harness.waiting import wait_for

NAMESPACE = "chosen"
CLUSTER_API = "cluster.open-cluster-management.io"
ADDON_API = "addon.open-cluster-management.io"
WORK_API = "work.open-cluster-management.io"
DECISIONS = f"/apis/{CLUSTER_API}/v1beta1/namespaces/{NAMESPACE}/placementdecisions"
ADDONS = f"/apis/{ADDON_API}/v1alpha1/namespaces/north/managedclusteraddons"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

SECONDS = 30.0

Document = dict[str, Any]


@pytest.fixture(scope="module")
def namespace(fleet: Hub) -> str:
    """One of the hub that may choose among all clusters."""
    fleet.plane.kubectl("create", "namespace", NAMESPACE)
    binding = {"apiVersion": f"{CLUSTER_API}/v1beta2", "kind": "ManagedClusterSetBinding"}
    apply(fleet.plane, binding, "default", NAMESPACE, clusterSet="default")
    return NAMESPACE


def apply(
    plane: ControlPlane, kind: Document, name: str, namespace: str | None = None, **spec: object
) -> None:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    document = {**kind, "metadata": metadata, "spec": spec}
    plane.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(document))


def place(fleet: Hub, name: str, **labels: str) -> None:
    placement = {"apiVersion": f"{CLUSTER_API}/v1beta1", "kind": "Placement"}
    selector = {"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}
    apply(fleet.plane, placement, name, NAMESPACE, predicates=[selector])


def chosen(fleet: Hub, placement: str) -> set[str]:
    _, answer = fleet.plane.request("GET", DECISIONS)
    return {
        decision["clusterName"]
        for each in answer["items"]
        if each["metadata"]["labels"][f"{CLUSTER_API}/placement"] == placement
        for decision in each.get("status", {}).get("decisions", [])
    }


def wait_until_chosen(fleet: Hub, placement: str, *names: str) -> None:
    wait_for(
        lambda: chosen(fleet, placement) == set(names),
        lambda: f"{placement}: {chosen(fleet, placement)}",
        SECONDS,
    )


def deployment(name: str, **settings: str) -> Document:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "example/main:1",
        "env": [{"name": key, "value": value} for key, value in settings.items()],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def works(cluster: str) -> str:
    return f"/apis/{WORK_API}/v1/namespaces/{cluster}/manifestworks"


def send(fleet: Hub, cluster: str, document: Document) -> None:
    """A Deployment, as the work of that name, whose status is to come back."""
    kind = {"apiVersion": f"{WORK_API}/v1", "kind": "ManifestWork"}
    identifier = {"group": "apps", "resource": "deployments", **document["metadata"]}
    feedback = {"resourceIdentifier": identifier, "feedbackRules": [{"type": "WellKnownStatus"}]}
    work = {"workload": {"manifests": [document]}, "manifestConfigs": [feedback]}
    apply(fleet.plane, kind, "work", cluster, **work)


def get(plane: ControlPlane, path: str) -> Document:
    """What is there, as soon as it is."""

    def found() -> Document | None:
        status, answer = plane.request("GET", path)
        return answer if status == 200 else None

    return wait_for(found, f"{path} is not there", SECONDS)


def wait_until(plane: ControlPlane, path: str, holds: Callable[[Document], bool]) -> None:
    def held() -> bool:
        status, answer = plane.request("GET", path)
        return status == 200 and holds(answer)

    wait_for(held, lambda: f"{path}: {plane.request('GET', path)}", SECONDS)


def is_true(document: Document, condition: str) -> bool:
    return any(
        each["type"] == condition and each["status"] == "True"
        for each in document.get("status", {}).get("conditions", [])
    )


def user_of(fleet: Hub, kubeconfig: Path) -> str:
    answer = fleet.plane.kubectl("--kubeconfig", str(kubeconfig), "auth", "whoami", "-o", "json")
    name: str = json.loads(answer.stdout)["status"]["userInfo"]["username"]
    return name


def test_a_cluster_joins_with_an_identity_of_its_own(fleet: Hub) -> None:
    for name, cluster in fleet.clusters.items():
        seen = get(fleet.plane, f"{MANAGED_CLUSTERS}/{name}")
        assert is_true(seen, "ManagedClusterConditionAvailable")
        # Only the webhook gives it.
        assert seen["metadata"]["labels"][f"{CLUSTER_API}/clusterset"] == "default"
        user = user_of(fleet, cluster.hub_kubeconfig)
        assert user.startswith(f"system:open-cluster-management:{name}:")


def test_placements_choose_by_labels(fleet: Hub, namespace: str) -> None:
    place(fleet, "edge", tier="edge")
    wait_until_chosen(fleet, "edge", "north")


def test_seeded_clusters_are_chosen(fleet: Hub, namespace: str) -> None:
    names = fleet.seed(5, {"tier": "seeded"})
    place(fleet, "seeded", tier="seeded")
    wait_until_chosen(fleet, "seeded", *names)


def test_work_lands_and_its_status_comes_back(fleet: Hub) -> None:
    send(fleet, "south", deployment("worker"))
    ready = {"name": "ReadyReplicas", "fieldValue": {"type": "Integer", "integer": 1}}

    def told(work: Document) -> bool:
        manifests = work.get("status", {}).get("resourceStatus", {}).get("manifests", [])
        return any(ready in each.get("statusFeedback", {}).get("values", []) for each in manifests)

    wait_until(fleet.plane, f"{works('south')}/work", told)


def test_replicas_of_work_land_after_a_crash_of_the_managers(fleet: Hub, namespace: str) -> None:
    fleet.restart_managers()
    replicas = {"apiVersion": f"{WORK_API}/v1alpha1", "kind": "ManifestWorkReplicaSet"}
    apply(
        fleet.plane,
        replicas,
        "replicas",
        namespace,
        placementRefs=[{"name": "edge", "rolloutStrategy": {"type": "All"}}],
        manifestWorkTemplate={"workload": {"manifests": [deployment("replica")]}},
    )
    get(fleet.clusters["north"].plane, f"{DEPLOYMENTS}/replica")


def test_an_addon_lands_with_its_values_and_a_certificate(fleet: Hub, namespace: str) -> None:
    north = fleet.clusters["north"]
    install_addon(fleet, "helper", GREETING="hello")
    wait_until(fleet.plane, f"{ADDONS}/helper", lambda addon: is_true(addon, "Available"))
    landed = get(north.plane, f"{DEPLOYMENTS}/helper")
    (container,) = landed["spec"]["template"]["spec"]["containers"]
    values = {each["name"]: each["value"] for each in container["env"]}
    assert values["CLUSTER"] == "north"
    assert values["WORD"] == "hello"
    secret = "/api/v1/namespaces/default/secrets/helper-hub-kubeconfig"
    wait_until(north.plane, secret, lambda secret: "tls.crt" in secret["data"])
    certificate = north.secret_files("default", "helper-hub-kubeconfig")
    user = user_of(fleet, certificate / "kubeconfig")
    assert user.startswith("system:open-cluster-management:cluster:north:addon:helper:")
    # Only the webhook converts.
    new = get(fleet.plane, f"/apis/{ADDON_API}/v1beta1/clustermanagementaddons/helper")
    assert "defaultConfigs" in new["spec"]


def install_addon(fleet: Hub, name: str, **variables: str) -> None:
    """An addon for the clusters that the Placement edge chooses."""
    api = f"{ADDON_API}/v1alpha1"
    apply(
        fleet.plane,
        {"apiVersion": api, "kind": "AddOnDeploymentConfig"},
        name,
        NAMESPACE,
        agentInstallNamespace="default",
        customizedVariables=[{"name": key, "value": value} for key, value in variables.items()],
    )
    manifests = [deployment(name, CLUSTER="{{CLUSTER_NAME}}", WORD="{{GREETING}}")]
    apply(
        fleet.plane,
        {"apiVersion": api, "kind": "AddOnTemplate"},
        name,
        addonName=name,
        agentSpec={"workload": {"manifests": manifests}},
        registration=[{"type": "KubeClient"}],
    )
    template = {"group": ADDON_API, "resource": "addontemplates", "defaultConfig": {"name": name}}
    config = {"group": ADDON_API, "resource": "addondeploymentconfigs"}
    placement = {
        "name": "edge",
        "namespace": NAMESPACE,
        "configs": [{**config, "name": name, "namespace": NAMESPACE}],
    }
    apply(
        fleet.plane,
        {"apiVersion": api, "kind": "ClusterManagementAddOn"},
        name,
        supportedConfigs=[template, config],
        installStrategy={"type": "Placements", "placements": [placement]},
    )


@pytest.fixture
def guest(fleet: Hub) -> Iterator[ManagedCluster]:
    """A cluster that was there before it joined."""
    with ControlPlane(controllers=True, nodes=1) as plane:
        yield fleet.join("guest", plane, {"tier": "guest"})
        del fleet.clusters["guest"]


def test_a_cluster_is_lost_and_found_and_leaves_with_its_work(
    fleet: Hub, namespace: str, guest: ManagedCluster
) -> None:
    place(fleet, "guests", tier="guest")
    wait_until_chosen(fleet, "guests", "guest")
    with guest.lost():
        wait_until_chosen(fleet, "guests")
        send(fleet, "guest", deployment("worker"))
    wait_until_chosen(fleet, "guests", "guest")
    get(guest.plane, f"{DEPLOYMENTS}/worker")
    guest.remove()
    wait_until_chosen(fleet, "guests")
    assert fleet.plane.request("GET", f"{works('guest')}/work")[0] == 404
    assert guest.plane.request("GET", f"{DEPLOYMENTS}/worker")[0] == 404
