"""The policies of dist/policy on a real API server: what they refuse, keep and write down."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flower_operator.operator.desired import FEDERATION
from scripts.manifests import CRD, ROOT
from tests.cluster.conftest import serves_federations
from tests.cluster.federations import manifest
from tests.harness.binaries import source_folder
from tests.harness.control_plane import ControlPlane
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.extended

Document = dict[str, Any]

FOLDER = ROOT / "dist/policy"
NAMESPACE = "flower-system"
GOVERNANCE = "policy.open-cluster-management.io"
DEFINITIONS = {
    "governance-policy-propagator": ("policies", "policysets", "placementbindings"),
    "config-policy-controller": ("configurationpolicies",),
}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
FEDERATIONS = FEDERATION.path(NAMESPACE)
SECONDS = 30.0


def documents(name: str) -> list[Document]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def configurations() -> list[Document]:
    """What the policies hold on a cluster."""
    return [
        template["objectDefinition"]
        for each in documents("policies.yaml")
        if each["kind"] == "Policy"
        for template in each["spec"]["policy-templates"]
    ]


def enforced() -> list[Document]:
    """What a cluster that obeys has."""
    return [
        template["objectDefinition"]
        for each in configurations()
        if each["spec"]["remediationAction"] == "enforce"
        for template in each["spec"]["object-templates"]
    ]


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def plane(audit_log: Path) -> Iterator[ControlPlane]:
    arguments = [
        f"--audit-policy-file={FOLDER / 'audit.yaml'}",
        f"--audit-log-path={audit_log}",
        "--audit-log-mode=blocking",
        # Whose controller is not there to make an account for pods.
        "--disable-admission-plugins=ServiceAccount",
    ]
    with ControlPlane(apiserver_arguments=arguments) as plane:
        plane.kubectl("apply", "-f", str(CRD))
        wait_for(lambda: serves_federations(plane), "the CRD is not served", SECONDS)
        for each in enforced():
            text = json.dumps(each)
            plane.kubectl("apply", "-n", NAMESPACE, "-f", "-", "--validate=strict", input=text)
        yield plane


def test_the_policies_are_what_their_definitions_ask_for(plane: ControlPlane) -> None:
    for module, names in DEFINITIONS.items():
        folder = source_folder(f"open-cluster-management.io/{module}") / "deploy/crds"
        for name in names:
            plane.kubectl("apply", "--server-side", "-f", str(folder / f"{GOVERNANCE}_{name}.yaml"))
            crd = f"crd/{name}.{GOVERNANCE}"
            plane.kubectl("wait", "--for=condition=Established", crd, "--timeout=30s")
    own = [each for each in documents("policies.yaml") if GOVERNANCE in each["apiVersion"]]
    assert len(own) == 8
    for each in [*own, *configurations()]:
        options = ("--dry-run=server", "--validate=strict")
        plane.kubectl("apply", "-n", NAMESPACE, "-f", "-", *options, input=json.dumps(each))


def test_every_policy_is_placed_somewhere() -> None:
    found: dict[str, dict[str, Document]] = {}
    for each in documents("policies.yaml"):
        assert each["metadata"]["namespace"] == NAMESPACE
        found.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
    bindings = found["PlacementBinding"].values()
    assert {each["placementRef"]["name"] for each in bindings} == set(found["Placement"])
    assert {each["subjects"][0]["name"] for each in bindings} == set(found["PolicySet"])
    sets = found["PolicySet"].values()
    assert sorted(name for each in sets for name in each["spec"]["policies"]) == sorted(
        found["Policy"]
    )


def pod(name: str, image: str, **fields: Any) -> Document:
    metadata = {"name": name, "labels": {"flower.flwr.ai/federation": "fleet"}}
    return {"metadata": metadata, "spec": {"containers": [container("main", image)], **fields}}


def container(name: str, image: str) -> Document:
    settings = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {"name": name, "image": image, "securityContext": settings}


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (pod("one", "elsewhere.example/flwr/supernode:1"), "not from a registry"),
        (pod("one", "flwrs/supernode:1"), "flwrs/supernode:1"),
        (
            pod(
                "one",
                "flwr/supernode:1",
                initContainers=[container("first", "elsewhere.example/x")],
            ),
            "Federations may use: elsewhere.example/x",
        ),
        (pod("one", "flwr/supernode:1", hostNetwork=True), "restricted"),
    ],
)
def test_a_cluster_that_obeys_refuses_pods_that_are_not_as_they_should_be(
    plane: ControlPlane, refused: Document, said: str
) -> None:
    # A policy takes a moment to have an effect.
    def answer() -> str:
        status, body = plane.request("POST", PODS, refused)
        if status == 201:
            plane.request("DELETE", f"{PODS}/one", {"gracePeriodSeconds": 0})
            return ""
        return str(body["message"])

    wait_for(lambda: said in answer(), answer, SECONDS)
    status, body = plane.request("POST", f"{PODS}?dryRun=All", pod("two", "flwr/supernode:1"))
    assert status == 201, body


def test_pods_of_federations_are_closed_where_nothing_opens_them(plane: ControlPlane) -> None:
    path = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies/flower-closed"
    _, policy = plane.request("GET", path)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not policy["spec"].keys() & {"ingress", "egress"}


def test_a_hub_refuses_federations_without_tls_and_lets_old_ones_go(plane: ControlPlane) -> None:
    held = manifest("old")
    held["metadata"]["finalizers"] = ["test/fleet"]
    assert plane.request("POST", FEDERATIONS, held)[0] == 201
    plane.kubectl("apply", "-f", str(FOLDER / "hub.yaml"), "--validate=strict")

    def message(document: Document) -> str:
        status, body = plane.request("POST", f"{FEDERATIONS}?dryRun=All", document)
        return "" if status == 201 else str(body["message"])

    wait_for(lambda: "Federations here have TLS" in message(manifest("new")), "let in", SECONDS)
    assert message(manifest("new", insecure=False)) == ""
    open_to_all = manifest("new", insecure=False, networkPolicy={"enabled": False})
    assert "Federations here have NetworkPolicies" in message(open_to_all)
    old = f"{FEDERATIONS}/old"
    assert plane.request("PATCH", old, {"spec": {"suspend": True}})[0] == 422
    assert plane.request("DELETE", old)[0] == 200
    assert plane.request("PATCH", old, {"metadata": {"finalizers": None}})[0] == 200
    assert plane.request("GET", old)[0] == 404
    plane.kubectl("delete", "-f", str(FOLDER / "hub.yaml"))


def test_the_audit_log_has_changes_of_federations_and_no_secrets(
    plane: ControlPlane, audit_log: Path
) -> None:
    secret = {"metadata": {"name": "fleet-ca-key"}, "stringData": {"key": "top-secret"}}
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    assert plane.request("POST", secrets, secret)[0] == 201
    assert plane.request("GET", f"{secrets}/fleet-ca-key")[0] == 200
    document = manifest("audited", insecure=False)
    assert plane.request("POST", FEDERATIONS, document)[0] == 201
    change = {"spec": {"suspend": True}}
    assert plane.request("PATCH", f"{FEDERATIONS}/audited", change)[0] == 200
    assert plane.request("GET", f"{FEDERATIONS}/audited")[0] == 200

    text = audit_log.read_text()
    events = [json.loads(line) for line in text.splitlines()]

    def of(name: str) -> dict[str, Document]:
        # A name is in a request to create nothing but the body.
        return {
            each["verb"]: each
            for each in events
            if name in (each["objectRef"].get("name"), named(each))
        }

    federation = of("audited")
    assert federation["patch"]["requestObject"] == change
    assert federation["patch"]["user"]["username"] == "admin"
    assert federation["create"]["requestObject"]["spec"]["insecure"] is False
    assert "get" not in federation
    assert of("fleet-ca-key").keys() >= {"get"}
    about_secrets = [each for each in events if each["objectRef"].get("resource") == "secrets"]
    assert {"create", "get"} <= {each["verb"] for each in about_secrets}
    assert not any({"requestObject", "responseObject"} & each.keys() for each in about_secrets)
    assert "top-secret" not in text
    assert "dG9wLXNlY3JldA" not in text


def named(event: Document) -> str | None:
    name: str | None = event.get("requestObject", {}).get("metadata", {}).get("name")
    return name


def test_manifests_for_other_clusters_are_not_written_down() -> None:
    [policy] = documents("audit.yaml")
    bare = {
        resource
        for rule in policy["rules"]
        if rule["level"] == "Metadata"
        for each in rule["resources"]
        for resource in each["resources"]
    }
    assert {"secrets", "addontemplates", "manifestworks", "manifestworkreplicasets"} <= bare
    assert policy["rules"][-1] == {"level": "None"}
