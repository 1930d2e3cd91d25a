"""Skupper's objects on a real API server; the test is Skupper's controller, and sets statuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import install_crd, install_roles
from tests.cluster.federations import Document, Namespace, condition, manifest, wait_until
from tests.cluster.person import Person
from tests.harness.control_plane import ControlPlane
from tests.harness.operator_process import OperatorProcess

pytestmark = pytest.mark.extended

DEFINITIONS = Path(__file__).with_name("skupper.yaml")
GRANTED: Document = {
    "status": "Ready",
    "url": "https://grants.example:9090/abc",
    "code": "code",
    "ca": "pem",
    "redemptions": 1,
    "expirationTime": "2099-01-01T00:00:00Z",
}


OVER: Document = {"expirationTime": "2020-01-01T00:00:00Z"}
USED_UP: Document = {"redemptions": 100}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster that has Skupper's kinds, and an operator with the chart's rights."""
    with ControlPlane(controllers=True, nodes=1) as plane:
        install_crd(plane)
        plane.kubectl("apply", "-f", str(DEFINITIONS))
        served = "/apis/skupper.io/v2alpha1/listeners"
        wait_until(lambda: plane.request("GET", served)[0] == 200, "the CRDs are not served")
        with OperatorProcess(install_roles(plane)) as operator:
            operator.wait_until_leading()
            yield plane


def skupper_path(room: Namespace, plural: str, name: str) -> str:
    return f"/apis/skupper.io/v2alpha1/namespaces/{room.name}/{plural}/{name}"


def tell(room: Namespace, plural: str, name: str, status: Document) -> None:
    """As Skupper's controller would."""
    path = f"{skupper_path(room, plural, name)}/status"
    code, answer = room.cluster.request("PATCH", path, {"status": status})
    assert code == 200, answer


def spec_of(room: Namespace, plural: str, name: str) -> Document:
    code, answer = room.cluster.request("GET", skupper_path(room, plural, name))
    assert code == 200, answer
    found: Document = answer["spec"]
    return found


def grant_uid(room: Namespace) -> str | None:
    code, answer = room.cluster.request("GET", skupper_path(room, "accessgrants", "lab"))
    return answer["metadata"]["uid"] if code == 200 else None


@pytest.mark.usefixtures("operator")
def test_where_there_is_no_skupper_it_is_told(namespace: Namespace) -> None:
    namespace.apply(manifest("lab", interconnect="skupper"))
    federation = namespace.wait_for_condition("lab", "Degraded", "True", "SkupperMissing")
    assert "no API group skupper.io; install Skupper 2" in condition(federation, "Ready")["message"]


def test_other_clusters_link_and_join_and_what_is_missing_is_told(
    plane: ControlPlane, tmp_path: Path
) -> None:
    person = Person(plane.kubeconfig, tmp_path)
    with Namespace.new(plane) as room, Namespace.new(plane) as other:
        join = ("join", "lab", "--for", "berlin", "-n", room.name)
        room.apply(manifest("lab", interconnect="skupper", insecure=False))
        room.wait_for_condition("lab", "Ready", "False", "Interconnecting")
        assert "Skupper has not answered AccessGrant lab yet" in person.flower(*join, status=1)
        tell(room, "sites", "lab", {"status": "Pending", "message": "no router"})
        tell(room, "connectors", "lab-fleet-api", {"status": "Pending", "message": "no listener"})
        tell(room, "accessgrants", "lab", GRANTED)
        wait_until(
            lambda: "Site lab is not ready: no router" in said(room),
            lambda: f"it is not told: {said(room)}",
        )
        tell(room, "sites", "lab", {"status": "Ready", "message": "OK"})
        room.wait_until_ready("lab")
        assert "note: Skupper's Connector lab-fleet-api is not ready: no listener" in said(room)
        assert spec_of(room, "connectors", "lab-fleet-api")["port"] == 8000

        # The API server refuses fields that Skupper does not have.
        printed = person.flower(*join)
        plane.kubectl("apply", "--validate=strict", "-n", other.name, "-f", "-", input=printed)
        joined = other.wait_until_ready("lab")
        assert joined["status"]["endpoints"]["superlinkService"] == "lab-superlink:9092"
        token = spec_of(other, "accesstokens", "lab")
        assert token == {key: GRANTED[key] for key in ("url", "code", "ca")}
        assert spec_of(other, "listeners", "lab-fleet-api") == {
            "routingKey": spec_of(room, "connectors", "lab-fleet-api")["routingKey"],
            "host": "lab-superlink",
            "port": 9092,
        }

        # Over or used up, it is replaced, and who joins then has a token of the new one.
        for number, end in enumerate((OVER, USED_UP)):
            before = grant_uid(room)
            tell(room, "accessgrants", "lab", GRANTED | end)
            wait_until(lambda: grant_uid(room) not in (None, before), "the grant stays")  # noqa: B023
            assert "Skupper has not answered AccessGrant lab yet" in person.flower(*join, status=1)
            tell(room, "accessgrants", "lab", GRANTED | {"code": f"code-{number}"})
            assert f"code: code-{number}" in person.flower(*join)


def said(room: Namespace) -> str:
    message: str = condition(room.federation("lab"), "Ready")["message"]
    return message
