"""How fast Federations become objects, on one core, and whether memory stays flat."""

import json
import resource
import time
from collections.abc import Callable
from typing import Any

from flower_operator.api.manifest import parse
from flower_operator.render import Facts, render

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


def main() -> None:
    documents = [document(number) for number in range(COUNT)]
    federations = [parse(each) for each in documents[:100]]
    text = json.dumps(render(federations[0], Facts()).objects)
    print(f"{COUNT:,} Federations of {POOLS} pools, one core; the floor reads the objects as JSON")
    report("floor: objects from JSON", lambda number: json.loads(text))
    report("parse and validate", lambda number: parse(documents[number]))
    report("render", lambda number: render(federations[number % 100], Facts()))
    report("parse and render", lambda number: render(parse(documents[number]), Facts()))


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
