"""Federations on real containers, from the manifest to the result of a run."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flower_operator.flower.releases import Release
from tests.cluster.federations import Namespace
from tests.harness.binaries import binary
from tests.harness.waiting import wait_for
from tests.local.machine import expected_reports, federation
from tests.node.conftest import RELEASES
from tests.node.training import App, forwarded, result_in, train

Document = dict[str, Any]

QUICK_START = """
apiVersion: flwr.exalsius.ai/v1
kind: Federation
metadata:
  name: my-federation
spec:
  mode: StatefulSet
  isolationMode: subprocess

  superlink:
    image: flwr/superlink:1.25.0
    service:
      type: ClusterIP

  supernodes:
    image: flwr/supernode:1.25.0
    pools:
      - name: default
        replicas: 2
"""


def test_the_quick_start_word_for_word(namespace: Namespace, tmp_path: Path) -> None:
    kubectl = [str(binary("kubectl")), "--kubeconfig", str(namespace.cluster.kubeconfig)]
    kubectl += ["--namespace", namespace.name]
    manifest = tmp_path / "my-federation.yaml"
    manifest.write_text(QUICK_START)
    subprocess.run([*kubectl, "apply", "-f", str(manifest)], check=True)
    namespace.wait_until_ready("my-federation", timeout=120)
    table = subprocess.run(
        [*kubectl, "get", "fedf", "my-federation"], capture_output=True, text=True, check=True
    ).stdout
    titles, row = (re.split(r"\s{2,}", line.strip()) for line in table.splitlines())
    assert titles == ["NAME", "MODE", "ISOLATION", "SUPERNODES", "READY", "AGE"]
    assert row[:5] == ["my-federation", "StatefulSet", "subprocess", "2/2", "True"]
    app = App(tmp_path, Release(1, 25))
    with forwarded(namespace, "my-federation-superlink") as address:
        app.connect("remote-federation", address)
        output = app.run("remote-federation")
    assert result_in(output)["reports"] == [{}], "no node config is in this manifest"


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_pools_train_each_with_its_own_part_of_the_data(
    namespace: Namespace, tmp_path: Path, release: Release
) -> None:
    documents = [federation(each, str(release), each) for each in ("process", "subprocess")]
    for name, result in train_all(namespace, release, tmp_path, documents).items():
        assert result["model"] == [0.5, 0.5, 0.5], "the mean of partitions 0 and 1"
        reports = sorted(result["reports"], key=lambda report: report["partition-id"])
        assert reports == expected_reports()
        assert namespace.federation(name)["status"]["release"] == str(release)
        wait_until_connected(namespace, name)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_a_supernode_on_every_node_trains(
    namespace: Namespace, tmp_path: Path, release: Release
) -> None:
    documents = [federation(each, str(release), each) for each in ("process", "subprocess")]
    for document in documents:
        document["spec"]["mode"] = "DaemonSet"
        for pool in document["spec"]["supernodes"]["pools"]:
            del pool["replicas"]
            pool["nodeConfig"] = {"partition-id": "3", "place": "{node}", "pool": "{pool}"}
    for result in train_all(namespace, release, tmp_path, documents).values():
        assert sorted(result["reports"], key=lambda report: report["pool"]) == [
            {"partition-id": 3, "place": "node", "pool": "north"},
            {"partition-id": 3, "place": "node", "pool": "south"},
        ]


def train_all(
    namespace: Namespace, release: Release, folder: Path, documents: list[Document]
) -> dict[str, Document]:
    """What the report app printed on each of these Federations, all at once."""

    def make_and_train(document: Document) -> Document:
        name = document["metadata"]["name"]
        namespace.apply(document)
        namespace.wait_until_ready(name, timeout=120)
        own = folder / name
        own.mkdir()
        return train(namespace, name, release, own)

    names = [document["metadata"]["name"] for document in documents]
    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(make_and_train, documents), strict=True))


def wait_until_connected(namespace: Namespace, name: str) -> None:
    """By the account of the SuperLink, which the operator asks from its own pod."""
    wait_for(
        lambda: namespace.federation(name)["status"].get("connectedSupernodes") == 2,
        lambda: f"not connected: {namespace.federation(name)['status']}",
        timeout=60,
    )
