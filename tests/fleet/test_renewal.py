"""Keys of SuperNodes on managed clusters are replaced when they are due and no run is under way."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from flower_operator.control import ControlClient
from flower_operator.flower.control import Run
from flower_operator.trust.keys import KEY_LIFE, Term, term_of
from tests.cluster.federations import Namespace, condition, wait_until
from tests.cluster.test_operator_identity import Site
from tests.fleet.test_identity import agent, held, keyed_manifest, keyed_site, private_keys
from tests.harness.open_cluster_management import Hub
from tests.harness.operator_process import OperatorProcess

RUNNING = [Run(1, "running", "")]


def due_if_made_before(moment: datetime) -> Callable[[datetime, timedelta | None], Term]:
    """As if those keys were KEY_LIFE old."""

    def term(made: datetime, max_wait: timedelta | None) -> Term:
        return term_of(made - KEY_LIFE if made <= moment else made, max_wait)

    return term


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
    runs = list(RUNNING)

    async def say(client: ControlClient) -> list[Run]:
        return runs

    monkeypatch.setattr(ControlClient, "runs", say)
    monkeypatch.setattr("flower_operator.operator.connections.SELDOM", 0.5)
    with keyed_site(fleet, namespace, operator, "north") as site:
        site.start_superlink()
        with agent(site, north):
            wait_until(lambda: bool(private_keys(north, namespace)), "no key")
            wait_until(lambda: not held(north, namespace), lambda: site.said())
            before = private_keys(north, namespace)
            start_supernode(site, *before.values())
            namespace.wait_until_ready("lab")

            # The operator writes down whole seconds.
            now = datetime.now(UTC)
            wait_until(lambda: datetime.now(UTC) > now + timedelta(seconds=1), "time stands still")
            monkeypatch.setattr("flower_operator.fleet.keys.term_of", due_if_made_before(now))
            document = keyed_manifest()
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
