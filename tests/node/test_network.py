"""NetworkPolicies on a network that heeds them: who reaches whom, and who does not."""

from typing import Any

from flower_operator.flower.releases import Release
from tests.cluster.federations import Namespace
from tests.harness.node import Node
from tests.harness.policies import Enforcer
from tests.harness.waiting import wait_for
from tests.local.machine import federation
from tests.node.conftest import RELEASES
from tests.node.test_lasting import PERSISTENCE, STORAGE_CLASS

Document = dict[str, Any]

PEER_PORT = 7000
HEALTH_PORT = 9097
SETTINGS = {
    "controlFrom": [{"podSelector": {"matchLabels": {"role": "analyst"}}}],
    "egress": [
        {
            "to": [{"podSelector": {"matchLabels": {"role": "store"}}}],
            "ports": [{"protocol": "TCP", "port": PEER_PORT}],
        }
    ],
}
CONNECT = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor

def reached(address):
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 3).close()
    except OSError:
        return False
    return True

addresses = sys.argv[1:]
with ThreadPoolExecutor(len(addresses)) as pool:
    print(*(each for each, there in zip(addresses, pool.map(reached, addresses)) if there))
"""


def test_nobody_reaches_more_than_they_need(node: Node, namespace: Namespace) -> None:
    """ServerApps are in pods of their own, and on 1.25 there is a relay for them."""
    cluster = namespace.cluster
    federations: dict[str, tuple[Release, Document]] = {
        "fed-1-25": (RELEASES[0], {}),
        "fed-1-41": (RELEASES[1], {}),
        "fed-gateway": (RELEASES[1], {"gateway": {"enabled": True}}),
    }
    names = list(federations)
    for name, (release, own) in federations.items():
        node.add_volume(STORAGE_CLASS)
        document = federation(name, str(release), "process", persistence=PERSISTENCE, **own)
        document["spec"] |= {"insecure": False, "networkPolicy": SETTINGS}
        namespace.apply(document)
    with Namespace.new(cluster) as elsewhere:
        start_peer(namespace, "analyst")
        start_peer(namespace, "store")
        start_peer(elsewhere, "analyst")
        for name in names:
            namespace.wait_until_ready(name, timeout=120)
        everything = {name: addresses(namespace, elsewhere, name) for name in names}
        for name, there in everything.items():
            for pod in (f"{name}-supernode-north-0", "analyst", f"deployment/{name}-serverapp"):
                wait_until_reached(namespace, pod, there)
            wait_until_reached(elsewhere, "analyst", there)
        with Enforcer(cluster):
            for name, there in everything.items():
                # From 1.40 on all APIs are on one port, unless a gateway has one for each.
                both = name == "fed-1-41"
                control, fleet, runtime = {"control"}, {"fleet"}, {"runtime"}
                of_node = fleet | {"store"} | (control | runtime if both else set())
                assert reached(namespace, f"{name}-supernode-north-0", there) == of_node
                of_analyst = control | (fleet | runtime if both else set())
                assert reached(namespace, "analyst", there) - OPEN == of_analyst
                of_serverapp = runtime | {"store"} | (fleet | control if both else set())
                assert reached(namespace, f"deployment/{name}-serverapp", there) == of_serverapp
                assert reached(elsewhere, "analyst", there) - OPEN == set()


def wait_until_reached(namespace: Namespace, pod: str, there: dict[str, str]) -> None:
    """Until it can connect to all but apps: a pod that is ready is not yet behind its Service."""
    expected, found = there.keys() - {"app"}, list[set[str]]()

    def is_reached() -> bool:
        found.append(reached(namespace, pod, there))
        return found[-1] == expected

    wait_for(is_reached, lambda: f"{pod} reaches {found[-1]}, not {expected}", timeout=30)


OPEN = {"store", "stranger", "api server"}
"""What no policy of the Federation is about, but for its own pods."""


def addresses(namespace: Namespace, elsewhere: Namespace, name: str) -> dict[str, str]:
    """What there is to connect to."""
    link = f"{name}-superlink.{namespace.name}.svc"
    return {
        "fleet": f"{link}:9092",
        "control": f"{link}:9093",
        "runtime": f"{link}:9091",
        "app": f"{address(namespace, f'{name}-supernode-south-0')}:9094",
        "node": f"{address(namespace, f'{name}-supernode-south-0')}:{HEALTH_PORT}",
        "store": f"{address(namespace, 'store')}:{PEER_PORT}",
        "stranger": f"{address(elsewhere, 'analyst')}:{PEER_PORT}",
        "api server": "kubernetes.default.svc:443",
    }


def reached(namespace: Namespace, pod: str, there: dict[str, str]) -> set[str]:
    """What a process in that pod can connect to."""
    command = ["exec", "--namespace", namespace.name, pod, "--", "python", "-c", CONNECT]
    answer = namespace.cluster.kubectl(*command, *there.values()).stdout.split()
    return {name for name, address in there.items() if address in answer}


def start_peer(namespace: Namespace, role: str) -> None:
    """A pod that listens, and that connects when told to."""
    container = {
        "name": "peer",
        "image": f"flwr/supernode:{RELEASES[0]}",
        "command": ["python", "-m", "http.server", str(PEER_PORT)],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 49999,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    body = {
        "metadata": {"name": role, "labels": {"role": role}},
        "spec": {"containers": [container]},
    }
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    status, answer = namespace.cluster.request("POST", path, body)
    assert status == 201, answer


def address(namespace: Namespace, pod: str) -> str:
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}"

    def found() -> str | None:
        status: Document = namespace.cluster.request("GET", path)[1]["status"]
        return status.get("podIP") if status["phase"] == "Running" else None

    return wait_for(found, f"{pod} does not run", timeout=60)
