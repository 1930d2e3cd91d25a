"""One Federation over many clusters, beside Open Cluster Management's own way with the same addon.

The clusters are objects of the hub: nobody is there, so nothing becomes ready.

python -m bench.fleet [COUNT]
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flower_operator.api.manifest import parse
from flower_operator.fleet.addon import Route, addon_objects, place_of
from flower_operator.fleet.resources import ADDON, OWN, PLACEMENT_DECISION, WORK
from flower_operator.kube.resources import Resource
from flower_operator.render import Facts
from flower_operator.render.releases import find_releases
from tests.cluster.conftest import install_crd, install_roles
from tests.cluster.federations import Namespace
from tests.fleet.federations import bind, fleet_manifest, select
from tests.harness.control_plane import ControlPlane
from tests.harness.open_cluster_management import Hub
from tests.harness.operator_process import OperatorProcess
from tests.harness.waiting import wait_for

COUNT = 1000
REST_SECONDS = 60
GIVE_UP_SECONDS = 900.0
NAME = "fed"

Document = dict[str, Any]


def main(count: int = COUNT) -> None:
    print(f"One pool on {count:,} clusters of a hub, which are objects only")
    with _hub(count) as (hub, namespace):
        alone = _seconds(hub, count, lambda: _by_placement(namespace))
    with _hub(count) as (hub, namespace):
        _with_operator(hub, namespace, count, alone)


def _with_operator(hub: Hub, namespace: Namespace, count: int, alone: float) -> None:
    install_crd(hub.plane)
    account = install_roles(hub.plane, "addon.enable=true")
    with OperatorProcess(account, "--fleet") as operator:
        operator.wait_until_leading()
        token = hub.plane.token
        before = operator.writes(token)
        seconds = _seconds(hub, count, lambda: _by_federation(namespace))
        writes = operator.writes(token) - before
        _row("the same addon by OCM alone, s", f"{alone:.1f}")
        _row("by the operator, s", f"{seconds:.1f}")
        _row("  beside OCM alone", f"{seconds / alone:.2f} x")
        _row("writes of the operator for each cluster", f"{writes / count:.1f}")
        _row("operator CPU, s", f"{operator.cpu():.1f}")
        _wait_for_rest(operator, token)
        _row("operator memory, MiB", f"{operator.memory():.0f}")
        resting = operator.writes(token)
        time.sleep(REST_SECONDS)
        _row(f"writes at rest in {REST_SECONDS} s", f"{operator.writes(token) - resting}")
        before = operator.writes(token)
        _row("one more cluster, from decision to addon, s", f"{_joined(hub, namespace):.2f}")
        _wait_for_rest(operator, token)
        _row("  writes of that", f"{operator.writes(token) - before}")


@contextmanager
def _hub(count: int) -> Iterator[tuple[Hub, Namespace]]:
    with ControlPlane(controllers=True, nodes=1) as plane, Hub(plane) as hub:
        hub.seed(count, {"bench": "yes"})
        with Namespace.new(plane) as namespace:
            bind(namespace)
            yield hub, namespace


def _seconds(hub: Hub, count: int, start: Any) -> float:
    """From the start until every cluster has its work."""
    started = time.monotonic()
    start()
    wait_for(
        lambda: _number(hub.plane, WORK) >= count,
        lambda: f"{_number(hub.plane, WORK)} works, {_number(hub.plane, ADDON)} addons",
        GIVE_UP_SECONDS,
        interval=0.2,
    )
    return time.monotonic() - started


def _by_federation(namespace: Namespace) -> None:
    select(namespace, bench="yes")
    namespace.apply(fleet_manifest(NAME))


def _by_placement(namespace: Namespace) -> None:
    """The same template, with one config for all, which OCM gives to whom the Placement selects."""
    federation = parse(fleet_manifest(NAME))
    facts, route = Facts(namespace=namespace.name), Route("192.0.2.7", 30092)
    for each in addon_objects(federation, 0, facts, find_releases(federation), route, None):
        if each["kind"] == "ClusterManagementAddOn":
            placement = {"name": "edge", "namespace": namespace.name}
            strategy = {"type": "Placements", "placements": [placement]}
            each["spec"]["installStrategy"] = strategy
        _create(namespace.cluster, OWN[each["kind"]], each)
    select(namespace, bench="yes")


def _joined(hub: Hub, namespace: Namespace) -> float:
    """Seconds from OCM's decision to the addon of one more cluster."""
    (name,) = hub.seed(1, {"bench": "yes"}, prefix="late")
    addon = place_of(namespace.name, NAME, "edge").addon
    wait_for(lambda: _is_decided(hub, namespace, name), "no decision", 60, interval=0.02)
    decided = time.monotonic()
    path = ADDON.path(name, addon)  # its config comes before it
    wait_for(lambda: hub.plane.request("GET", path)[0] == 200, "no addon", 60, interval=0.02)
    return time.monotonic() - decided


def _is_decided(hub: Hub, namespace: Namespace, cluster: str) -> bool:
    _, answer = hub.plane.request("GET", PLACEMENT_DECISION.path(namespace.name))
    return f'"{cluster}"' in json.dumps(answer)


def _wait_for_rest(operator: OperatorProcess, token: str) -> None:
    """Until it has written nothing for five seconds."""
    last, since = operator.writes(token), time.monotonic()
    while time.monotonic() - since < 5:
        time.sleep(0.5)
        if (now := operator.writes(token)) != last:
            last, since = now, time.monotonic()


def _create(plane: ControlPlane, resource: Resource, document: Document) -> None:
    path = resource.path(document["metadata"].get("namespace"))
    status, answer = plane.request("POST", path, document)
    assert status == 201, answer


def _number(plane: ControlPlane, resource: Resource) -> int:
    _, answer = plane.request("GET", f"{resource.path()}?limit=1")
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount", 0))


def _row(title: str, figure: str) -> None:
    print(f"  {title:<46}{figure:>10}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
