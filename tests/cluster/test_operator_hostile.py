"""Hundreds of Federations that are broken, or mean harm, beside one that is good."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from flower_operator.operator.desired import FEDERATION
from tests.cluster.federations import Document, Namespace, manifest, wait_until
from tests.harness.operator_process import OperatorProcess

pytestmark = pytest.mark.extended

COUNT = 300
ODD_TEXTS = [
    "",
    " ",
    "\u202e",
    "\U0001d571\U0001f33c",
    "a\u0301\u200d\u2066",
    "$(touch /tmp/x)",
    "$(FLOWER_INDEX)",
    "{{ .Values }}",
    "'; DROP TABLE nodes; --",
    "line\nbreak\ttab",
    "x" * 5000,
    "\ud7ff\ue000",
    "-1",
    "null",
]


def hostile(seed: int) -> Document:
    """Something that the API server may or may not take."""
    rng = random.Random(seed)

    def odd() -> str:
        return rng.choice(ODD_TEXTS)

    document = manifest(f"hostile-{seed}")
    spec = document["spec"]
    pool = spec["supernodes"]["pools"][0]
    deeds: list[Any] = [
        lambda: document["metadata"].update(name="a" * rng.randint(30, 250) + str(seed)),
        lambda: pool.update(nodeConfig={odd() or "k": odd() for _ in range(5)}),
        lambda: spec["superlink"].update(image=odd()),
        lambda: spec.update(version=odd()),
        lambda: pool.update(extraArgs=[odd() for _ in range(20)]),
        lambda: pool.update(env=[{"name": f"E{n}", "value": odd()} for n in range(20)]),
        lambda: pool.update(
            env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "nothing", "key": "x"}}}]
        ),
        lambda: pool.update(volumeMounts=[{"name": "nothing", "mountPath": "/x"}]),
        lambda: pool.update(podTemplate={"spec": {"serviceAccountName": "nobody"}}),
        lambda: pool.update(podTemplate={"spec": {"priorityClassName": "nothing"}}),
        lambda: pool.update(podTemplate={"spec": {"containers": [{"name": odd() or "x"}]}}),
        lambda: pool.update(podTemplate={"metadata": {"labels": {"flower.flwr.ai/pool": "x"}}}),
        lambda: pool.update(supernodeResources={"requests": {"cpu": odd()}}),
        lambda: pool.update(volumeClaimTemplates=[{"metadata": {"name": odd()}, "spec": {}}] * 2),
        lambda: pool.update(replicas=rng.choice([0, -1, 2**31, "two", 1.5])),
        lambda: spec["superlink"].update(service={"type": odd()}),
        lambda: spec["superlink"].update(service={"labels": {odd() or "x": odd()}}),
        lambda: spec["superlink"].update(service={"ports": {"grpc": 1, "extra": 1}}),
        lambda: spec.update(mode="DaemonSet"),
        lambda: spec.update(isolationMode="process"),
        lambda: spec["supernodes"].update(
            pools=[
                {
                    "name": f"pool-{number}",
                    "replicas": 1,
                    "env": [{"name": f"E{n}", "value": "x" * 200} for n in range(100)],
                }
                for number in range(16)
            ]
        ),
        lambda: spec.update(unknown=odd()),
    ]
    for deed in rng.sample(deeds, rng.randint(1, 3)):
        deed()
    return document


@pytest.fixture
def crowd(namespace: Namespace) -> Iterator[Namespace]:
    yield namespace
    # All at once, for each of them is given up slowly.
    namespace.cluster.request("DELETE", FEDERATION.path(namespace.name))


def test_a_good_federation_among_hundreds_of_hostile_ones(
    crowd: Namespace, operator: OperatorProcess
) -> None:
    taken = []
    for seed in range(COUNT):
        document = hostile(seed)
        status, answer = crowd.cluster.request("POST", FEDERATION.path(crowd.name), document)
        assert status in (201, 400, 422), json.dumps(answer)[:500]
        if status == 201:
            taken.append(document["metadata"]["name"])
        if seed == COUNT // 2:
            crowd.apply(manifest("good"))
    assert 50 < len(taken) < COUNT
    crowd.wait_until_ready("good")
    wait_until(lambda: not silent(crowd), f"no status: {silent(crowd)}", timeout=120)

    crowd.apply(manifest("good", pools=[{"name": "default", "replicas": 1}]))
    wait_until(lambda: replicas(crowd, "good-supernode-default") == 1, "it is not applied")
    # Kubernetes itself has its hands full with the pods of the others.
    crowd.wait_until_ready("good", timeout=120)
    assert operator.get_health("/healthz")[0] == 200
    assert "Traceback" not in operator.output()


def replicas(crowd: Namespace, name: str) -> int | None:
    found = crowd.get("StatefulSet", name)
    return found["spec"]["replicas"] if found else None


def silent(crowd: Namespace) -> list[str]:
    """Those that nothing is said about."""
    items = crowd.cluster.request("GET", FEDERATION.path(crowd.name))[1]["items"]
    return [
        each["metadata"]["name"] for each in items if not each.get("status", {}).get("conditions")
    ]
