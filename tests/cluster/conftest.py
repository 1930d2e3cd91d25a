"""Control planes that all tests here share, with the CRD in them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts.chart import CHART
from scripts.manifests import CRD
from tests.cluster.federations import Namespace
from tests.harness.binaries import binary
from tests.harness.control_plane import ControlPlane
from tests.harness.operator_process import OperatorProcess
from tests.harness.releases import override_requirements
from tests.harness.waiting import wait_for

NAMESPACE = "flower-operator-system"
ACCOUNT = "flower-operator-controller-manager"

override_requirements()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        install_crd(control_plane)
        yield control_plane


@pytest.fixture(scope="session")
def cluster() -> Iterator[ControlPlane]:
    """With controllers, and with nodes that play the pods: see tests.harness.nodes."""
    with ControlPlane(controllers=True, nodes=10) as cluster:
        install_crd(cluster)
        yield cluster


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Where no operator is at work but those that a test starts, with its nodes."""
    with ControlPlane(controllers=True, nodes=3) as plane:
        install_crd(plane)
        yield plane


DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def install_crd(control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "-f", str(CRD))
    wait_for(lambda: serves_federations(control_plane), "the CRD is not served", timeout=30)


def serves_federations(control_plane: ControlPlane) -> bool:
    """Whether it does and says so: kubectl goes by a list of all APIs, which is a little late."""
    status, _ = control_plane.request("GET", "/apis/flwr.exalsius.ai/v1/federations")
    _, discovered = control_plane.request("GET", "/apis", headers={"Accept": DISCOVERY})
    groups = {each["metadata"]["name"] for each in discovered["items"]}
    return status == 200 and "flwr.exalsius.ai" in groups


@pytest.fixture(scope="session")
def account(cluster: ControlPlane) -> Path:
    """A kubeconfig with the rights that the chart gives to the operator, and no others."""
    return install_roles(cluster, "taskExecutor.enable=true")


@pytest.fixture(scope="session")
def rights(plane: ControlPlane) -> Path:
    """The same on the cluster where tests start operators."""
    return install_roles(plane)


@pytest.fixture(scope="session")
def operator(cluster: ControlPlane, account: Path) -> Iterator[OperatorProcess]:
    """The operator at work on all namespaces. What it wrote to its log is shown if a test fails."""
    with OperatorProcess(account, "--task-executor") as operator:
        operator.wait_until_leading()
        yield operator


@pytest.fixture
def namespace(cluster: ControlPlane) -> Iterator[Namespace]:
    with Namespace.new(cluster) as namespace:
        yield namespace


def install_roles(cluster: ControlPlane, *settings: str) -> Path:
    """Install the chart without its pods, and become its ServiceAccount."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    options = [option for setting in settings for option in ("--set", setting)]
    command = [str(binary("helm")), "template", "flower-operator", str(CHART)]
    command += ["--namespace", NAMESPACE, "--set", "crd.enable=false", *options]
    chart = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    documents = [
        each for each in yaml.safe_load_all(chart) if each and each["kind"] != "Deployment"
    ]
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(documents))
    return cluster.kubeconfig_for_service_account(NAMESPACE, ACCOUNT)
