"""Tasks in pods of their own, made by Flower's Kubernetes executor."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flower_operator.flower.releases import Release
from tests.cluster.federations import Namespace
from tests.harness.waiting import wait_for
from tests.local.machine import expected_reports, federation
from tests.node.training import train

RELEASE = Release(1, 41)


@pytest.mark.parametrize("insecure", [True, False], ids=["plain", "secure"])
def test_every_task_has_a_pod_of_its_own(
    namespace: Namespace, tmp_path: Path, insecure: bool
) -> None:
    document = federation("fed", str(RELEASE), "process")
    document["spec"]["insecure"] = insecure
    document["spec"]["superlink"]["executor"] = "kubernetes"
    for pool in document["spec"]["supernodes"]["pools"]:
        pool["executor"] = "kubernetes"
    namespace.apply(document)
    namespace.wait_until_ready("fed", timeout=120)
    components: set[str] = set()
    with ThreadPoolExecutor() as pool:
        training = pool.submit(train, namespace, "fed", RELEASE, tmp_path)
        while not training.done():
            components |= set(tasks(namespace).values())
            time.sleep(0.5)  # the pod of a task is there for longer
    reports = sorted(training.result()["reports"], key=lambda report: report["partition-id"])
    assert reports == expected_reports()
    assert components == {"serverapp", "clientapp"}
    namespace.delete("fed")
    wait_for(
        lambda: not namespace.pods() and not secrets(namespace),
        lambda: f"left behind: {[*tasks(namespace), *secrets(namespace)]}",
        timeout=120,
    )


def tasks(namespace: Namespace) -> dict[str, str]:
    """The pods of tasks, and whose they are."""
    pods = [pod["metadata"] for pod in namespace.pods()]
    label = "flower.flwr.ai/component"
    return {
        pod["name"]: pod["labels"][label]
        for pod in pods
        if pod["name"].startswith("flwr-taskexecutor-")
    }


def secrets(namespace: Namespace) -> list[str]:
    path = f"/api/v1/namespaces/{namespace.name}/secrets"
    return [each["metadata"]["name"] for each in namespace.cluster.request("GET", path)[1]["items"]]
