"""Secure Federations on real containers, in a namespace that enforces Pod Security restricted and
on a network that heeds their policies."""

from pathlib import Path

import pytest

from flower_operator.flower.commands import HEALTH_PORT, SUPEREXEC_HEALTH_PORT
from flower_operator.flower.releases import Release
from tests.cluster.federations import Namespace
from tests.harness.policies import Enforcer
from tests.local.machine import expected_reports, federation
from tests.node.conftest import RELEASES
from tests.node.test_training import train_all, wait_until_connected

# As /proc/net has them: 127.0.0.1, ::1 and ::ffff:127.0.0.1.
LOOPBACK_ADDRESSES = (
    "0100007F",
    "00000000000000000000000001000000",
    "0000000000000000FFFF00000100007F",
)
GATEWAY_PORTS = (8090, 8092, 8093)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_secure_federations_train(namespace: Namespace, tmp_path: Path, release: Release) -> None:
    documents = [federation(each, str(release), each) for each in ("process", "subprocess")]
    documents.append(federation("gateway", str(release), "process", gateway={"enabled": True}))
    for document in documents:
        document["spec"] |= {
            "insecure": False,
            "supernodeAuth": {"enabled": True, "allowSubprocess": True},
        }
    with Enforcer(namespace.cluster):
        for name, result in train_all(namespace, release, tmp_path, documents).items():
            reports = sorted(result["reports"], key=lambda report: report["partition-id"])
            assert reports == expected_reports()
            wait_until_connected(namespace, name)
    # Health services say whether a process serves, and nothing else.
    open_ports = listening_outside_loopback(namespace, "gateway")
    assert open_ports == {*GATEWAY_PORTS, HEALTH_PORT, SUPEREXEC_HEALTH_PORT}


def listening_outside_loopback(namespace: Namespace, name: str) -> set[int]:
    """Ports of the SuperLink's pod that other pods can connect to."""
    pod, container = f"deployment/{name}-superlink", "superlink"
    command = ["exec", "--namespace", namespace.name, pod, "--container", container, "--"]
    tables = namespace.cluster.kubectl(*command, "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout
    rows = [line.split() for line in tables.splitlines() if " 0A " in line]
    addresses = [row[1].split(":") for row in rows]
    return {int(port, 16) for host, port in addresses if host not in LOOPBACK_ADDRESSES}
