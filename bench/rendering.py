"""How fast Federations become objects, on one core, and what the largest of them take."""

import json
import resource
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec

from flower_operator.api.limits import MAX_ITEMS, MAX_STRING, MAX_SUPERNODES
from flower_operator.api.manifest import parse
from flower_operator.operator.desired import desired_of
from flower_operator.render import Facts, render
from flower_operator.status.observed import Federation
from flower_operator.status.observed.metadata import Metadata

COUNT = 10_000
POOLS = 3


def document(number: int) -> dict[str, Any]:
    pools = [
        {
            "name": f"pool-{pool}",
            "replicas": 4,
            "images": {"superexecClientApp": "flwr/superexec:1.41.0"},
            "nodeConfig": {"partition-id": "{index}", "name": "{pool}-{index}"},
            "supernodeResources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        }
        for pool in range(POOLS)
    ]
    return {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "metadata": {"name": f"federation-{number}"},
        "spec": {
            "mode": "StatefulSet",
            "isolationMode": "process",
            "superlink": {
                "image": "flwr/superlink:1.41.0",
                "superexecImage": "flwr/superexec:1.41.0",
            },
            "supernodes": {"image": "flwr/supernode:1.41.0", "pools": pools},
        },
    }


def largest() -> dict[str, dict[str, Any]]:
    """Manifests that are accepted, each as large as the limits allow in one way."""
    most = 16
    each = MAX_SUPERNODES // most
    partition = {"partition-id": "{partition}"}
    tasks = {"executor": "kubernetes"}
    variables = [{"name": f"VARIABLE_{at}", "value": "x" * 64} for at in range(MAX_ITEMS)]
    terms = [
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a"] * MAX_ITEMS}]}
        for _ in range(6)
    ]
    required = {"nodeSelectorTerms": terms}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    volumes = [{"name": f"v{at}", "emptyDir": {}} for at in range(MAX_ITEMS)]
    mounts = [{"name": f"v{at}", "mountPath": f"/{at}"} for at in range(MAX_ITEMS)]
    peers = [{"ipBlock": {"cidr": "10.0.0.0/8"}} for _ in range(MAX_ITEMS)]
    text = "{index}" * (MAX_STRING // 32)
    return {
        "a file for each SuperNode": _large([{"replicas": each, "nodeConfig": partition}] * most),
        "long files for SuperNodes": _large(
            [{"replicas": 33, "nodeConfig": partition | {"text": text}}] * most
        ),
        "a config for each task": _large([{"replicas": 200, **tasks}] * most),
        "long configs for tasks": _large([{"replicas": 7, **tasks}] * most, env=variables),
        "long lists for tasks": _large(
            [{"replicas": 10, **tasks, "podTemplate": {"spec": {"affinity": affinity}}}] * most
        ),
        "volumes": _large(
            [{"replicas": 1, "volumes": volumes, "volumeMounts": mounts}] * 6, env=variables
        ),
        "network policies": _large(
            [{"replicas": 1}] * most,
            networkPolicy={"enabled": True, "egress": [{"to": peers}] * 10},
        ),
    }


def _large(
    pools: list[dict[str, Any]], *, env: list[dict[str, Any]] | None = None, **spec: Any
) -> dict[str, Any]:
    images = {"superexecClientApp": "flwr/superexec:1.41.0"}
    named = [{"name": f"p{at}", "images": images, **pool} for at, pool in enumerate(pools)]
    manifest = document(0)
    manifest["spec"] |= spec
    manifest["spec"]["supernodes"] |= {"pools": named, "env": env or []}
    return manifest


def report_largest() -> None:
    print("The largest Federations that are accepted, as the operator reads and renders them")
    for what, manifest in largest().items():
        metadata = Metadata(name="federation", namespace="team", uid="uid", generation=1)
        stored = Federation(metadata, msgspec.json.encode(manifest["spec"]), b"{}")
        start = time.process_time()
        desired_of(stored)
        seconds = time.process_time() - start
        tracemalloc.start()
        _, objects = desired_of(stored)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        size = sum(len(msgspec.json.encode(each)) for each in objects.values()) / 1e6
        print(
            f"  {what:<26} {seconds * 1000:>5.0f} ms CPU   {peak:>5.1f} MiB   {size:>5.1f} MB JSON"
        )


def main() -> None:
    documents = [document(number) for number in range(COUNT)]
    federations = [parse(each) for each in documents[:100]]
    text = json.dumps(render(federations[0], Facts()).objects)
    print(f"{COUNT:,} Federations of {POOLS} pools, one core; the floor reads the objects as JSON")
    report("floor: objects from JSON", lambda number: json.loads(text))
    report("parse and validate", lambda number: parse(documents[number]))
    report("render", lambda number: render(federations[number % 100], Facts()))
    report("parse and render", lambda number: render(parse(documents[number]), Facts()))
    report_largest()


def report(what: str, work: Callable[[int], object]) -> None:
    for number in range(100):
        work(number)
    before = peak_memory()
    start = time.process_time()
    for number in range(COUNT):
        work(number)
    rate = COUNT / (time.process_time() - start)
    grown = peak_memory() - before
    print(f"  {what:<26} {rate:>8,.0f} a CPU second   peak memory +{grown:.1f} MiB")


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
