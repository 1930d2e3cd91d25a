"""Envoy in a SuperLink's pod, on a real kubelet."""

import socket
import ssl
from datetime import timedelta
from pathlib import Path

from tests.cluster.federations import Namespace
from tests.harness.waiting import wait_for
from tests.local.machine import federation
from tests.node.conftest import RELEASES
from tests.node.flight import COMPLETED, Flight
from tests.node.training import forwarded, roots_of

KUBELET_SECONDS = 180
"""A kubelet looks at the Secrets of its pods every 60 to 90 s."""


def test_certificates_change_under_a_run_and_no_container_restarts(
    namespace: Namespace, tmp_path: Path
) -> None:
    """Also one by a new CA, which the old one has signed for."""
    documents = {}
    for release in RELEASES:
        name = f"fed-1-{release.minor}"
        documents[release] = federation(name, str(release), "process", gateway={"enabled": True})
        documents[release]["spec"]["insecure"] = False
    flight = Flight(namespace, tmp_path, documents, rounds=4, pause=40.0)
    before = {name: served_certificate(namespace, name) for name in flight.apps}
    containers = running_containers(namespace)
    for name in flight.apps:
        flight.wait_until_training(name)
        for part, days in {"ca-key": 7300, "superlink-tls": 365}.items():
            namespace.make_older(f"{name}-{part}", timedelta(days=days))
    wait_for(
        lambda: all(served_certificate(namespace, name) != old for name, old in before.items()),
        "an old certificate is still served",
        timeout=KUBELET_SECONDS,
        interval=2,
    )
    flight.wait_until(COMPLETED)
    assert containers.items() <= running_containers(namespace).items()


def served_certificate(namespace: Namespace, name: str) -> bytes:
    """What the Control API shows to a new connection that trusts the Federation's CAs."""
    context = ssl.create_default_context(cadata=roots_of(namespace, name))
    with forwarded(namespace, f"{name}-superlink") as address:
        host, port = address.split(":")
        with (
            socket.create_connection((host, int(port)), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname=host) as tls,
        ):
            return tls.getpeercert(binary_form=True) or b""


def running_containers(namespace: Namespace) -> dict[str, str]:
    """By pod and container, which container it is: another one after each restart."""
    status, answer = namespace.cluster.request("GET", f"/api/v1/namespaces/{namespace.name}/pods")
    assert status == 200, answer
    return {
        f"{pod['metadata']['name']}/{each['name']}": each["containerID"]
        for pod in answer["items"]
        if "superlink" in pod["metadata"]["name"]
        for each in pod["status"]["containerStatuses"]
    }
