"""Certificates of managed clusters at the hub: issued, renewed in time, and worth nothing later."""

import base64
import json
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from flower_operator.fleet.addon import place_of
from flower_operator.fleet.resources import WORK
from flower_operator.kube.resources import POD
from flower_operator.render.agent import REPORT
from flower_operator.trust.certificates import make_key_pair
from tests.cluster.federations import Document, Namespace, wait_until
from tests.fleet.federations import fleet_manifest, label, left_on, listed, select
from tests.fleet.test_harness import user_of
from tests.fleet.test_hostile import tell_as_south
from tests.fleet.test_identity import (
    agent,
    held,
    keyed_site,
    private_keys,
    supernodes,
)
from tests.harness.managed_cluster import MANAGED_CLUSTERS, ManagedCluster
from tests.harness.open_cluster_management import Hub
from tests.harness.operator_process import OperatorProcess

SECRET = "/api/v1/namespaces/open-cluster-management-agent/secrets/hub-kubeconfig-secret"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def certificate_of(cluster: ManagedCluster) -> x509.Certificate:
    """What its agent has for the hub."""
    data = cluster.plane.request("GET", SECRET)[1]["data"]
    return x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"]))


def aged(certificate: x509.Certificate, hub: Path) -> x509.Certificate:
    """The same by the same CA, but a day old and with ten minutes to go."""
    authority = x509.load_pem_x509_certificate((hub / "clients.crt").read_bytes())
    key = load_pem_private_key((hub / "clients.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(certificate.subject)
        .issuer_name(authority.subject)
        .public_key(certificate.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(minutes=10))
    )
    for each in certificate.extensions:
        builder = builder.add_extension(each.value, each.critical)
    return builder.sign(key, hashes.SHA256())


def running(fleet: Hub, namespace: Namespace) -> Document:
    """What there is of SuperNodes, in their pods and in what the hub gives out for them."""
    pods = {
        each["metadata"]["uid"]: each["status"]["phase"]
        for cluster in fleet.clusters.values()
        for each in listed(cluster.plane, POD, namespace.name)
    }
    addon = place_of(namespace.name, "fed", "edge").addon
    works = {
        (each["metadata"]["uid"], each["metadata"]["generation"])
        for each in listed(fleet.plane, WORK)
        if addon in each["metadata"]["name"]
    }
    return {"pods": pods, "works": works}


def test_a_certificate_is_renewed_in_time_and_no_supernode_notices(
    fleet: Hub, namespace: Namespace
) -> None:
    north = fleet.clusters["north"]
    select(namespace)
    namespace.apply(fleet_manifest())
    namespace.wait_until_ready("fed")
    before = running(fleet, namespace)
    first = certificate_of(north)
    old = aged(first, fleet.plane.folder)
    text = base64.b64encode(old.public_bytes(Encoding.PEM)).decode()
    assert north.plane.request("PATCH", SECRET, {"data": {"tls.crt": text}})[0] == 200

    wait_until(
        lambda: certificate_of(north).not_valid_after_utc > old.not_valid_after_utc,
        lambda: f"it is not renewed: {certificate_of(north).not_valid_after_utc}",
    )
    new = certificate_of(north)
    assert new.subject == first.subject
    assert new.public_key() != first.public_key()
    requests = fleet.plane.request("GET", REQUESTS)[1]["items"]
    issued = base64.b64encode(new.public_bytes(Encoding.PEM)).decode()
    (request,) = (each for each in requests if each["status"].get("certificate") == issued)
    # It asked for it as itself, not as one that is new here.
    assert request["spec"]["username"] == user_of(fleet, north.hub_kubeconfig)
    assert request["status"]["conditions"][0]["reason"] == "AutoApprovedByHubCSRApprovingController"
    file = north.hub_kubeconfig.with_name("tls.crt")
    wait_until(
        lambda: x509.load_pem_x509_certificate(file.read_bytes()) == new, "it is not put to use"
    )
    assert user_of(fleet, north.hub_kubeconfig).startswith("system:open-cluster-management:north:")
    namespace.wait_until_ready("fed")
    assert running(fleet, namespace) == before


def accept(fleet: Hub, cluster: str, *, accepted: bool) -> None:
    body = {"spec": {"hubAcceptsClient": accepted}}
    status, answer = fleet.plane.request("PATCH", f"{MANAGED_CLUSTERS}/{cluster}", body)
    assert status == 200, answer


def work_of(fleet: Hub, namespace: Namespace, cluster: str) -> Document:
    name = f"addon-{place_of(namespace.name, 'lab', 'edge').addon}-deploy-0"
    status, answer = fleet.plane.request("GET", WORK.path(cluster, name))
    assert status == 200, answer
    work: Document = answer
    return work


def tell_of_key(fleet: Hub, namespace: Namespace, public: str) -> None:
    """As the agent of south might, while it still has its certificate."""
    work = work_of(fleet, namespace, "south")
    (report,) = (
        value["fieldValue"]
        for manifest in work["status"]["resourceStatus"]["manifests"]
        for value in manifest["statusFeedback"].get("values", [])
        if value["name"] == REPORT
    )
    report["string"] = json.dumps({"pod": public})
    answer = tell_as_south(fleet, work)
    assert answer.returncode == 0, answer.stderr


def test_a_cluster_that_is_not_accepted_any_more_is_out_at_once_and_not_believed(
    fleet: Hub, namespace: Namespace, operator: OperatorProcess
) -> None:
    north, south = fleet.clusters["north"], fleet.clusters["south"]
    with (
        ExitStack() as restored,
        keyed_site(fleet, namespace, operator, "north", "south") as site,
    ):
        with agent(site, north), agent(site, south):
            site.start_superlink()
            wait_until(
                lambda: not held(north, namespace) and not held(south, namespace),
                lambda: f"pods are held: {site.said()}",
            )
            # Lost it is as good as there.
            restored.enter_context(south.lost())
            restored.callback(accept, fleet, "south", accepted=True)
            namespace.wait_for_condition("lab", "Degraded", "True", "ClusterLost")
            site.wait_for_statuses(registered=2)

            accept(fleet, "south", accepted=False)
            site.wait_for_statuses(registered=1, unregistered=1)
            wait_until(
                lambda: "deletionTimestamp" in work_of(fleet, namespace, "south")["metadata"],
                "its part is not marked for deletion",
            )
            # What it tells of now is not registered; what north tells of later is.
            tell_of_key(fleet, namespace, make_key_pair().public)
            before = private_keys(north, namespace)
            (pod,) = supernodes(north, namespace)
            path = f"{POD.path(namespace.name)}/{pod['metadata']['name']}"
            north.plane.request("DELETE", path)
            wait_until(
                lambda: before.keys().isdisjoint(private_keys(north, namespace)),
                "no new key on north",
            )
            site.wait_for_statuses(registered=1, unregistered=2)

        # Accepted again, it clears up first.
        label(fleet, "south", keyed=None)
        restored.close()
        wait_until(lambda: not left_on(south.plane, namespace), "left on south")
