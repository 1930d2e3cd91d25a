"""Keys of SuperNodes on managed clusters are replaced when they are due and no run is under way."""

import time
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from flower_operator.control import ControlClient
from flower_operator.flower.control import Run
from tests.cluster.federations import Namespace, condition, wait_until
from tests.cluster.test_operator_connected import controller
from tests.cluster.test_operator_identity import Site
from tests.fleet.federations import label, select
from tests.fleet.test_identity import RELEASE, agent, apply_with_keys, held, private_keys
from tests.harness.open_cluster_management import Hub
from tests.harness.operator_process import OperatorProcess
from tests.harness.processes import ProcessGroup
from tests.local.test_control_api import Stage

RUNNING = [Run(1, "running", "")]


def start_supernode(site: Site, text: str) -> None:
    key = load_ssh_private_key(text.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    site.stage.start_supernode("node", key)


def test_old_keys_are_replaced_when_the_run_has_ended(
    fleet: Hub,
    namespace: Namespace,
    operator: OperatorProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    north = fleet.clusters["north"]
    label(fleet, "north", renewed="yes")
    select(namespace, renewed="yes")
    runs = list(RUNNING)

    async def say(client: ControlClient) -> list[Run]:
        return runs

    monkeypatch.setattr(ControlClient, "runs", say)
    monkeypatch.setattr("flower_operator.operator.connections.SELDOM", 0.5)
    operator.stop()  # it cannot reach a SuperLink from here
    try:
        with ProcessGroup() as group:
            site = Site(namespace, Stage(RELEASE, group, secure=True))
            with controller(fleet.plane, site.stage.control, fleet=True):
                document = apply_with_keys(namespace)
                site.start_superlink()
                with agent(group, north, namespace):
                    began = time.monotonic()
                    wait_until(lambda: bool(private_keys(north, namespace)), "no key")
                    wait_until(lambda: not held(north, namespace), lambda: site.said())
                    before = private_keys(north, namespace)
                    start_supernode(site, *before.values())
                    namespace.wait_until_ready("lab")

                    # So old are the keys now; the next ones will not be for a while.
                    age = timedelta(seconds=time.monotonic() - began)
                    monkeypatch.setattr("flower_operator.trust.keys.KEY_LIFE", age)
                    document["metadata"]["labels"] = {"look": "again"}
                    namespace.apply(document)
                    wait_until(
                        lambda: (
                            "new keys of SuperNodes on 1 clusters wait"
                            in condition(namespace.federation("lab"), "Ready")["message"]
                        ),
                        lambda: f"nobody is told: {site.said()}",
                    )
                    assert private_keys(north, namespace) == before

                    runs.clear()
                    wait_until(
                        lambda: before.keys().isdisjoint(private_keys(north, namespace)),
                        lambda: f"it waits for ever: {site.said()}",
                    )
                    monkeypatch.undo()
                    wait_until(lambda: not held(north, namespace), lambda: site.said())
                    site.wait_for_statuses(registered=1, unregistered=1)
                    assert [each["reason"] for each in namespace.events("lab")].count("KeysDue")
            namespace.delete("lab")
    finally:
        operator.restart()
        label(fleet, "north", renewed=None)
