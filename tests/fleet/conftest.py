"""A fleet that all tests here share: a hub, and two clusters of which one has a label."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.control_plane import ControlPlane
from tests.harness.open_cluster_management import Hub

CLUSTERS = {"north": {"tier": "edge"}, "south": {"tier": "core"}}


@pytest.fixture(scope="session")
def fleet() -> Iterator[Hub]:
    """The pods of the hub and of the clusters run in name only: see tests.harness.nodes."""
    with ControlPlane(controllers=True, nodes=1) as plane, Hub(plane) as hub:
        with ThreadPoolExecutor() as pool:
            list(pool.map(hub.managed_cluster, CLUSTERS, CLUSTERS.values()))
        yield hub
