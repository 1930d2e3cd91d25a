"""Certificates by cert-manager itself, on a real API server."""

from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from tests.cluster.conftest import install_crd, install_roles
from tests.cluster.federations import Document, Namespace, condition, wait_until
from tests.cluster.test_operator_certificates import (
    identity_of,
    names,
    put,
    started_with,
    wait_until_served,
)
from tests.cluster.test_operator_trust import files, secure, stored
from tests.harness.cert_manager import CertManager
from tests.harness.control_plane import ControlPlane
from tests.harness.operator_process import OperatorProcess

pytestmark = pytest.mark.extended

AUTHORITY = """
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: nobody}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: house-ca}
spec:
  isCA: true
  commonName: house-ca
  secretName: house-ca
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {name: nobody}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: house-ca}
spec: {ca: {secretName: house-ca}}
"""
ISSUED = secure(tls={"issuerRef": {"name": "house-ca"}})
DUE = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "now"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """With cert-manager, and an operator that has the chart's rights."""
    with ControlPlane(controllers=True, nodes=1) as plane, CertManager(plane):
        install_crd(plane)
        with OperatorProcess(install_roles(plane)) as operator:
            operator.wait_until_leading()
            yield plane


def served(namespace: Namespace) -> dict[str, str]:
    return {name: value.decode() for name, value in files(namespace, "lab-superlink-tls").items()}


def path_of(namespace: Namespace) -> str:
    return f"/apis/cert-manager.io/v1/namespaces/{namespace.name}/certificates/lab-superlink-tls"


def certificate(namespace: Namespace) -> Document | None:
    status, answer = namespace.cluster.request("GET", path_of(namespace))
    return answer if status == 200 else None


def renew(namespace: Namespace) -> None:
    """As `cmctl renew` does."""
    asked = certificate(namespace)
    assert asked
    status = {"status": {"conditions": [*asked["status"]["conditions"], DUE]}}
    code, answer = namespace.cluster.request("PATCH", f"{path_of(namespace)}/status", status)
    assert code == 200, answer


def make_authority(namespace: Namespace) -> None:
    namespace.cluster.kubectl("apply", "--namespace", namespace.name, "-f", "-", input=AUTHORITY)


def test_it_is_not_led_to_a_strangers_secret(namespace: Namespace) -> None:
    put(namespace, "lab-superlink-tls", {"tls.key": "mine"})
    namespace.apply(ISSUED)
    namespace.wait_for_condition("lab", "Degraded", "True", "NameTaken")
    assert certificate(namespace) is None


def test_it_is_asked_for_what_flower_needs_on_behalf_of_the_federation(
    namespace: Namespace,
) -> None:
    namespace.apply(secure(tls={"issuerRef": {"name": "house-ca", "kind": "ClusterIssuer"}}))
    namespace.wait_for_condition("lab", "Degraded", "True", "CertificatePending")
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


def test_what_it_issues_is_served_and_so_is_what_it_issues_next(namespace: Namespace) -> None:
    namespace.apply(ISSUED)
    told = namespace.wait_for_condition("lab", "Degraded", "True", "CertificatePending")
    assert "Secret lab-superlink-tls" in condition(told, "Ready")["message"]
    make_authority(namespace)
    namespace.wait_until_ready("lab")

    first = served(namespace)
    wait_until_served(namespace, first)
    authority = x509.load_pem_x509_certificate(files(namespace, "house-ca")["tls.crt"])
    own = x509.load_pem_x509_certificate(first["tls.crt"].encode())
    own.verify_directly_issued_by(authority)
    key = own.public_key()
    assert isinstance(key, EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    assert {f"lab-superlink.{namespace.name}.svc", "127.0.0.1"} <= names(namespace)
    assert stored(namespace, "secrets", "lab-ca-key") is None, "there is a CA of its own"

    renew(namespace)
    wait_until(
        lambda: started_with(namespace) != identity_of(first), "the old certificate is served on"
    )
    wait_until_served(namespace, served(namespace))

    secret = stored(namespace, "secrets", "lab-superlink-tls")
    assert secret
    owners = [each["kind"] for each in secret["metadata"]["ownerReferences"]]
    assert owners == ["Federation"], "it goes with the Federation"
    namespace.delete("lab")
    wait_until(
        lambda: (
            certificate(namespace) is None
            and stored(namespace, "secrets", "lab-superlink-tls") is None
        ),
        "its certificate outlives it",
        timeout=120,  # the garbage collector looks for new kinds twice a minute
    )


def test_who_needs_it_no_longer_has_a_ca_of_its_own(namespace: Namespace) -> None:
    make_authority(namespace)
    namespace.apply(ISSUED)
    namespace.wait_until_ready("lab")
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
