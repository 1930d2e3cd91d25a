"""Certificates from cert-manager, and Secrets that only look as if it had made them."""

from typing import Any

import pytest

from flower_operator.kube.resources import CERTIFICATE, SECRET
from flower_operator.operator.issuer import ISSUED
from flower_operator.render.metadata import trust_labels
from flower_operator.trust.layout import encode_secret
from tests.harness.certificates import issued_certificate
from tests.unit.federations import Document, document
from tests.unit.memory_cluster import NAMESPACE, START, Cluster, play


def secure(**spec: Any) -> Document:
    return document(isolation="process", insecure=False, **spec)


ISSUED_BY_HOUSE = {"issuerRef": {"name": "house"}}
SERVER_SECRET = "fed-superlink-tls"


async def issue(cluster: Cluster, owner: Document | None = None) -> Document:
    """What cert-manager answers a Certificate with; `owner`: of the Secret."""
    files = issued_certificate("fed-superlink.team.svc", "127.0.0.1", now=START)
    metadata: Document = {
        "name": SERVER_SECRET,
        "labels": trust_labels("fed"),
        "annotations": {ISSUED: SERVER_SECRET},
    }
    if owner:
        metadata["ownerReferences"] = [owner]
    body = {"metadata": metadata, "data": encode_secret(files)}
    await cluster.user.create(SECRET, NAMESPACE, body)
    secret = cluster.get(SECRET, SERVER_SECRET)
    assert secret
    return secret


def owners(body: Document | None) -> list[str]:
    assert body
    return [each["uid"] for each in body["metadata"].get("ownerReferences", ())]


def uid_of(cluster: Cluster) -> str | None:
    secret = cluster.get(SECRET, SERVER_SECRET)
    return secret["metadata"]["uid"] if secret else None


def test_a_secret_that_cert_manager_issued_is_removed_with_the_issuer() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        await cluster.apply(secure(tls=ISSUED_BY_HOUSE))
        await cluster.until(lambda: cluster.get(CERTIFICATE, SERVER_SECRET), "it is not asked for")
        issued = await issue(cluster)
        await cluster.until_ready()
        assert owners(cluster.get(SECRET, SERVER_SECRET)) == [
            cluster.federation()["metadata"]["uid"]
        ]
        await cluster.apply(secure())
        await cluster.until(
            lambda: cluster.get(CERTIFICATE, SERVER_SECRET) is None, "it is still asked for"
        )
        await cluster.until_ready()
        assert uid_of(cluster) != issued["metadata"]["uid"]

    play(scenario)


def test_a_secret_that_was_issued_while_the_operator_was_away_is_removed() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        await cluster.apply(secure(tls=ISSUED_BY_HOUSE))
        await cluster.until(lambda: cluster.get(CERTIFICATE, SERVER_SECRET), "it is not asked for")
        await cluster.stop_operator()
        issued = await issue(cluster)
        await cluster.apply(secure())
        cluster.start_operator()
        await cluster.until_ready()
        assert cluster.get(CERTIFICATE, SERVER_SECRET) is None
        assert uid_of(cluster) != issued["metadata"]["uid"]

    play(scenario)


@pytest.mark.parametrize("owned", [False, True])
def test_a_secret_of_someone_else_is_not_deleted_for_its_labels(owned: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        stranger = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "another"}
        cluster.controllers.collects_garbage = False
        theirs = await issue(cluster, stranger | {"controller": True} if owned else None)
        cluster.start_operator()
        await cluster.apply(secure())
        await cluster.writes_within(60)
        assert cluster.get(SECRET, SERVER_SECRET) == theirs
        assert cluster.reason("Degraded") == "NameTaken"
        assert f"Secret {SERVER_SECRET} already exists" in cluster.condition("Ready")["message"]

    play(scenario)


@pytest.mark.parametrize("owned", [False, True])
def test_a_secret_of_someone_else_is_not_served_for_its_labels(owned: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        stranger = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "another"}
        cluster.controllers.collects_garbage = False
        theirs = await issue(cluster, stranger | {"controller": True} if owned else None)
        cluster.start_operator()
        await cluster.apply(secure(tls=ISSUED_BY_HOUSE))
        await cluster.writes_within(60)
        assert cluster.get(SECRET, SERVER_SECRET) == theirs
        assert cluster.reason("Degraded") == "NameTaken"
        assert cluster.get(CERTIFICATE, SERVER_SECRET) is None

    play(scenario)
