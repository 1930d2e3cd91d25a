"""Every example becomes Ready on a cluster that has what it asks for, and goes away again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.manifests import EXAMPLES
from tests.cluster.federations import Document, Namespace, wait_until
from tests.harness.control_plane import ControlPlane
from tests.harness.releases import extended_unless

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture(scope="module", autouse=True)
def provisions(cluster: ControlPlane) -> Iterator[None]:
    """GPUs on the nodes, what the examples select them by, and a volume for every claim."""
    nodes = cluster.kubectl("get", "nodes", "-o", "name").stdout.split()
    gpus = {"nvidia.com/gpu": "8", "amd.com/gpu": "8"}
    for number, node in enumerate(nodes):
        path = f"/api/v1/{node.replace('node/', 'nodes/')}/status"
        status, answer = cluster.request(
            "PATCH", path, {"status": {"capacity": gpus, "allocatable": gpus}}
        )
        assert status == 200, answer
        pool = f"flower.ai/pool={'ab'[number % 2]}"
        cluster.kubectl("label", node, pool, "accelerator=nvidia", "--overwrite")
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(runtime))
    yield
    cluster.kubectl("delete", "runtimeclass", "nvidia")
    for node in nodes:
        cluster.kubectl("label", node, "flower.ai/pool-", "accelerator-")


def volume(name: str, claim: dict[str, Any], namespace: str, size: str) -> Document:
    """A volume for one claim, of the class that it asks for."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": claim["accessModes"],
            "hostPath": {"path": "/nowhere"},
            "storageClassName": claim.get("storageClassName", ""),
            "claimRef": {"namespace": namespace, "name": name.partition(".")[2]},
        },
    }


@pytest.mark.parametrize(
    "path",
    extended_unless(
        [EXAMPLES / f"federation-{name}.yaml" for name in ("newest", "secure", "volumes")],
        sorted(EXAMPLES.glob("*.yaml")),
    ),
    ids=lambda path: path.stem,
)
def test_an_example_becomes_ready_and_goes_away(namespace: Namespace, path: Path) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    namespace.cluster.kubectl("label", "namespace", namespace.name, label)
    documents = [each for each in yaml.safe_load_all(path.read_text()) if each]
    federations = [each for each in documents if each["kind"] == "Federation"]
    for document in federations:
        make_claims(namespace, document)
        namespace.apply(document)
    for document in federations:
        name = document["metadata"]["name"]
        if document["spec"].get("supernodeAuth", {}).get("enabled"):
            # Nothing here answers for the SuperLink, so that its SuperNodes are made, and wait.
            namespace.wait_for_condition(name, "Ready", "False", "WaitingForKey")
            continue
        federation = namespace.wait_until_ready(name)
        ready, desired = federation["status"]["supernodes"].split("/")
        assert ready == desired != "0"
        printed = namespace.cluster.kubectl("get", "fedf", name, "-n", namespace.name).stdout
        assert printed.split("\n")[0].split() == [
            "NAME",
            "MODE",
            "ISOLATION",
            "SUPERNODES",
            "READY",
            "AGE",
        ]
        assert "True" in printed
    namespace.wait_until_as_rendered(*federations)
    for document in federations:
        namespace.delete(document["metadata"]["name"])
    wait_until(lambda: not namespace.children() and not namespace.pods(), "something is left")


def make_claims(namespace: Namespace, document: Document) -> None:
    """Claims that an example takes for granted, and volumes for those that it brings."""
    name = document["metadata"]["name"]
    spec = document["spec"]
    parts = [(f"{name}-superlink", 1, spec["superlink"])]
    parts += [
        (f"{name}-supernode-{pool['name']}", pool.get("replicas", 0), pool)
        for pool in spec["supernodes"]["pools"]
    ]
    if persistence := spec["superlink"].get("persistence"):
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": persistence["size"]}},
        }
        make_volume(namespace, f"state-{name}-superlink-0", wanted)
    for workload, replicas, part in parts:
        for template in part.get("volumeClaimTemplates", []):
            for index in range(replicas):
                claim = f"{template['metadata']['name']}-{workload}-{index}"
                make_volume(namespace, claim, template["spec"])
        for each in part.get("volumes", []):
            if wanted := each.get("persistentVolumeClaim"):
                make_claim(namespace, wanted["claimName"])


def make_claim(namespace: Namespace, name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeName": f"{namespace.name}.{name}",
    }
    claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": name}}
    text = yaml.safe_dump(claim | {"spec": spec})
    namespace.cluster.kubectl("apply", "-n", namespace.name, "-f", "-", input=text)
    make_volume(namespace, name, spec)


def make_volume(namespace: Namespace, claim: str, spec: Document) -> None:
    size = spec["resources"]["requests"]["storage"]
    made = volume(f"{namespace.name}.{claim}", spec, namespace.name, size)
    namespace.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(made))
