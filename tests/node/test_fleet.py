"""Training over a fleet: a hub that is one of its own clusters, with real pods, and another one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flower_operator.flower.releases import Release
from flower_operator.kube.resources import POD
from flower_operator.runs.environments import environment
from scripts.chart import CHART
from tests.cluster.federations import Document, Namespace
from tests.fleet.federations import bind, listed, placed, select
from tests.fleet.test_identity import agent_account, private_keys
from tests.harness.binaries import binary
from tests.harness.control_plane import ControlPlane
from tests.harness.managed_cluster import ManagedCluster
from tests.harness.node import ADDRESS
from tests.harness.open_cluster_management import Hub
from tests.harness.processes import ProcessGroup, ServerProcess
from tests.harness.waiting import wait_for
from tests.node.conftest import CHART_SETTINGS, NAMESPACE, RELEASES
from tests.node.training import train

READY_SECONDS = 180
NODE_CONFIG = {
    "partition-id": "{partition}",
    "num-partitions": "{partitions}",
    "name": "{cluster}",
}


def install(cluster: ControlPlane, *settings: str) -> None:
    """The chart as for all tests here, with more settings."""
    helm = [str(binary("helm")), "upgrade", "flower-operator", str(CHART), "--wait"]
    helm += ["--namespace", NAMESPACE, "--kubeconfig", str(cluster.kubeconfig)]
    helm += ["--set", CHART_SETTINGS]
    options = [option for setting in settings for option in ("--set", setting)]
    done = subprocess.run(
        [*helm, *options], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def fleet(cluster: ControlPlane) -> Iterator[Hub]:
    """`near` is the hub itself, where pods are real; those of `far` are so in name only."""
    binary("ocm")
    with Hub(cluster) as hub:
        hub.join("near", cluster, {"fleet": "yes"})
        hub.managed_cluster("far", {"fleet": "yes"})
        install(cluster, "addon.enable=true")
        try:
            yield hub
        finally:
            install(cluster)


def start_supernode(
    group: ProcessGroup, cluster: ManagedCluster, namespace: Namespace, release: Release
) -> ServerProcess:
    """What a pod of `far` would run, with that pod's own arguments, key and CA."""
    (pod,) = (
        each
        for each in listed(cluster.plane, POD, namespace.name)
        if each["metadata"]["name"].startswith("lab-supernode-")
    )
    path = f"/api/v1/namespaces/{namespace.name}/configmaps/lab-supernode-edge-ca"
    files = {
        "/etc/flower/ca/ca.crt": cluster.plane.request("GET", path)[1]["data"]["ca.crt"],
        "/etc/flower/key": private_keys(cluster, namespace)[pod["metadata"]["uid"]],
    }
    arguments = pod["spec"]["containers"][0]["args"]
    for place, text in files.items():
        file = group.folder / Path(place).name
        file.write_text(text)
        arguments = [each.replace(place, str(file)) for each in arguments]
    command = environment(release) / "bin/flower-supernode"
    settings = [f"FLWR_HOME={group.folder}", f"PATH={command.parent}:/usr/bin:/bin"]
    return group.start("supernode", ["env", *settings, str(command), *arguments])


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_a_fleet_trains(fleet: Hub, namespace: Namespace, tmp_path: Path, release: Release) -> None:
    bind(namespace)
    select(namespace, fleet="yes")
    service = {"type": "NodePort", "externalAddress": ADDRESS}
    document: Document = {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "metadata": {"name": "lab"},
        "spec": {
            "mode": "StatefulSet",
            "isolationMode": "subprocess",
            "insecure": False,
            "supernodeAuth": {"enabled": True, "allowSubprocess": True},
            "superlink": {"image": f"flwr/superlink:{release}", "service": service},
            "supernodes": {
                "image": f"flwr/supernode:{release}",
                "pools": [placed(nodeConfig=NODE_CONFIG)],
            },
        },
    }
    namespace.apply(document)
    far = fleet.clusters["far"]
    with ProcessGroup() as group:
        kubeconfig = agent_account(far, namespace)
        command = ["env", f"KUBECONFIG={kubeconfig}", sys.executable, "-m", "flower_operator"]
        command += ["agent", "--namespace", namespace.name, "--federation", "lab"]
        group.start("agent", [*command, "--pool", "edge"])
        wait_for(
            lambda: bool(running(far, namespace)),
            lambda: f"far's pod is held: {namespace.federation('lab').get('status')}",
            READY_SECONDS,
        )
        start_supernode(group, far, namespace, release)
        namespace.wait_until_ready("lab", timeout=READY_SECONDS)
        result = train(namespace, "lab", release, tmp_path)
    reports = sorted(result["reports"], key=lambda report: report["partition-id"])
    assert [(each["partition-id"], each["num-partitions"], each["name"]) for each in reports] == [
        (0, 2, "far"),
        (1, 2, "near"),
    ]
    namespace.delete("lab")
    path = f"/apis/flwr.exalsius.ai/v1/namespaces/{namespace.name}/federations/lab"
    wait_for(lambda: fleet.plane.request("GET", path)[0] == 404, "the Federation stays", 60)


def running(cluster: ManagedCluster, namespace: Namespace) -> list[Document]:
    return [
        each
        for each in listed(cluster.plane, POD, namespace.name)
        if each["metadata"]["name"].startswith("lab-supernode-")
        and not each["spec"].get("schedulingGates")
    ]
