"""What goes wrong on a real node, and whether the Federation says so."""

import socket
from typing import Any

import pytest

from tests.cluster.federations import Namespace, condition, manifest
from tests.harness.node import Node
from tests.harness.waiting import wait_for

Document = dict[str, Any]

FLEET_PORT = {"1.25.0": 9092, "1.41.0": 8000}


def of_release(release: str, name: str = "fed", **spec: Any) -> Document:
    document = manifest(name, **spec)
    document["spec"]["superlink"]["image"] = f"flwr/superlink:{release}"
    document["spec"]["supernodes"]["image"] = f"flwr/supernode:{release}"
    return document


def describe(namespace: Namespace, name: str = "fed") -> str:
    arguments = ["describe", "federation", name, "--namespace", namespace.name]
    return namespace.cluster.kubectl(*arguments).stdout


def wait_for_reason(namespace: Namespace, reason: str, *words: str) -> Document:
    """Until the Federation is degraded for this reason, in `kubectl describe` too."""

    def told() -> bool:
        federation = namespace.federation("fed")
        found = condition(federation, "Degraded")
        text = " ".join(describe(namespace).split())
        return found.get("reason") == reason and all(word in text for word in words)

    wait_for(told, lambda: f"no {reason} {words}:\n{describe(namespace)}", timeout=120)
    assert condition(namespace.federation("fed"), "Ready")["status"] == "False"
    return namespace.federation("fed")


@pytest.mark.parametrize("release", ["1.25.0", "1.41.0"])
def test_ready_follows_the_fleet_api(namespace: Namespace, release: str) -> None:
    namespace.apply(of_release(release))
    seen: list[tuple[bool, bool]] = []

    def ready() -> bool:
        federation = namespace.federation("fed")
        says = condition(federation, "SuperLinkAvailable").get("status") == "True"
        # Asked after the status was read: what has begun to listen goes on listening.
        seen.append((says, says and listens(namespace, FLEET_PORT[release])))
        return condition(federation, "Ready").get("status") == "True"

    wait_for(ready, lambda: describe(namespace), timeout=120)
    assert (False, False) in seen
    assert (True, False) not in seen, "told before the Fleet API listened"
    [superlink] = superlinks(namespace)
    path = f"/api/v1/namespaces/{namespace.name}/pods/{superlink['metadata']['name']}"
    namespace.cluster.request("DELETE", path)
    namespace.wait_for_condition("fed", "Ready", "False", timeout=30)
    namespace.wait_until_ready("fed", timeout=120)


def listens(namespace: Namespace, port: int) -> bool:
    addresses = [pod["status"].get("podIP") for pod in superlinks(namespace)]
    with socket.socket() as client:
        client.settimeout(2)
        return any(address and client.connect_ex((address, port)) == 0 for address in addresses)


def superlinks(namespace: Namespace) -> list[Document]:
    label = "flower.flwr.ai/component"
    return [pod for pod in namespace.pods() if pod["metadata"]["labels"][label] == "superlink"]


def test_a_flag_that_flower_does_not_know(namespace: Namespace) -> None:
    document = of_release("1.41.0")
    document["spec"]["superlink"]["extraArgs"] = ["--no-such-flag"]
    namespace.apply(document)
    wait_for_reason(
        namespace, "CrashLoop", "container superlink", "unrecognized arguments: --no-such-flag"
    )


def test_an_image_that_does_not_exist(namespace: Namespace) -> None:
    document = of_release("1.41.0")
    document["spec"]["supernodes"]["image"] = "example.test/supernode:1.41.0"
    namespace.apply(document)
    wait_for_reason(
        namespace, "ImageNotPullable", "image example.test/supernode:1.41.0 cannot be pulled"
    )
    namespace.wait_for_condition("fed", "SuperLinkAvailable", "True")


def test_a_memory_limit_that_is_too_small(namespace: Namespace) -> None:
    resources = {"limits": {"memory": "32Mi"}}
    pool = {"name": "default", "replicas": 1, "supernodeResources": resources}
    namespace.apply(of_release("1.41.0", pools=[pool]))
    wait_for_reason(namespace, "OutOfMemory", "raise its resources.limits.memory")


def test_a_volume_that_cannot_be_mounted(namespace: Namespace) -> None:
    volumes = {
        "volumes": [{"name": "data", "secret": {"secretName": "nowhere"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pool = {"name": "default", "replicas": 1, **volumes}
    namespace.apply(of_release("1.41.0", pools=[pool]))
    wait_for_reason(namespace, "VolumeNotMounted", 'secret "nowhere" not found')
    secret = {"metadata": {"name": "nowhere"}, "stringData": {"key": "value"}}
    namespace.cluster.request("POST", f"/api/v1/namespaces/{namespace.name}/secrets", secret)
    namespace.wait_until_ready("fed", timeout=180)
    assert condition(namespace.federation("fed"), "Degraded")["status"] == "False"


def test_gpus_as_many_as_the_node_has(node: Node, namespace: Namespace) -> None:
    node.advertise("nvidia.com/gpu", 1)
    gpu = {"enabled": True, "vendor": "nvidia"}
    namespace.apply(of_release("1.41.0", pools=[{"name": "gpu", "replicas": 2, "gpu": gpu}]))
    told = wait_for_reason(namespace, "Unschedulable", "Insufficient nvidia.com/gpu")
    [pool] = told["status"]["pools"]
    assert pool["desired"] == 2
    node.advertise("nvidia.com/gpu", 2)
    namespace.wait_until_ready("fed", timeout=120)
