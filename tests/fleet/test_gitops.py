"""What a repository holds for a fleet, on a real hub."""

import json
from collections.abc import Iterator

import pytest
import yaml
from click.testing import CliRunner

from flower_operator.cli import main
from flower_operator.fleet.resources import ADDON_GROUP, WORK_GROUP
from scripts.manifests import FLEET
from tests.harness.open_cluster_management import Hub
from tests.harness.waiting import wait_for

NAMESPACE = "flower-system"
GROUP = "cluster.open-cluster-management.io"
DECISIONS = f"/apis/{GROUP}/v1beta1/namespaces/{NAMESPACE}/placementdecisions"


@pytest.fixture(scope="module")
def placements(fleet: Hub) -> Iterator[None]:
    """Those of the example, with one cluster for the Placement gpu."""
    path = str(FLEET.parent / "placements.yaml")
    fleet.plane.kubectl("label", "managedcluster", "north", "gpu=true")
    fleet.plane.kubectl("apply", "-f", path, "--validate=strict")
    yield
    fleet.plane.kubectl("label", "managedcluster", "north", "gpu-")
    fleet.plane.kubectl("delete", "-f", path)


@pytest.mark.usefixtures("placements")
def test_the_placements_of_the_example_select_clusters(fleet: Hub) -> None:
    def selected() -> dict[str, set[str]]:
        _, answer = fleet.plane.request("GET", DECISIONS)
        found: dict[str, set[str]] = {}
        for page in answer["items"]:
            names = {each["clusterName"] for each in page.get("status", {}).get("decisions", [])}
            found.setdefault(page["metadata"]["labels"][f"{GROUP}/placement"], set()).update(names)
        return found

    def right() -> bool:
        found = selected()
        return found.get("gpu") == {"north"} and found.get("all", set()) >= {"north", "south"}

    wait_for(right, lambda: str(selected()), 30.0)


@pytest.mark.usefixtures("placements")
def test_a_hub_takes_what_is_printed_of_a_fleet(fleet: Hub) -> None:
    printed = CliRunner().invoke(main, ["render", "--fleet", str(FLEET)]).stdout
    objects = [
        each
        for each in yaml.safe_load_all(printed)
        if each["apiVersion"].partition("/")[0] in (ADDON_GROUP, WORK_GROUP)
    ]
    assert len(objects) == 4
    for each in objects:
        options = ("--dry-run=server", "--validate=strict")
        fleet.plane.kubectl("apply", "-f", "-", *options, input=json.dumps(each))
