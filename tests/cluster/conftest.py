"""One control plane for all tests here, with the CRD in it."""

from collections.abc import Iterator

import pytest

from scripts.manifests import CRD
from tests.harness.control_plane import ControlPlane
from tests.harness.waiting import wait_for


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        control_plane.kubectl("apply", "-f", str(CRD))
        wait_for(lambda: serves_federations(control_plane), "the CRD is not served", timeout=30)
        yield control_plane


def serves_federations(control_plane: ControlPlane) -> bool:
    status, _ = control_plane.request("GET", "/apis/flwr.exalsius.ai/v1/federations")
    return status == 200
