"""Runs that outlive their SuperLink: a claim keeps what it knows."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from flower_operator.flower.releases import Release
from tests.cluster.federations import Namespace
from tests.harness.node import Node
from tests.harness.policies import Enforcer
from tests.harness.waiting import wait_for
from tests.local.machine import federation
from tests.node.conftest import RELEASES
from tests.node.flight import COMPLETED, Flight, delete_pod

Document = dict[str, Any]

STORAGE_CLASS = "of-the-node"
PERSISTENCE = {"size": "1Gi", "storageClassName": STORAGE_CLASS}


def lasting(node: Node, release: Release, *, secure: bool = True, **superlink: Any) -> Document:
    node.add_volume(STORAGE_CLASS)
    name = f"fed-1-{release.minor}-{'secure' if secure else 'plain'}"
    document = federation(name, str(release), "process", persistence=PERSISTENCE, **superlink)
    document["spec"]["insecure"] = not secure
    return document


def test_runs_outlive_the_superlink_s_pod_of_an_old_release(
    node: Node, namespace: Namespace, tmp_path: Path
) -> None:
    """With TLS by relays, and without. Both at once, for they mostly wait."""
    release = RELEASES[0]
    documents = [lasting(node, release), lasting(node, release, secure=False)]

    def fly(document: Document) -> Flight:
        folder = tmp_path / document["metadata"]["name"]
        folder.mkdir()
        return Flight(namespace, folder, {release: document}, pause=15.0)

    with Enforcer(namespace.cluster), ThreadPoolExecutor() as pool:
        flights = list(pool.map(fly, documents))
        list(pool.map(lose_superlink, flights))
        for flight in flights:
            flight.wait_until(COMPLETED)
            flight.wait_until_ready()


def test_a_run_outlives_the_superlink_s_pod_with_tasks_in_pods_of_their_own(
    node: Node, namespace: Namespace, tmp_path: Path
) -> None:
    release = RELEASES[-1]
    document = lasting(node, release, executor="kubernetes")
    flight = Flight(namespace, tmp_path, {release: document}, pause=20.0)
    lose_superlink(flight)
    flight.wait_until(COMPLETED)
    flight.wait_until_ready()


def test_a_run_outlives_the_superlink_s_pod_and_a_certificate_of_a_new_ca(
    node: Node, namespace: Namespace, tmp_path: Path
) -> None:
    release = RELEASES[-1]
    document = lasting(node, release)
    with Enforcer(namespace.cluster):
        # Long enough for two SuperLinks to end and start while SuperNodes are at it.
        flight = Flight(namespace, tmp_path, {release: document}, rounds=3, pause=30.0)
        pod, second = lose_superlink(flight)

        # One for one more name does not wait for the run here, and is served by another pod. It is
        # by a new CA, of which no client has heard yet; a new secret waits.
        [name] = flight.apps
        flight.wait_until_training(name)
        for part, days in {"superexec": 366, "ca-key": 7300}.items():
            namespace.make_older(f"{name}-{part}", timedelta(days=days))
        document["spec"]["tls"] = {
            "subjectAltNames": ["fed.example.test"],
            "rotation": {"maxWait": "0s"},
        }
        namespace.apply(document)
        wait_for_another(namespace, pod, second)
        flight.wait_until(COMPLETED)
        flight.wait_until_ready()


def lose_superlink(flight: Flight) -> tuple[str, str]:
    """Delete its pod while SuperNodes train; the name and the uid of the one that follows."""
    [name] = flight.apps
    pod = f"{name}-superlink-0"
    first = uid(flight.namespace, pod)
    flight.wait_until_training(name)
    delete_pod(flight.namespace, pod)
    return pod, wait_for_another(flight.namespace, pod, first)


def wait_for_another(namespace: Namespace, pod: str, before: str) -> str:
    """Until a pod of that name is ready which is not the one before; its uid."""

    def found() -> str | None:
        body = pod_of(namespace, pod)
        conditions = body.get("status", {}).get("conditions", [])
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        own: str | None = body.get("metadata", {}).get("uid")
        return own if ready and own != before else None

    return wait_for(found, f"no other {pod} gets ready", timeout=180)


def uid(namespace: Namespace, pod: str) -> str:
    own: str = pod_of(namespace, pod)["metadata"]["uid"]
    return own


def pod_of(namespace: Namespace, name: str) -> Document:
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}"
    status, answer = namespace.cluster.request("GET", path)
    body: Document = answer if status == 200 else {}  # there is none for a moment
    return body
