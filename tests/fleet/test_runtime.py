"""SuperNodes and SuperExecs of a managed cluster know each other by what is made there."""

import ssl
import sys
from pathlib import Path

from flower_operator.kube.resources import DEPLOYMENT, POD, SECRET
from flower_operator.render.node_config import INDEX
from flower_operator.trust.layout import decode_secret
from tests.cluster.federations import Document, Namespace, wait_until
from tests.fleet.federations import fleet_manifest, listed, placed, select
from tests.fleet.test_identity import AGENT, agent_account
from tests.harness.managed_cluster import ManagedCluster
from tests.harness.open_cluster_management import Hub
from tests.harness.processes import ProcessGroup

RELEASE = "1.41.0"
NAME = "lab-supernode-edge-runtime"


def test_supernodes_and_superexecs_are_introduced_where_they_run(
    fleet: Hub, namespace: Namespace, tmp_path: Path
) -> None:
    select(namespace, tier="edge")
    images = {"superexecClientApp": f"flwr/superexec:{RELEASE}"}
    namespace.apply(
        fleet_manifest(
            "lab",
            version=RELEASE,
            isolationMode="process",
            insecure=False,
            superlink={"superexecImage": f"flwr/superexec:{RELEASE}"},
            pools=[placed(images=images)],
        )
    )
    north = fleet.clusters["north"]
    kubeconfig = agent_account(north, namespace)
    with ProcessGroup() as group:
        command = [sys.executable, "-m", "flower_operator", *arguments_of_agent(north, namespace)]
        group.start("agent", ["env", f"KUBECONFIG={kubeconfig}", *command])
        wait_until(lambda: bool(runtime(north, namespace)), "nobody makes it")
    files = runtime(north, namespace)
    assert set(files) == {"ca.crt", "tls.crt", "tls.key", "secret"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    shake_hands(tmp_path, address_of_supernode(north, namespace))

    everything = fleet.plane.kubectl(
        "get", "configmaps,secrets,manifestworks", "-A", "-o", "json"
    ).stdout
    assert files["secret"] not in everything
    assert NAME in everything  # as what pods mount there


def arguments_of_agent(cluster: ManagedCluster, namespace: Namespace) -> list[str]:
    path = DEPLOYMENT.path(namespace.name, AGENT)
    wait_until(lambda: cluster.plane.request("GET", path)[0] == 200, "no agent")
    (container,) = cluster.plane.request("GET", path)[1]["spec"]["template"]["spec"]["containers"]
    arguments: list[str] = container["args"]
    return arguments


def runtime(cluster: ManagedCluster, namespace: Namespace) -> dict[str, str]:
    status, answer = cluster.plane.request("GET", SECRET.path(namespace.name, NAME))
    return decode_secret(answer["data"]) if status == 200 else {}


def address_of_supernode(cluster: ManagedCluster, namespace: Namespace) -> str:
    """By which the SuperExec of the first pod connects, without the port."""

    def pods() -> list[Document]:
        every = listed(cluster.plane, POD, namespace.name)
        return [each for each in every if each["metadata"]["name"].endswith("superexec-edge-0")]

    wait_until(lambda: bool(pods()), lambda: str(listed(cluster.plane, POD, namespace.name)))
    (container,) = pods()[0]["spec"]["containers"]
    flag = container["args"].index("--runtime-api-address")
    address: str = container["args"][flag + 1]
    return address.partition(":")[0].replace(f"$({INDEX})", "0")


def shake_hands(folder: Path, name: str) -> None:
    """As a client that trusts ca.crt alone, with a server of that name."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    client_side = ssl.create_default_context(cafile=folder / "ca.crt")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(there, back, server_side=True)
    client = client_side.wrap_bio(back, there, server_hostname=name)
    waiting = [client, server]
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)
