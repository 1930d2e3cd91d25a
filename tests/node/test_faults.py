"""What fails while a run is in flight, and what becomes of the run and of the Federation."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.federations import Namespace
from tests.harness.node import Node
from tests.harness.policies import cut_off
from tests.harness.waiting import wait_for
from tests.node.conftest import NAMESPACE, RELEASES
from tests.node.flight import COMPLETED, Flight, delete_pod, plain
from tests.node.training import train


@pytest.fixture
def flight(namespace: Namespace, tmp_path: Path) -> Flight:
    return Flight(namespace, tmp_path, plain(RELEASES))


def test_a_run_does_not_notice_what_kubernetes_goes_through(node: Node, flight: Flight) -> None:
    before = {pod["metadata"]["uid"] for pod in flight.namespace.pods()}
    operator = Namespace(flight.namespace.cluster, NAMESPACE)
    [controller] = operator.pods()
    delete_pod(operator, controller["metadata"]["name"])
    node.restart_containerd()
    node.restart_kubelet()
    node.cluster.restart_apiserver()
    flight.wait_until(COMPLETED)
    after = flight.namespace.pods()
    assert {pod["metadata"]["uid"] for pod in after} == before
    restarts = [
        each["restartCount"] for pod in after for each in pod["status"]["containerStatuses"]
    ]
    assert set(restarts) == {0}
    flight.wait_until_ready()


def test_a_run_goes_on_without_a_supernode_that_was_lost(
    namespace: Namespace, tmp_path: Path
) -> None:
    flight = Flight(namespace, tmp_path, plain(RELEASES), pause=15.0)

    def lose_supernode(name: str) -> None:
        # Of an answer that was sent in part, Flower waits for the rest without end.
        flight.wait_until_training(name)
        delete_pod(namespace, f"{name}-supernode-north-0")

    with ThreadPoolExecutor() as pool:
        list(pool.map(lose_supernode, flight.apps))
    flight.wait_until(COMPLETED)
    flight.wait_until_ready()


def test_a_run_is_lost_with_a_superlink_that_keeps_nothing(
    namespace: Namespace, tmp_path: Path
) -> None:
    flight = Flight(namespace, tmp_path, plain(RELEASES), rounds=100)
    pods = {pod["metadata"]["name"]: pod for pod in namespace.pods()}
    # One that does not hear that its SuperLink is another: Flower 1.25 can be deaf of its own.
    deaf = pods["fed-1-25-supernode-north-0"]
    with cut_off(deaf["status"]["podIP"]):
        for pod in pods.values():
            if pod["metadata"]["labels"]["flower.flwr.ai/component"] == "superlink":
                delete_pod(namespace, pod["metadata"]["name"])
        for name in flight.apps:
            namespace.wait_for_condition(name, "Ready", "False", timeout=60)
        told: list[str] = []

        def helped() -> bool:
            told[:] = [event["reason"] for event in namespace.events("fed-1-25")]
            return "SuperNodeStranded" in told

        wait_for(helped, lambda: f"the SuperNode is left alone: {told}", timeout=240, interval=1)
        flight.wait_until_ready()
    for name, app in flight.apps.items():
        assert flight.statuses(name) == []
        folder = tmp_path / "again" / name
        folder.mkdir(parents=True)
        result = train(flight.namespace, name, app.release, folder)
        assert result["model"] == [0.5, 0.5, 0.5]
