"""Certificates and secrets of secure Federations, on a real API server."""

import base64
import json
import re

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.cluster.federations import Document, Namespace, condition, manifest, wait_until
from tests.harness.operator_process import OperatorProcess

pytestmark = pytest.mark.usefixtures("operator")

SUPEREXEC_SECRETS = ("lab-superexec", "lab-supernode-default-superexec")
SECRETS = ("lab-ca-key", "lab-superlink-tls", "lab-supernode-tls", *SUPEREXEC_SECRETS)


def secure(**spec: object) -> Document:
    document = manifest("lab", insecure=False, isolationMode="process", **spec)
    document["spec"]["superlink"]["superexecImage"] = "flwr/superexec:1.41.0"
    for pool in document["spec"]["supernodes"]["pools"]:
        pool["images"] = {"superexecClientApp": "flwr/superexec:1.41.0"}
    return document


def stored(namespace: Namespace, kind: str, name: str) -> Document | None:
    status, answer = namespace.cluster.request(
        "GET", f"/api/v1/namespaces/{namespace.name}/{kind}/{name}"
    )
    return answer if status == 200 else None


def files(namespace: Namespace, secret: str) -> dict[str, bytes]:
    found = stored(namespace, "secrets", secret)
    assert found, f"there is no Secret {secret}"
    return {name: base64.b64decode(value) for name, value in found["data"].items()}


def bundle(namespace: Namespace) -> str:
    found = stored(namespace, "configmaps", "lab-ca")
    assert found
    text: str = found["data"]["ca.crt"]
    return text


def test_a_secure_federation_has_all_it_needs(namespace: Namespace) -> None:
    namespace.apply(secure(tls={"subjectAltNames": ["fed.example.test", "192.0.2.7"]}))
    namespace.wait_until_ready("lab")
    own = files(namespace, "lab-superlink-tls")
    [authority] = x509.load_pem_x509_certificates(bundle(namespace).encode())
    certificate = x509.load_pem_x509_certificate(own["tls.crt"])
    certificate.verify_directly_issued_by(authority)
    key = load_pem_private_key(own["tls.key"], None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == certificate.public_key()
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    service = f"lab-superlink.{namespace.name}.svc"
    assert {service, f"{service}.cluster.local", "fed.example.test", "localhost"} <= set(
        names.get_values_for_type(x509.DNSName)
    )
    assert "192.0.2.7" in map(str, names.get_values_for_type(x509.IPAddress))
    shared = [files(namespace, name)["secret"] for name in SUPEREXEC_SECRETS]
    assert all(len(secret) >= 32 for secret in shared)
    assert len(set(shared)) == len(shared), "a ClientApp could read the SuperLink's"


def test_nothing_of_it_outlives_the_federation(namespace: Namespace) -> None:
    namespace.apply(secure())
    namespace.wait_until_ready("lab")
    namespace.delete("lab")
    wait_until(
        lambda: (
            not any(stored(namespace, "secrets", name) for name in SECRETS)
            and stored(namespace, "configmaps", "lab-ca") is None
        ),
        "keys are left behind",
    )


def test_a_federation_at_rest_is_left_alone(
    namespace: Namespace, operator: OperatorProcess
) -> None:
    namespace.apply(secure())
    namespace.wait_until_ready("lab")
    versions, looks = versions_of(namespace), reconciles(namespace, operator)
    namespace.apply(secure() | {"metadata": {"name": "lab", "labels": {"looked-at": "yes"}}})
    wait_until(lambda: reconciles(namespace, operator) > looks, "nobody looked at it")
    assert versions_of(namespace) == versions


def versions_of(namespace: Namespace) -> dict[str, str]:
    """Of all that the operator made."""
    found = [stored(namespace, "secrets", name) for name in SECRETS]
    found += [stored(namespace, "configmaps", "lab-ca"), *namespace.children().values()]
    return {
        each["metadata"]["name"] + each.get("kind", ""): each["metadata"]["generation"]
        if "generation" in each["metadata"]
        else each["metadata"]["resourceVersion"]
        for each in found
        if each
    }


def reconciles(namespace: Namespace, operator: OperatorProcess) -> float:
    text = operator.get_metrics(namespace.cluster.token)[1]
    found = re.search(r"^flower_operator_reconciles_total (\S+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


def test_names_that_are_added_are_served_by_new_pods(namespace: Namespace) -> None:
    namespace.apply(secure())
    namespace.wait_until_ready("lab")
    before = files(namespace, "lab-superlink-tls")
    authority = bundle(namespace)
    namespace.apply(secure(tls={"subjectAltNames": ["late.example.test"]}))
    wait_until(
        lambda: files(namespace, "lab-superlink-tls")["tls.crt"] != before["tls.crt"],
        "the certificate stays as it was",
    )
    namespace.wait_until_ready("lab")
    assert bundle(namespace) == authority, "clients need nothing new"
    reasons = [event["reason"] for event in namespace.events("lab")]
    assert "NamesDiffer" in reasons


@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [("secrets", "lab-superlink-tls", "tls.key"), ("configmaps", "lab-ca", "ca.crt")],
)
def test_what_someone_spoiled_is_made_anew(
    namespace: Namespace, kind: str, name: str, file: str
) -> None:
    namespace.apply(secure())
    namespace.wait_until_ready("lab")
    path = f"/api/v1/namespaces/{namespace.name}/{kind}/{name}"
    value = base64.b64encode(b"spoiled").decode()
    namespace.cluster.request("PATCH", f"{path}?fieldManager=by-hand", {"data": {file: value}})
    wait_until(
        lambda: (
            (found := stored(namespace, kind, name)) is not None and found["data"][file] != value
        ),
        "it stays spoiled",
        timeout=10,
    )
    namespace.wait_until_ready("lab")


def test_a_stranger_s_secret_of_the_same_name_stays(namespace: Namespace) -> None:
    mine = {"metadata": {"name": "lab-superlink-tls"}, "stringData": {"tls.key": "mine"}}
    namespace.cluster.request("POST", f"/api/v1/namespaces/{namespace.name}/secrets", mine)
    namespace.apply(secure())
    told = namespace.wait_for_condition("lab", "Degraded", "True", "NameTaken")
    assert "Secret lab-superlink-tls" in condition(told, "Ready")["message"]
    assert files(namespace, "lab-superlink-tls") == {"tls.key": b"mine"}
    path = f"/api/v1/namespaces/{namespace.name}/secrets/lab-superlink-tls"
    namespace.cluster.request("DELETE", path)
    namespace.wait_until_ready("lab")


@pytest.mark.parametrize("executor", ["subprocess", "kubernetes"])
def test_no_pod_can_read_keys_unless_the_status_says_so(
    namespace: Namespace, executor: str
) -> None:
    document = secure()
    document["spec"]["superlink"]["executor"] = executor
    namespace.apply(document)
    ready = condition(namespace.wait_until_ready("lab"), "Ready")["message"]
    accounts = {pod["spec"]["serviceAccountName"] for pod in namespace.pods()}
    tasks = {"lab-serverapp"} if executor == "kubernetes" else set()
    assert accounts == ({"default", "lab-superlink"} if tasks else {"default"})
    readers = {name for name in accounts | tasks if can_list_secrets(namespace, name)}
    assert readers == ({"lab-superlink"} if tasks else set())
    assert ("can read all of this namespace, the CA's key too" in ready) == bool(readers)


def can_list_secrets(namespace: Namespace, account: str) -> bool:
    secrets = f"/api/v1/namespaces/{namespace.name}/secrets"
    user = {"Impersonate-User": f"system:serviceaccount:{namespace.name}:{account}"}
    answers = [
        namespace.cluster.request("GET", path, None, user)[0]
        for path in (secrets, *(f"{secrets}/{name}" for name in SECRETS))
    ]
    assert set(answers[1:]) == {403}, "none may be read by its name"
    return answers[0] == 200


def test_no_key_is_told_to_anyone(namespace: Namespace, operator: OperatorProcess) -> None:
    namespace.apply(secure(supernodeAuth={"enabled": True, "allowSubprocess": True}))
    # Which has no SuperLink that could let SuperNodes in.
    namespace.wait_for_condition("lab", "Ready", "False", "WaitingForKey")
    keys = [
        line
        for secret in (*SECRETS, "lab-supernode-default-keys")
        for content in files(namespace, secret).values()
        if b"PRIVATE" in content
        for line in content.decode().splitlines()
        if "-----" not in line and len(line) > 20
    ]
    keys += [files(namespace, name)["secret"].decode() for name in SUPEREXEC_SECRETS]
    assert len(keys) > 10
    said = operator.output() + json.dumps(
        [namespace.federation("lab"), namespace.events("lab"), namespace.pods()]
    )
    assert not [key for key in keys if key in said]
