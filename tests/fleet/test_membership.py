"""Clusters that join, leave, are lost, come back, and go for good."""

import random

from flower_operator.fleet.addon import place_of
from flower_operator.fleet.resources import ADDON, CONFIG, WORK
from tests.cluster.federations import Document, Namespace, condition, wait_until
from tests.fleet.federations import (
    SECONDS,
    fleet_manifest,
    label,
    left_on,
    left_on_hub,
    listed,
    select,
)
from tests.harness.open_cluster_management import Hub
from tests.harness.operator_process import OperatorProcess
from tests.harness.waiting import wait_for

STEPS = 50
SEEDED = 12


def clusters_of(federation: Document) -> dict[str, Document]:
    (pool,) = federation["status"]["pools"]
    return {each["name"]: each for each in pool.get("clusters", [])}


def configured(fleet: Hub, namespace: Namespace) -> dict[str, str]:
    """The partition in each cluster's config, by cluster."""
    addon = place_of(namespace.name, "fed", "edge").addon
    return {
        each["metadata"]["namespace"]: pair["value"]
        for each in listed(fleet.plane, CONFIG)
        if each["metadata"]["name"].startswith(f"{addon}-")
        for pair in each["spec"]["customizedVariables"]
        if pair["name"] == "PARTITION_ID"
    }


def test_a_lost_cluster_degrades_its_part_and_is_back_as_it_was(
    fleet: Hub, namespace: Namespace
) -> None:
    select(namespace)
    namespace.apply(fleet_manifest())
    namespace.wait_until_ready("fed")
    before = configured(fleet, namespace)
    north = fleet.clusters["north"]
    with north.lost():
        federation = namespace.wait_for_condition("fed", "Degraded", "True", "ClusterLost")
        assert "north" in condition(federation, "Degraded")["message"]
        found = clusters_of(federation)
        assert (found["north"]["addon"], found["north"]["ready"]) == ("Lost", 0)
        assert found["north"]["lastSeen"]
        assert (found["south"]["addon"], found["south"]["ready"]) == ("Available", 1)
    namespace.wait_until_ready("fed")
    assert configured(fleet, namespace) == before
    assert left_on(north.plane, namespace)


def test_nobody_waits_for_a_lost_cluster_and_it_clears_up_when_it_is_back(
    fleet: Hub, namespace: Namespace
) -> None:
    select(namespace)
    namespace.apply(fleet_manifest())
    namespace.wait_until_ready("fed")
    north = fleet.clusters["north"]
    with north.lost():
        namespace.wait_for_condition("fed", "Degraded", "True", "ClusterLost")
        namespace.delete("fed")
        path = f"/apis/flwr.exalsius.ai/v1/namespaces/{namespace.name}/federations/fed"
        wait_until(lambda: fleet.plane.request("GET", path)[0] == 404, "the Federation stays")
        assert left_on(north.plane, namespace)
    wait_until(lambda: not left_on(north.plane, namespace), "something stays on the cluster")
    wait_until(
        lambda: not left_on_hub(fleet, namespace), lambda: str(left_on_hub(fleet, namespace))
    )


def test_a_cluster_that_is_taken_out_of_the_fleet_leaves_its_number_to_the_next(
    fleet: Hub, namespace: Namespace
) -> None:
    select(namespace, role="guest")
    first, second = fleet.seed(2, {"role": "guest"}, prefix="guest")
    namespace.apply(fleet_manifest())
    wait_for(
        lambda: configured(fleet, namespace) == {first: "0", second: "1"},
        lambda: str(configured(fleet, namespace)),
        SECONDS,
    )
    path = f"/apis/cluster.open-cluster-management.io/v1/managedclusters/{first}"
    fleet.plane.request("DELETE", path)
    wait_for(
        lambda: configured(fleet, namespace) == {second: "1"},
        lambda: str(configured(fleet, namespace)),
        SECONDS,
    )
    (third,) = fleet.seed(1, {"role": "guest"}, prefix="late")
    wait_for(
        lambda: configured(fleet, namespace) == {second: "1", third: "0"},
        lambda: str(configured(fleet, namespace)),
        SECONDS,
    )
    for name in (second, third):
        label(fleet, name, role=None)


def test_in_a_storm_no_partition_is_given_twice_and_nothing_is_left(
    fleet: Hub, namespace: Namespace, operator: OperatorProcess
) -> None:
    """Clusters come and go, the operator is killed and the hub's managers are restarted."""
    chance = random.Random(7)
    names = fleet.seed(SEEDED, {"storm": "no"}, prefix="storm")
    select(namespace, storm="yes")
    namespace.apply(fleet_manifest())
    selected: set[str] = set()
    for step in range(STEPS):
        name = chance.choice(names)
        selected ^= {name}
        label(fleet, name, storm="yes" if name in selected else "no")
        if step % 20 == 10:
            fleet.restart_managers()
        if step % 20 == 15:
            operator.kill()
            operator.restart()
        given = configured(fleet, namespace)
        assert len(set(given.values())) == len(given), given
    wait_for(
        lambda: set(configured(fleet, namespace)) == selected,
        lambda: f"{selected} wanted: {configured(fleet, namespace)}",
        SECONDS,
    )
    given = configured(fleet, namespace)
    assert len(set(given.values())) == len(given)
    addon = place_of(namespace.name, "fed", "edge").addon
    wait_until(
        lambda: (
            {
                each["metadata"]["namespace"]
                for resource in (ADDON, WORK)
                for each in listed(fleet.plane, resource)
                if addon in each["metadata"]["name"]
            }
            == selected
        ),
        "addons or works are left",
    )
    for name in names:
        label(fleet, name, storm=None)
