"""A fleet that all tests here share: a hub, and two clusters of which one has a label."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.conftest import install_crd, install_roles
from tests.cluster.federations import Namespace
from tests.cluster.test_operator_skupper import DEFINITIONS
from tests.fleet.federations import SHARED, fleet_namespace
from tests.harness.control_plane import ControlPlane
from tests.harness.open_cluster_management import Hub
from tests.harness.operator_process import OperatorProcess

CLUSTERS = {"north": {"tier": "edge", **SHARED}, "south": {"tier": "core", **SHARED}}


@pytest.fixture(scope="session")
def fleet() -> Iterator[Hub]:
    """The pods of the hub and of the clusters run in name only: see tests.harness.nodes."""
    with ControlPlane(controllers=True, nodes=1) as plane, Hub(plane) as hub:
        with ThreadPoolExecutor() as pool:
            list(pool.map(hub.managed_cluster, CLUSTERS, CLUSTERS.values()))
            list(
                pool.map(install_skupper, [plane, *(each.plane for each in hub.clusters.values())])
            )
        yield hub


def install_skupper(plane: ControlPlane) -> None:
    """Its kinds, before an operator looks whether they are there. Nothing acts on them."""
    plane.kubectl("apply", "-f", str(DEFINITIONS))
    plane.kubectl("wait", "--for=condition=established", "-f", str(DEFINITIONS))


@pytest.fixture(scope="session")
def operator(fleet: Hub) -> Iterator[OperatorProcess]:
    """The operator at work on the hub, with the rights that the chart gives it for that."""
    install_crd(fleet.plane)
    account = install_roles(fleet.plane, "addon.enable=true")
    with OperatorProcess(account, "--fleet") as operator:
        operator.wait_until_leading()
        yield operator


@pytest.fixture
def namespace(fleet: Hub, operator: OperatorProcess) -> Iterator[Namespace]:
    with fleet_namespace(fleet) as namespace:
        yield namespace
