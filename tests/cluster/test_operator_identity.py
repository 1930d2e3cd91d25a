"""Keys of SuperNodes: made and registered by the operator, at a real SuperLink."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from flower_operator.control import ControlError, Node
from tests.cluster.federations import Document, Namespace, condition, manifest, wait_until
from tests.cluster.test_operator_connected import controller
from tests.harness.control_plane import ControlPlane
from tests.harness.ports import free_port
from tests.harness.processes import ProcessGroup
from tests.local.test_control_api import Stage

pytestmark = pytest.mark.extended

GATE = "flower.flwr.ai/key"


class Site:
    """A Federation whose pods are kwok's, and a SuperLink and SuperNodes that are real."""

    def __init__(self, room: Namespace, stage: Stage) -> None:
        self.room = room
        self.stage = stage
        for port in {stage.dialect.control.port, stage.dialect.fleet.port}:
            stage.ports[str(port)] = str(free_port())

    @property
    def keys(self) -> dict[str, str]:
        """Private keys by SuperNode, as the pods would mount them."""
        files = self.room.secret("lab-supernode-default-keys")
        return {name: text for name, text in files.items() if name != "record.json"}

    def start_superlink(self) -> None:
        for file, text in self.room.secret("lab-superlink-tls").items():
            (self.stage.folder / file).write_text(text)
        self.stage.start_superlink("subprocess")

    def start_supernode(self, name: str) -> None:
        key = load_ssh_private_key(self.keys[name].encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self.node = self.stage.start_supernode(f"node-{name}", key)

    def held(self) -> set[str]:
        return {
            pod["metadata"]["name"]
            for pod in self.supernodes()
            if {"name": GATE} in pod["spec"].get("schedulingGates", [])
        }

    def supernodes(self) -> list[Document]:
        return [each for each in self.room.pods() if "supernode" in each["metadata"]["name"]]

    def nodes(self) -> list[Node]:
        async def ask() -> list[Node]:
            client = self.stage.client()
            try:
                return await client.nodes()
            finally:
                await client.close()

        return asyncio.run(ask())

    def answers(self) -> bool:
        try:
            self.nodes()
        except ControlError:
            return False
        return True

    def wait_for_statuses(self, **wanted: int) -> None:
        """Until the SuperLink knows so many SuperNodes of each status, and no others."""
        wait_until(
            lambda: Counter(node.status for node in self.nodes()) == wanted,
            lambda: f"{self.nodes()}; {self.said()}",
        )

    def said(self) -> str:
        return str(condition(self.room.federation("lab"), "Ready"))


@pytest.fixture
def room(plane: ControlPlane) -> Iterator[Namespace]:
    with Namespace.new(plane) as room:
        yield room


def authenticated(mode: str, release: str, replicas: int | None) -> Document:
    pool: Document = {"name": "default"}
    if replicas:
        pool["replicas"] = replicas
    security = {"insecure": False, "supernodeAuth": {"enabled": True, "allowSubprocess": True}}
    return manifest("lab", mode=mode, version=release, pools=[pool], **security)


def test_supernodes_wait_for_their_keys_and_lose_them_for_ever(
    plane: ControlPlane, room: Namespace
) -> None:
    with ProcessGroup() as group:
        site = Site(room, Stage("1.41.0", group, secure=True))
        with controller(plane, site.stage.control):
            room.apply(authenticated("StatefulSet", "1.41.0", 2))
            # kwok has the SuperLink's pod ready although there is none that answers yet.
            room.wait_for_condition("lab", "Ready", "False", "WaitingForKey")
            wait_until(lambda: len(site.held()) == 2, lambda: f"pods are not held: {site.said()}")
            assert set(site.keys) == {"0", "1"}

            site.start_superlink()
            wait_until(lambda: not site.held(), lambda: f"pods are held: {site.said()}")
            assert {node.status for node in site.nodes()} == {"registered"}
            assert {node.name for node in site.nodes()} == {"default-0", "default-1"}
            for name in site.keys:
                site.start_supernode(name)
            room.wait_until_ready("lab")

            before = site.keys
            room.apply(authenticated("StatefulSet", "1.41.0", 1))
            site.wait_for_statuses(online=1, unregistered=1)
            assert site.keys == {"0": before["0"]}
            room.apply(authenticated("StatefulSet", "1.41.0", 2))
            wait_until(lambda: "1" in site.keys and not site.held(), lambda: site.said())
            assert site.keys["1"] != before["1"]

            # Keys that are lost let nobody in any more.
            lost = site.keys
            path = f"/api/v1/namespaces/{room.name}/secrets/lab-supernode-default-keys"
            assert plane.request("DELETE", path)[0] == 200
            site.wait_for_statuses(registered=2, unregistered=3)
            assert not set(lost.values()) & set(site.keys.values())

            # Nor do those of a pool that is gone.
            other = authenticated("StatefulSet", "1.41.0", 2)
            other["spec"]["supernodes"]["pools"][0]["name"] = "other"
            room.apply(other)
            site.wait_for_statuses(registered=2, unregistered=5)
            wait_until(lambda: not site.keys, "the keys stay")


def test_a_pod_waits_until_its_predecessor_is_missed(plane: ControlPlane, room: Namespace) -> None:
    with ProcessGroup() as group:
        site = Site(room, Stage("1.25.0", group, secure=True))
        with controller(plane, site.stage.control):
            document = authenticated("DaemonSet", "1.25.0", None)
            one_node = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}}
            document["spec"]["supernodes"]["pools"][0]["podTemplate"] = one_node
            room.apply(document)
            wait_until(lambda: len(site.held()) == 1, lambda: f"no pod is held: {site.said()}")
            site.start_superlink()
            wait_until(lambda: not site.held(), lambda: f"the pod is held: {site.said()}")
            (name,) = site.keys
            (pod,) = site.supernodes()
            assert pod["spec"]["nodeName"] == name
            site.start_supernode(name)
            room.wait_until_ready("lab")

            site.node.process.kill()
            path = f"/api/v1/namespaces/{room.name}/pods/{pod['metadata']['name']}"
            assert plane.request("DELETE", f"{path}?gracePeriodSeconds=0")[0] == 200
            federation = room.wait_for_condition("lab", "Ready", "False", "WaitingForKey")
            assert "predecessor" in condition(federation, "Ready")["message"]
            assert condition(federation, "Degraded")["status"] == "False"
            assert len(site.held()) == 1
            wait_until(lambda: not site.held(), lambda: site.said(), timeout=150)
            assert list(site.keys) == [name]
            site.start_supernode(name)
            room.wait_until_ready("lab")
