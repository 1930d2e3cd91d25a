"""What a managed cluster may do on the hub: nothing to others."""

import json
import os
import subprocess

import pytest

from flower_operator.fleet.addon import place_of
from flower_operator.fleet.resources import WORK
from tests.cluster.federations import Document, Namespace, wait_until
from tests.fleet.federations import fleet_manifest, select
from tests.harness.binaries import binary
from tests.harness.open_cluster_management import Hub


def as_south(fleet: Hub, *arguments: str) -> subprocess.CompletedProcess[str]:
    """kubectl with what the agent of a managed cluster has on the hub."""
    cluster = fleet.clusters["south"]
    settings = {"KUBECONFIG": str(cluster.hub_kubeconfig), "KUBERC": "off"}
    command = [str(binary("kubectl")), f"--cache-dir={fleet.plane.folder}/south", *arguments]
    return subprocess.run(
        command,
        env=os.environ | settings,
        cwd=cluster.hub_kubeconfig.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def tell_as_south(fleet: Hub, work: Document) -> subprocess.CompletedProcess[str]:
    """Write the status of a work as an agent does; kubectl's patch would ask for it first, which
    no agent may."""
    file = fleet.plane.folder / "told.json"
    file.write_text(json.dumps(work))
    metadata = work["metadata"]
    path = f"{WORK.path(metadata['namespace'], metadata['name'])}/status"
    return as_south(fleet, "replace", "--raw", path, "-f", str(file))


@pytest.fixture
def addon(fleet: Hub, namespace: Namespace) -> str:
    select(namespace)
    namespace.apply(fleet_manifest())
    namespace.wait_until_ready("fed")
    return place_of(namespace.name, "fed", "edge").addon


def test_a_cluster_sees_its_own_works(fleet: Hub, addon: str) -> None:
    """Or else that it is refused elsewhere would prove nothing."""
    answer = as_south(fleet, "get", "manifestworks", "-n", "south", "-o", "name")
    assert addon in answer.stdout, answer.stderr


@pytest.mark.parametrize(
    "kind", ["addondeploymentconfigs", "managedclusteraddons", "manifestworks", "secrets"]
)
def test_a_cluster_cannot_read_or_change_what_is_anothers(
    fleet: Hub, namespace: Namespace, addon: str, kind: str
) -> None:
    name = f"addon-{addon}-deploy-0" if kind == "manifestworks" else addon
    patch = json.dumps({"metadata": {"labels": {"mine": "yes"}}})
    for command in (
        ["get", kind, name, "-n", "north"],
        ["get", kind, "-n", "north"],
        ["patch", kind, name, "-n", "north", "--type=merge", "-p", patch],
        ["delete", kind, name, "-n", "north"],
    ):
        answer = as_south(fleet, *command)
        assert answer.returncode != 0, answer.stdout
        assert "Forbidden" in answer.stderr or "forbidden" in answer.stderr, answer.stderr


def test_a_cluster_cannot_speak_for_another(fleet: Hub, namespace: Namespace, addon: str) -> None:
    """What the hub believes of keys is what is in the status of a cluster's own work."""

    def tell(cluster: str) -> subprocess.CompletedProcess[str]:
        path = WORK.path(cluster, f"addon-{addon}-deploy-0")
        return tell_as_south(fleet, fleet.plane.request("GET", path)[1])

    # Its agent may have written in between.
    wait_until(lambda: tell("south").returncode == 0, lambda: tell("south").stderr)
    answer = tell("north")
    assert answer.returncode != 0
    assert "forbidden" in answer.stderr.lower(), answer.stderr


def test_a_cluster_sees_nothing_of_federations(
    fleet: Hub, namespace: Namespace, addon: str
) -> None:
    for kind in ("federations", "configmaps", "secrets", "addontemplates"):
        answer = as_south(fleet, "get", kind, "-n", namespace.name)
        assert answer.returncode != 0, answer.stdout
        assert "forbidden" in answer.stderr.lower(), answer.stderr
