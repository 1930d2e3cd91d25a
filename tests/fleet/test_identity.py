"""Keys of SuperNodes on managed clusters: made there, known to a real SuperLink, and retired."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)

from flower_operator.fleet.addon import place_of
from flower_operator.fleet.agent import PUBLIC_FILE
from flower_operator.fleet.resources import WORK
from flower_operator.kube.resources import CONFIG_MAP, POD
from flower_operator.trust.layout import decode_secret
from tests.cluster.federations import Document, Namespace, wait_until
from tests.cluster.test_operator_connected import controller
from tests.cluster.test_operator_identity import GATE, Site
from tests.fleet.federations import fleet_manifest, label, left_on, listed, placed, select
from tests.harness.managed_cluster import ManagedCluster
from tests.harness.open_cluster_management import Hub
from tests.harness.operator_process import OperatorProcess
from tests.harness.processes import ProcessGroup, ServerProcess
from tests.local.test_control_api import Stage

RELEASE = "1.41.0"
AGENT = "lab-keys-edge"


def supernodes(cluster: ManagedCluster, namespace: Namespace) -> list[Document]:
    return [
        each
        for each in listed(cluster.plane, POD, namespace.name)
        if each["metadata"]["name"].startswith("lab-supernode-")
    ]


def held(cluster: ManagedCluster, namespace: Namespace) -> bool:
    found = supernodes(cluster, namespace)
    return not found or any(
        {"name": GATE} in each["spec"].get("schedulingGates", []) for each in found
    )


def secret(cluster: ManagedCluster, namespace: Namespace) -> dict[str, str]:
    path = f"/api/v1/namespaces/{namespace.name}/secrets/lab-supernode-edge-keys"
    status, answer = cluster.plane.request("GET", path)
    return decode_secret(answer["data"]) if status == 200 else {}


def private_keys(cluster: ManagedCluster, namespace: Namespace) -> dict[str, str]:
    files = secret(cluster, namespace)
    return {uid: text for uid, text in files.items() if uid != PUBLIC_FILE}


def keyed_manifest() -> Document:
    """A Federation whose SuperNodes, one on each cluster, have keys."""
    security = {"insecure": False, "supernodeAuth": {"enabled": True, "allowSubprocess": True}}
    return fleet_manifest("lab", version=RELEASE, pools=[placed(replicas=1)], **security)


@contextmanager
def keyed_site(
    fleet: Hub, namespace: Namespace, operator: OperatorProcess, *clusters: str
) -> Iterator[Site]:
    """Such a Federation on these clusters, where nobody has a key yet, and an operator that can
    reach its SuperLink."""
    for name in clusters:
        label(fleet, name, keyed="yes")
    select(namespace, keyed="yes")
    operator.stop()  # it cannot reach a SuperLink from here
    try:
        with ProcessGroup() as group:
            site = Site(namespace, Stage(RELEASE, group, secure=True))
            with controller(fleet.plane, site.stage.control, fleet=True):
                namespace.apply(keyed_manifest())
                namespace.wait_for_condition("lab", "Ready", "False", "Placing")
                yield site
            namespace.delete("lab")
    finally:
        operator.restart()
        for name in clusters:
            label(fleet, name, keyed=None)


@contextmanager
def agent(site: Site, cluster: ManagedCluster) -> Iterator[None]:
    """What kwok's pod of the addon would run, with the rights that the addon gives it."""
    kubeconfig = str(agent_account(cluster, site.room))
    server = start_agent(site.stage.group, f"agent-{cluster.name}", kubeconfig, site.room.name)
    yield
    server.stop()


def agent_account(cluster: ManagedCluster, namespace: Namespace) -> Path:
    account = f"/api/v1/namespaces/{namespace.name}/serviceaccounts/{AGENT}"
    wait_until(lambda: cluster.plane.request("GET", account)[0] == 200, "no ServiceAccount")
    return cluster.plane.kubeconfig_for_service_account(namespace.name, AGENT)


def start_agent(group: ProcessGroup, name: str, kubeconfig: str, namespace: str) -> ServerProcess:
    command = ["env", f"KUBECONFIG={kubeconfig}", sys.executable, "-m", "flower_operator", "agent"]
    command += ["--namespace", namespace, "--federation", "lab", "--pool", "edge"]
    return group.start(name, command)


def test_keys_are_made_where_they_are_used_and_never_leave(
    fleet: Hub, namespace: Namespace, operator: OperatorProcess
) -> None:
    north, south = fleet.clusters["north"], fleet.clusters["south"]
    with (
        keyed_site(fleet, namespace, operator, "north", "south") as site,
        agent(site, north),
        agent(site, south),
    ):
        wait_until(lambda: bool(private_keys(north, namespace)), "no key on north")
        assert held(north, namespace)

        site.start_superlink()
        wait_until(
            lambda: not held(north, namespace) and not held(south, namespace),
            lambda: f"pods are held: {site.said()}",
        )
        names = {str(node.name).partition("-")[0] for node in site.nodes()}
        assert names == {"edge@north", "edge@south"}
        for cluster in (north, south):
            (text,) = private_keys(cluster, namespace).values()
            key = load_ssh_private_key(text.encode(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            site.stage.start_supernode(f"node-{cluster.name}", key)
        federation = namespace.wait_until_ready("lab")
        (pool,) = federation["status"]["pools"]
        assert [each["connected"] for each in pool["clusters"]] == [1, 1]
        assert_no_private_key_left(fleet, north, namespace)

        # A pod that is made anew has a new key, and the old one is worth nothing.
        before = private_keys(north, namespace)
        (pod,) = supernodes(north, namespace)
        north.plane.request("DELETE", f"{POD.path(namespace.name)}/{pod['metadata']['name']}")
        wait_until(
            lambda: (
                before.keys().isdisjoint(private_keys(north, namespace))
                and not held(north, namespace)
            ),
            lambda: f"no new key: {site.said()}",
        )
        site.wait_for_statuses(online=1, registered=1, unregistered=1)

        # A cluster that is not selected any more is not let in any more.
        label(fleet, "south", keyed=None)
        site.wait_for_statuses(registered=1, unregistered=2)
        wait_until(lambda: not left_on(south.plane, namespace), "left on south")
        wait_until(lambda: not secret(south, namespace), "the keys stay on south")


def test_a_cluster_that_reports_a_thousand_keys_gets_none_of_them_registered(
    fleet: Hub, namespace: Namespace, operator: OperatorProcess
) -> None:
    """Whoever rules a managed cluster writes what it likes into the report there."""
    south = fleet.clusters["south"].plane
    report = f"{CONFIG_MAP.path(namespace.name)}/lab-supernode-edge-report"
    body = "-----BEGIN PUBLIC KEY-----\n{:064}\n-----END PUBLIC KEY-----\n"
    keys = json.dumps({str(at): body.format(at) for at in range(1000)})
    with keyed_site(fleet, namespace, operator, "south") as site:
        site.start_superlink()
        wait_until(lambda: south.request("GET", report)[0] == 200, "no report on south")
        assert south.request("PATCH", report, {"data": {"keys": keys}})[0] == 200
        namespace.wait_for_condition("lab", "Degraded", "True", "TooManyKeys")
        assert "cluster south reports 1000 keys for at most 1 SuperNode" in site.said()
        wait_until(site.answers, "the SuperLink does not answer")
        assert site.nodes() == []
        key, text = ec.generate_private_key(ec.SECP256R1()), PublicFormat.SubjectPublicKeyInfo
        keys = json.dumps({"pod": key.public_key().public_bytes(Encoding.PEM, text).decode()})
        assert south.request("PATCH", report, {"data": {"keys": keys}})[0] == 200
        site.wait_for_statuses(registered=1)


def assert_no_private_key_left(fleet: Hub, cluster: ManagedCluster, namespace: Namespace) -> None:
    """Nothing of it is on the hub, where only the public half may be."""
    (text,) = private_keys(cluster, namespace).values()
    inner = "".join(text.splitlines()[1:-1])[:60]
    addon = place_of(namespace.name, "lab", "edge").addon
    works = [each for each in listed(fleet.plane, WORK, cluster.name) if addon in str(each)]
    assert works
    everything = fleet.plane.kubectl(
        "get", "configmaps,secrets,manifestworks,federations", "-A", "-o", "json"
    ).stdout
    assert inner not in everything
    assert "BEGIN OPENSSH PRIVATE KEY" not in str(works)
