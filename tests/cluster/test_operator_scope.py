"""The operator on some namespaces only, with rights for these and no others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import install_crd, install_roles
from tests.cluster.federations import Namespace, condition, manifest
from tests.cluster.test_operator_executor import LAB
from tests.harness.control_plane import ControlPlane
from tests.harness.operator_process import OperatorProcess
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(controllers=True, nodes=1) as plane:
        install_crd(plane)
        for name in ("north", "south", "east"):
            plane.kubectl("create", "namespace", name)
        yield plane


@pytest.fixture(scope="module")
def rights(plane: ControlPlane) -> Path:
    return install_roles(plane, "manager.namespaces={north,south}")


def test_it_looks_after_its_namespaces_alone(plane: ControlPlane, rights: Path) -> None:
    rooms = {name: Namespace(plane, name) for name in ("north", "south", "east")}
    with OperatorProcess(rights, "--namespaces=north,south") as operator:
        operator.wait_until_leading()
        for room in rooms.values():
            room.apply(manifest("lab"))
        rooms["north"].wait_until_ready("lab")
        rooms["south"].wait_until_ready("lab")
        assert rooms["east"].children() == {}
        assert "status" not in rooms["east"].federation("lab")
        warnings = [line for line in operator.log() if line["level"] != "info"]
        assert warnings == []


def test_it_starts_no_pods_for_tasks_unless_it_may(plane: ControlPlane, rights: Path) -> None:
    room = Namespace(plane, "north")
    launching = {**LAB, "metadata": {"name": "launching"}}
    with OperatorProcess(rights, "--namespaces=north,south") as operator:
        room.apply(launching)
        refused = room.wait_for_condition("launching", "Ready", "False", "NotAllowed")
        assert "taskExecutor.enable=true" in condition(refused, "Ready")["message"]
        assert not [name for _, name in room.children() if name.startswith("launching")]
        assert not [line for line in operator.log() if "forbidden" in line["message"]]


def test_it_refuses_what_its_flags_do_not_allow(plane: ControlPlane, rights: Path) -> None:
    room = Namespace(plane, "north")
    issuer = {"name": "production", "kind": "ClusterIssuer"}
    tls = {"issuerRef": issuer, "subjectAltNames": ["bank.example"]}
    asking = manifest("asking", insecure=False, tls=tls)
    annotations = {"external-dns.alpha.kubernetes.io/hostname": "bank.example"}
    asking["spec"]["superlink"]["service"] = {"annotations": annotations}
    pool = {"name": "default", "replicas": 1, "podTemplate": {"spec": {"hostNetwork": True}}}
    reaching = manifest("reaching", pools=[pool])
    flags = ["--pod-security=restricted", "--issuers=Issuer/*", "--dns-suffixes=example.org"]
    flags += ["--annotation-prefixes=metallb.io/"]
    with OperatorProcess(rights, "--namespaces=north,south", *flags):
        for document, fields in (
            (asking, ["tls.issuerRef", "tls.subjectAltNames[0]", "superlink.service.annotations"]),
            (reaching, ["supernodes.pools[0].podTemplate.spec.hostNetwork"]),
        ):
            name = document["metadata"]["name"]
            room.apply(document)
            refused = room.wait_for_condition(name, "Ready", "False", "NotAllowed")
            message = condition(refused, "Ready")["message"]
            assert all(f"spec.{field}: " in message for field in fields), message
            assert not [child for _, child in room.children() if child.startswith(name)]


def test_without_the_rights_it_says_what_it_lacks(plane: ControlPlane, rights: Path) -> None:
    with OperatorProcess(rights) as operator:

        def complained() -> bool:
            return any("is forbidden" in line["message"] for line in operator.log())

        wait_for(complained, "it does not say that it may not", 20)
        assert operator.get_health("/healthz")[0] == 200
        assert operator.get_health("/readyz")[0] == 503


def test_where_the_cluster_gives_users_it_names_none(plane: ControlPlane, rights: Path) -> None:
    room = Namespace(plane, "south")
    with OperatorProcess(rights, "--namespaces=north,south", "--openshift=true"):
        room.apply(manifest("given"))
        room.wait_until_ready("given")
    given = [pod for pod in room.pods() if pod["metadata"]["name"].startswith("given-")]
    assert len(given) == 3
    for pod in given:
        context = pod["spec"]["securityContext"]
        assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
