"""One node for all tests here, with the operator on it as a pod from its own image."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from flower_operator import __version__
from flower_operator.flower.releases import Release
from flower_operator.runs.environments import environment
from scripts.chart import CHART
from scripts.image import make_image
from tests.cluster.federations import Namespace
from tests.harness.binaries import binary
from tests.harness.control_plane import ControlPlane
from tests.harness.images import flower_archive, gateway_archive
from tests.harness.node import Node, missing

RELEASES = (Release(1, 25), Release(1, 41))
NAMESPACE = "flower-operator-system"
CHART_SETTINGS = "manager.image.repository=flower-operator,taskExecutor.enable=true"


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if reason := missing():
        # Where every change is tested, nothing may go untested unseen.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    image = tmp_path_factory.mktemp("image") / "flower-operator.tar"
    make_image(f"flower-operator:{__version__}", image)
    # Before the node's network, from where nothing can be installed.
    for release in RELEASES:
        environment(release)
    for program in ("etcd", "helm", "kubectl", "kube-scheduler"):
        binary(program)
    archives = [image, gateway_archive(), *map(flower_archive, map(str, RELEASES))]
    with Node(archives) as node:
        yield node


@pytest.fixture(scope="session")
def cluster(node: Node) -> ControlPlane:
    """With the operator, installed as its users do it."""
    cluster = node.cluster
    cluster.kubectl("create", "namespace", NAMESPACE)
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", NAMESPACE, label)
    helm = [str(binary("helm")), "install", "flower-operator", str(CHART), "--wait"]
    helm += ["--namespace", NAMESPACE, "--kubeconfig", str(cluster.kubeconfig)]
    helm += ["--set", CHART_SETTINGS]
    done = subprocess.run(helm, capture_output=True, text=True, check=False, timeout=600)
    pods = cluster.kubectl("describe", "pods", "-n", NAMESPACE).stdout
    assert done.returncode == 0, f"{done.stderr}\n{pods}\n{node.logs()}"
    return cluster


@pytest.fixture
def namespace(cluster: ControlPlane) -> Iterator[Namespace]:
    with Namespace.new(cluster) as namespace:
        label = "pod-security.kubernetes.io/enforce=restricted"
        cluster.kubectl("label", "namespace", namespace.name, label)
        yield namespace
