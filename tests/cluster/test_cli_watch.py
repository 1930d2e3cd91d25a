"""`kubectl flower status --watch`, with nobody but the test to change anything."""

import signal
from pathlib import Path

import pytest

from flower_operator.cluster.federations import FEDERATION
from tests.cluster.federations import Document, Namespace, manifest
from tests.cluster.person import FEW_SECONDS, Person, wait_for_text
from tests.harness.control_plane import ControlPlane

pytestmark = pytest.mark.extended


@pytest.fixture
def person(control_plane: ControlPlane, tmp_path: Path) -> Person:
    return Person(control_plane.kubeconfig, tmp_path)


def status(supernodes: str, ready: str) -> Document:
    """As an operator would write it."""
    said = {"type": "Ready", "status": ready, "reason": "Some", "message": f"it is {supernodes}"}
    said["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    return {"status": {"observedGeneration": 1, "supernodes": supernodes, "conditions": [said]}}


def test_a_status_is_watched_over_a_crash_of_the_api_server(
    control_plane: ControlPlane, person: Person, tmp_path: Path
) -> None:
    log = tmp_path / "watch.log"
    with Namespace.new(control_plane) as namespace:
        namespace.apply(manifest("lab"))
        path = f"{FEDERATION.path(namespace.name, 'lab')}/status"
        here = ("-n", namespace.name)
        with person.background("status", "lab", "--watch", *here, log=log) as watching:
            wait_for_text(log, "the operator has not looked at it yet")
            control_plane.request("PATCH", path, status("1/2", "False"))
            wait_for_text(
                log, "lab: not ready, 1/2 SuperNodes ready\n  Ready False: Some: it is 1/2"
            )
            control_plane.restart_apiserver()
            control_plane.request("PATCH", path, status("2/2", "True"))
            text = wait_for_text(log, "lab: ready, 2/2 SuperNodes ready")
            assert text.count("lab: ") == 3, "each state once"
            assert watching.poll() is None
            watching.send_signal(signal.SIGINT)
            assert watching.wait(FEW_SECONDS) == 0


def test_a_watch_ends_with_its_federation(
    control_plane: ControlPlane, person: Person, tmp_path: Path
) -> None:
    log = tmp_path / "watch.log"
    with Namespace.new(control_plane) as namespace:
        namespace.apply(manifest("lab"))
        here = ("-n", namespace.name)
        with person.background("status", "lab", "-w", *here, log=log) as watching:
            wait_for_text(log, "lab: ")
            namespace.delete("lab")
            assert watching.wait(FEW_SECONDS) == 1
    assert log.read_text().endswith("error: lab was deleted\n")
