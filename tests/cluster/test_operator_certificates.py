"""Certificates for addresses that appear, and certificates from elsewhere, on a real API server."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from flower_operator.render.secrets import CERTIFICATE
from flower_operator.trust.layout import encode_secret
from tests.cluster.federations import APPLY, Document, Namespace, condition, wait_until
from tests.cluster.test_operator_trust import bundle, files, reconciles, secure, stored
from tests.harness.certificates import issued_certificate
from tests.harness.operator_process import OperatorProcess

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("operator")]


def names(namespace: Namespace) -> set[str]:
    """What the SuperLink's certificate is for."""
    certificate = x509.load_pem_x509_certificate(files(namespace, "lab-superlink-tls")["tls.crt"])
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return {*found.get_values_for_type(x509.DNSName), *addresses}


def test_a_load_balancers_addresses_are_added_and_none_is_taken_away(
    namespace: Namespace, operator: OperatorProcess
) -> None:
    document = secure()
    document["spec"]["superlink"]["service"] = {"type": "LoadBalancer"}
    namespace.apply(document)
    namespace.wait_until_ready("lab")
    balance(namespace, [{"ip": "192.0.2.7"}, {"hostname": "lb.example.test"}])
    wait_until(
        lambda: {"192.0.2.7", "lb.example.test"} <= names(namespace),
        lambda: f"it is for {sorted(names(namespace))}",
    )
    namespace.wait_until_ready("lab")
    before, looks = files(namespace, "lab-superlink-tls"), reconciles(namespace, operator)
    balance(namespace, [{"hostname": "lb.example.test"}])
    wait_until(lambda: reconciles(namespace, operator) > looks, "nobody looked at it")
    assert files(namespace, "lab-superlink-tls") == before


def balance(namespace: Namespace, ingress: list[Document]) -> None:
    """As a load balancer's controller says where the Service is reached."""
    path = f"/api/v1/namespaces/{namespace.name}/services/lab-superlink/status"
    status = {"status": {"loadBalancer": {"ingress": ingress}}}
    code, answer = namespace.cluster.request("PATCH", path, status)
    assert code == 200, answer


def issued(namespace: Namespace) -> dict[str, str]:
    return issued_certificate(f"lab-superlink.{namespace.name}.svc", "127.0.0.1")


def put(namespace: Namespace, name: str, content: dict[str, str], **metadata: object) -> None:
    """A Secret by someone else."""
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, **metadata},
        "data": encode_secret(content),
    }
    path = f"/api/v1/namespaces/{namespace.name}/secrets/{name}?fieldManager=someone&force=true"
    code, answer = namespace.cluster.request("PATCH", path, body, APPLY)
    assert code in (200, 201), answer


def look(namespace: Namespace, document: Document, number: int) -> None:
    """Have the operator look at once, and not within a minute."""
    labels = {"labels": {"look": str(number)}}
    namespace.apply(document | {"metadata": document["metadata"] | labels})


def started_with(namespace: Namespace) -> str:
    superlink = namespace.get("Deployment", "lab-superlink")
    assert superlink
    identity: str = superlink["spec"]["template"]["metadata"]["annotations"][CERTIFICATE]
    return identity


def identity_of(content: dict[str, str]) -> str:
    certificate = x509.load_pem_x509_certificate(content["tls.crt"].encode())
    return certificate.fingerprint(SHA256()).hex()


def test_a_certificate_of_ones_own(namespace: Namespace) -> None:
    document = secure(tls={"secretName": "mine"})
    namespace.apply(document)
    told = namespace.wait_for_condition("lab", "Degraded", "True", "SecretMissing")
    assert "there is no Secret mine" in condition(told, "Ready")["message"]
    assert namespace.get("Deployment", "lab-superlink") is None
    first, second = issued(namespace), issued(namespace)
    put(namespace, "mine", first)
    wait_until_served(namespace, first)
    superlink = namespace.get("Deployment", "lab-superlink")
    assert superlink
    volumes = {each["name"]: each for each in superlink["spec"]["template"]["spec"]["volumes"]}
    assert volumes["flower-tls"]["secret"]["secretName"] == "mine"
    made = [stored(namespace, "secrets", f"lab-{each}") for each in ("ca-key", "superlink-tls")]
    assert made == [None, None], "there is no CA of its own"

    put(namespace, "mine", second)
    look(namespace, document, 1)
    wait_until_served(namespace, second)

    put(namespace, "mine", {**second, "tls.key": first["tls.key"]})
    look(namespace, document, 2)
    told = namespace.wait_for_condition("lab", "Degraded", "True", "CertificateUnfit")
    message = "Secret mine: tls.key is not the key of tls.crt"
    assert message in condition(told, "Ready")["message"]
    assert started_with(namespace) == identity_of(second), "what runs, runs on"

    put(namespace, "mine", second)
    look(namespace, document, 3)
    namespace.wait_until_ready("lab")
    namespace.apply(secure())
    wait_until(
        lambda: stored(namespace, "secrets", "lab-ca-key") is not None, "there is no CA of its own"
    )
    namespace.wait_until_ready("lab")
    assert bundle(namespace) != second["ca.crt"]


def test_without_cert_manager_it_is_told_what_is_missing(namespace: Namespace) -> None:
    namespace.apply(secure(tls={"issuerRef": {"name": "house-ca"}}))
    told = namespace.wait_for_condition("lab", "Degraded", "True", "CertManagerMissing")
    assert "no Certificates of cert-manager.io/v1" in condition(told, "Ready")["message"]


def wait_until_served(namespace: Namespace, content: dict[str, str]) -> None:
    def served() -> bool:
        found = namespace.get("Deployment", "lab-superlink")
        return found is not None and started_with(namespace) == identity_of(content)

    wait_until(served, "it is not served")
    wait_until(lambda: bundle(namespace) == content["ca.crt"], "not its CA alone is trusted")
    namespace.wait_until_ready("lab")
