"""What fails while a run is in flight, and what becomes of the run and of the Federation."""

from pathlib import Path

import pytest

from flower_operator.flower.releases import Release
from tests.cluster.federations import Document, Namespace
from tests.harness.node import Node
from tests.harness.waiting import wait_for
from tests.local.machine import federation
from tests.node.conftest import NAMESPACE, RELEASES
from tests.node.training import App, forwarded, train

COMPLETED = "finished:completed"
RUNNING = "running"


class Flight:
    """A run on a Federation, long enough for something to happen to it."""

    def __init__(self, namespace: Namespace, folder: Path, release: Release) -> None:
        self._namespace = namespace
        self._app = App(folder, release)
        namespace.apply(federation("fed", str(release), "process"))
        namespace.wait_until_ready("fed", timeout=120)
        with forwarded(namespace, "fed-superlink") as address:
            self._app.connect("cluster", address)
            self._app.submit("cluster", "--run-config", "rounds=3 pause=6.0")
        self.wait_until(RUNNING)

    def statuses(self) -> list[str]:
        with forwarded(self._namespace, "fed-superlink") as address:
            self._app.connect("cluster", address)
            return self._app.statuses("cluster")

    def wait_until(self, status: str, timeout: float = 180) -> None:
        seen: list[str] = []

        def reached() -> bool:
            seen[:] = self.statuses()
            return seen == [status]

        wait_for(reached, lambda: f"the run is not {status}: {seen}", timeout, interval=1)


def delete_pod(namespace: Namespace, name: str) -> None:
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}"
    status, answer = namespace.cluster.request("DELETE", path)
    assert status == 200, answer


def pods_of(namespace: Namespace, component: str) -> list[Document]:
    label = "flower.flwr.ai/component"
    return [pod for pod in namespace.pods() if pod["metadata"]["labels"].get(label) == component]


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_a_run_does_not_notice_what_kubernetes_goes_through(
    node: Node, namespace: Namespace, tmp_path: Path, release: Release
) -> None:
    flight = Flight(namespace, tmp_path, release)
    before = {pod["metadata"]["uid"] for pod in namespace.pods()}
    operator = Namespace(namespace.cluster, NAMESPACE)
    [controller] = operator.pods()
    delete_pod(operator, controller["metadata"]["name"])
    node.restart_containerd()
    node.restart_kubelet()
    namespace.cluster.restart_apiserver()
    flight.wait_until(COMPLETED)
    after = namespace.pods()
    assert {pod["metadata"]["uid"] for pod in after} == before
    restarts = [
        each["restartCount"] for pod in after for each in pod["status"]["containerStatuses"]
    ]
    assert set(restarts) == {0}
    namespace.wait_until_ready("fed", timeout=120)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_a_run_goes_on_without_a_supernode_that_was_lost(
    namespace: Namespace, tmp_path: Path, release: Release
) -> None:
    flight = Flight(namespace, tmp_path, release)
    delete_pod(namespace, "fed-supernode-north-0")
    flight.wait_until(COMPLETED)
    namespace.wait_until_ready("fed", timeout=120)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_a_run_is_lost_with_a_superlink_that_keeps_nothing(
    namespace: Namespace, tmp_path: Path, release: Release
) -> None:
    flight = Flight(namespace, tmp_path, release)
    [superlink] = pods_of(namespace, "superlink")
    delete_pod(namespace, superlink["metadata"]["name"])
    namespace.wait_for_condition("fed", "Ready", "False", timeout=60)
    namespace.wait_until_ready("fed", timeout=180)
    assert flight.statuses() == []
    (tmp_path / "again").mkdir()
    result = train(namespace, "fed", release, tmp_path / "again")
    assert result["model"] == [0.5, 0.5, 0.5]
