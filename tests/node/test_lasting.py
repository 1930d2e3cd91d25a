"""A run that outlives its SuperLink: a claim keeps what that knows."""

from pathlib import Path
from typing import Any

from tests.cluster.federations import Namespace
from tests.harness.node import Node
from tests.harness.waiting import wait_for
from tests.local.machine import federation
from tests.node.conftest import RELEASES
from tests.node.flight import COMPLETED, Flight

Document = dict[str, Any]

STORAGE_CLASS = "of-the-node"
PERSISTENCE = {"size": "1Gi", "storageClassName": STORAGE_CLASS}


def test_a_run_outlives_the_superlink_s_container(
    node: Node, namespace: Namespace, tmp_path: Path
) -> None:
    node.add_volume(STORAGE_CLASS)
    # The one that is back sooner: Flower gives up a run that it has not heard of for a minute.
    release = RELEASES[0]
    document = federation("fed", str(release), "process", persistence=PERSISTENCE)
    document["spec"]["insecure"] = False
    flight = Flight(namespace, tmp_path, {release: document}, pause=20.0)
    flight.wait_until_training("fed")
    end = ["exec", "--namespace", namespace.name, "fed-superlink-0", "--container", "superlink"]
    namespace.cluster.kubectl(*end, "--", "python", "-c", "import os; os.kill(1, 15)")
    wait_until_restarted(namespace, "fed-superlink-0")
    flight.wait_until(COMPLETED)


def wait_until_restarted(namespace: Namespace, pod: str) -> None:
    """Until its SuperLink, and nothing else in it, has been started again and is ready."""

    def state() -> dict[str, tuple[int, bool]]:
        path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}"
        answer: Document = namespace.cluster.request("GET", path)[1]
        statuses = answer["status"]["containerStatuses"]
        return {each["name"]: (each["restartCount"], each["ready"]) for each in statuses}

    back = {"superlink": (1, True), "superexec-serverapp": (0, True)}
    wait_for(lambda: state() == back, lambda: f"{pod}: {state()}", timeout=120)
