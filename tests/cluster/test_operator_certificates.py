"""Certificates for addresses that appear, and certificates from elsewhere, on a real API server."""

from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from flower_operator.render.secrets import CERTIFICATE
from flower_operator.trust.layout import encode_secret
from tests.cluster.federations import APPLY, Document, Namespace, condition, wait_until
from tests.cluster.test_operator_trust import bundle, files, reconciles, secure, stored
from tests.harness.certificates import issued_certificate
from tests.harness.control_plane import ControlPlane
from tests.harness.operator_process import OperatorProcess
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.usefixtures("operator")

# cert-manager's, reduced to what is asked of it here; the test plays its controller.
CERTIFICATES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  names: {kind: Certificate, plural: certificates}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


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


@pytest.fixture
def cert_manager(cluster: ControlPlane) -> Iterator[None]:
    """Only what it is asked with; see CERTIFICATES."""
    cluster.kubectl("apply", "-f", "-", input=CERTIFICATES)
    path = "/apis/cert-manager.io/v1/certificates"
    wait_for(lambda: cluster.request("GET", path)[0] == 200, "the CRD is not served", timeout=30)
    yield
    cluster.kubectl("delete", "crd", "certificates.cert-manager.io")


ISSUED = secure(tls={"issuerRef": {"name": "house-ca", "kind": "ClusterIssuer"}})


def test_without_cert_manager_it_is_told_what_is_missing(namespace: Namespace) -> None:
    namespace.apply(ISSUED)
    told = namespace.wait_for_condition("lab", "Degraded", "True", "CertManagerMissing")
    assert "no Certificates of cert-manager.io/v1" in condition(told, "Ready")["message"]


@pytest.mark.usefixtures("cert_manager")
def test_cert_manager_is_not_led_to_a_strangers_secret(namespace: Namespace) -> None:
    put(namespace, "lab-superlink-tls", {"tls.key": "mine"})
    namespace.apply(ISSUED)
    namespace.wait_for_condition("lab", "Degraded", "True", "NameTaken")
    assert certificate(namespace) is None


@pytest.mark.usefixtures("cert_manager")
def test_a_certificate_by_cert_manager(namespace: Namespace) -> None:
    namespace.apply(ISSUED)
    told = namespace.wait_for_condition("lab", "Degraded", "True", "CertificatePending")
    assert "Secret lab-superlink-tls" in condition(told, "Ready")["message"]
    asked = certificate(namespace)
    assert asked
    spec = asked["spec"]
    assert spec["issuerRef"] == {
        "name": "house-ca",
        "kind": "ClusterIssuer",
        "group": "cert-manager.io",
    }
    assert (spec["privateKey"]["algorithm"], spec["privateKey"]["size"]) == ("ECDSA", 256)
    assert f"lab-superlink.{namespace.name}.svc" in spec["dnsNames"]
    assert "127.0.0.1" in spec["ipAddresses"]
    assert [each["kind"] for each in asked["metadata"]["ownerReferences"]] == ["Federation"]

    for content in (issued(namespace), issued(namespace)):
        issue(namespace, content)
        wait_until_served(namespace, content)
    secret = stored(namespace, "secrets", "lab-superlink-tls")
    assert secret
    owners = [each["kind"] for each in secret["metadata"]["ownerReferences"]]
    assert owners == ["Federation"], "it goes with the Federation"
    assert stored(namespace, "secrets", "lab-ca-key") is None

    namespace.apply(secure())
    wait_until(lambda: certificate(namespace) is None, "it is still asked for")
    wait_until(
        lambda: (
            (found := stored(namespace, "secrets", "lab-superlink-tls")) is not None
            and "record.json" in found["data"]
        ),
        "no certificate of its own is made",
    )
    namespace.wait_until_ready("lab")


def wait_until_served(namespace: Namespace, content: dict[str, str]) -> None:
    def served() -> bool:
        found = namespace.get("Deployment", "lab-superlink")
        return found is not None and started_with(namespace) == identity_of(content)

    wait_until(served, "it is not served")
    wait_until(lambda: bundle(namespace) == content["ca.crt"], "not its CA alone is trusted")
    namespace.wait_until_ready("lab")


def certificate(namespace: Namespace) -> Document | None:
    path = f"/apis/cert-manager.io/v1/namespaces/{namespace.name}/certificates/lab-superlink-tls"
    status, answer = namespace.cluster.request("GET", path)
    return answer if status == 200 else None


def issue(namespace: Namespace, content: dict[str, str]) -> None:
    """As cert-manager's controller does what a Certificate asks for."""
    asked = certificate(namespace)
    assert asked
    name = asked["metadata"]["name"]
    put(
        namespace,
        asked["spec"]["secretName"],
        content,
        labels=asked["spec"]["secretTemplate"]["labels"],
        annotations={"cert-manager.io/certificate-name": name},
    )
