"""Certificates and keys over months and years: renewed in time, in order, and around runs."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from flower_operator.kube.resources import CONFIG_MAP, DEPLOYMENT, POD, SECRET
from flower_operator.operator.desired import FEDERATION
from flower_operator.render.secrets import AUTHORITY, CERTIFICATE, GATE
from flower_operator.trust.certificates import CERTIFICATE_LIFE
from flower_operator.trust.decisions import SECRET_LIFE
from flower_operator.trust.keys import KEY_LIFE, read_keyring
from flower_operator.trust.layout import encode_secret
from tests.unit.federations import Document, document
from tests.unit.memory_cluster import NAMESPACE, START, Cluster, play
from tests.unit.virtual_time import now

HOUR, DAY = 3600.0, 86400.0
KEYRING = "fed-supernode-default-keys"


def secure(**spec: Any) -> Document:
    return document(isolation="process", insecure=False, **spec)


async def start(cluster: Cluster, manifest: Document) -> None:
    cluster.start_operator()
    await cluster.apply(manifest)
    await cluster.until_ready()


def served(cluster: Cluster) -> x509.Certificate:
    return x509.load_pem_x509_certificate(cluster.files("fed-superlink-tls")["tls.crt"].encode())


def serial(cluster: Cluster) -> int:
    return served(cluster).serial_number


def started_with(cluster: Cluster, annotation: str, part: str = "superlink") -> set[str]:
    return {pod["metadata"]["annotations"][annotation] for pod in cluster.pods(f"fed-{part}")}


def renewal(cluster: Cluster) -> datetime:
    certificate = cluster.trust().certificate
    assert certificate
    return certificate.renewal


async def sleep_until(moment: datetime) -> None:
    await asyncio.sleep((moment - START).total_seconds() - now())


def test_a_secure_federation_serves_a_certificate_of_its_own_authority() -> None:
    async def scenario(cluster: Cluster) -> None:
        manifest = secure(tls={"subjectAltNames": ["fed.example.test"]})
        await start(cluster, manifest)
        bundle = cluster.files("fed-ca", secret=False)["ca.crt"].encode()
        (authority,) = x509.load_pem_x509_certificates(bundle)
        served(cluster).verify_directly_issued_by(authority)
        certificate = cluster.trust().certificate
        assert certificate
        assert {"fed.example.test", "fed-superlink.team.svc"} <= set(certificate.names)
        assert started_with(cluster, CERTIFICATE) == {certificate.identity}
        assert cluster.differences([manifest]) == []
        await cluster.writes_within(60)
        assert await cluster.writes_within(120) == []

    play(scenario)


def test_a_restarted_operator_keeps_every_certificate() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure(supernodeAuth={"enabled": True, "allowSubprocess": True}))
        await cluster.writes_within(60)
        await cluster.stop_operator()
        cluster.start_operator()
        assert await cluster.writes_within(90) == []

    play(scenario)


def test_a_certificate_is_renewed_by_time_alone_long_before_it_expires() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure())
        first, due = serial(cluster), renewal(cluster)
        await sleep_until(due - timedelta(hours=1))
        assert serial(cluster) == first, "too early"
        await cluster.until(lambda: serial(cluster) != first, "it is not renewed", 2 * HOUR, 60.0)
        assert due < START + CERTIFICATE_LIFE - timedelta(days=20)
        await cluster.until_ready()
        certificate = cluster.trust().certificate
        assert certificate
        assert started_with(cluster, CERTIFICATE) == {certificate.identity}
        assert len(cluster.trust().authorities) == 1
        assert "CertificateDue" in cluster.events()

    play(scenario, years=True)


def test_a_renewal_waits_for_a_run_and_follows_its_end() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure())
        first, due = serial(cluster), renewal(cluster)
        await sleep_until(due - timedelta(hours=30))
        cluster.superlinks.start_run()
        await sleep_until(due + timedelta(days=3))
        assert serial(cluster) == first
        assert "waits until no run" in cluster.condition("Ready")["message"]
        cluster.superlinks.finish_runs()
        await cluster.until(lambda: serial(cluster) != first, "it is not renewed", 25 * HOUR, HOUR)

    play(scenario, years=True)


def test_behind_a_gateway_a_certificate_is_renewed_under_a_run_and_no_pod_restarts() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure(superlink={"gateway": {"enabled": True}}))
        first, due = serial(cluster), renewal(cluster)
        before = {each["metadata"]["uid"] for each in cluster.pods()}
        await sleep_until(due - timedelta(hours=30))
        cluster.superlinks.start_run()
        await sleep_until(due + timedelta(hours=25))
        assert serial(cluster) != first
        assert {each["metadata"]["uid"] for each in cluster.pods()} == before
        assert "waits" not in cluster.condition("Ready")["message"]

    play(scenario, years=True)


def test_a_renewal_waits_for_a_run_no_longer_than_max_wait() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure(tls={"rotation": {"maxWait": "30h"}}))
        first, due = serial(cluster), renewal(cluster)
        await sleep_until(due - timedelta(hours=30))
        cluster.superlinks.start_run()
        await sleep_until(due + timedelta(hours=29))
        assert serial(cluster) == first
        await sleep_until(due + timedelta(hours=31))
        assert serial(cluster) != first

    play(scenario, years=True)


def test_an_authority_is_rolled_in_an_order_that_breaks_no_connection() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure())
        (old,) = cluster.trust().authorities
        steps: list[tuple[int, int]] = []

        def check() -> None:
            state = cluster.trust()
            assert state.certificate
            assert state.certificate.valid_at(cluster.clock())
            assert state.certificate.authority in {each.identity for each in state.authorities}
            published = state.published or ()
            assert state.certificate.authority in published, "clients do not trust its CA"
            if old.identity not in published:
                assert started_with(cluster, AUTHORITY, "supernode") == {published[-1]}
                assert started_with(cluster, CERTIFICATE) == {state.certificate.identity}
            steps.append((len(state.authorities), len(published)))

        cluster.server.changed.append(check)
        await cluster.until(
            lambda: old.identity not in {each.identity for each in cluster.trust().authorities},
            "the CA is not rolled",
            (old.not_after - START).total_seconds(),
            12 * HOUR,
        )
        assert cluster.clock() < old.not_after - timedelta(days=30)
        assert (2, 2) in steps, "clients never knew both"
        (new,) = cluster.trust().authorities
        await cluster.until_ready()
        assert started_with(cluster, AUTHORITY, "supernode") == {new.identity}
        reasons = cluster.events()
        order = [reasons.index(each) for each in ("AuthorityDue", "ClientsCalled")]
        order.append(reasons.index("OldAuthorityUnused"))
        assert order == sorted(order)
        assert len(cluster.files("fed-ca", secret=False)["ca.crt"].split("BEGIN")) == 2

    play(scenario, years=True)


@pytest.mark.parametrize("part", ["fed-superlink", "fed-supernode"])
def test_an_old_authority_is_trusted_until_every_pod_has_the_new_one(part: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure())
        (old,) = cluster.trust().authorities
        await sleep_until(old.renewal - timedelta(hours=1))
        held = [pod["metadata"]["name"] for pod in cluster.pods(part)]
        for name in held:
            await cluster.patch(POD, name, {"metadata": {"finalizers": ["test/hold"]}})
        await sleep_until(old.renewal + timedelta(days=62))
        assert all(cluster.get(POD, name) for name in held), "they are gone"
        state = cluster.trust()
        assert len(state.authorities) == 2
        assert old.identity in (state.published or ())
        for name in held:
            await cluster.patch(POD, name, {"metadata": {"finalizers": []}})
        await cluster.until(
            lambda: len(cluster.trust().authorities) == 1, "it is never dropped", 2 * DAY, HOUR
        )

    play(scenario, years=True)


def test_a_namesake_makes_certificates_of_its_own() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure())
        first = serial(cluster)
        cluster.controllers.collects_garbage = False
        await cluster.delete(FEDERATION, "fed")
        await cluster.apply(secure())
        await cluster.until(lambda: cluster.reason("Degraded") == "NameTaken", "it is not told")
        assert serial(cluster) == first
        cluster.controllers.collects_garbage = True
        cluster.controllers.step()
        await cluster.until_ready()
        assert serial(cluster) != first

    play(scenario)


def test_clients_are_not_restarted_for_a_new_authority_while_a_run_is_in_progress() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure())
        (old,) = cluster.trust().authorities
        await sleep_until(old.renewal - timedelta(days=1))
        await cluster.until_ready()
        supernodes = {pod["metadata"]["uid"] for pod in cluster.pods("fed-supernode")}
        cluster.superlinks.start_run()
        await sleep_until(old.renewal + timedelta(days=2))
        assert len(cluster.trust().authorities) == 2
        assert {pod["metadata"]["uid"] for pod in cluster.pods("fed-supernode")} == supernodes
        cluster.superlinks.finish_runs()
        await cluster.until(
            lambda: not supernodes & {pod["metadata"]["uid"] for pod in cluster.pods("fed-super")},
            "they never get the new CA",
            2 * DAY,
            HOUR,
        )

    play(scenario, years=True)


def secure_executor() -> Document:
    """Of a release whose SuperExecs share a secret with their owners."""
    superexec = "flwr/superexec:1.41.0"
    return secure(
        superlink={"image": "flwr/superlink:1.41.0", "superexecImage": superexec},
        supernodes={"image": "flwr/supernode:1.41.0"},
        pool={"images": {"superexecClientApp": superexec}},
    )


def test_the_secrets_of_superexecs_are_renewed_between_runs() -> None:
    def secrets(cluster: Cluster) -> set[str]:
        names = ("fed-superexec", "fed-supernode-default-superexec")
        return {cluster.files(name)["secret"] for name in names}

    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure_executor())
        first, due = secrets(cluster), START + SECRET_LIFE
        assert len(first) == 2
        await sleep_until(due - timedelta(days=1))
        assert secrets(cluster) == first
        cluster.superlinks.start_run()
        await sleep_until(due + timedelta(days=1))
        assert secrets(cluster) == first
        cluster.superlinks.finish_runs()
        await cluster.until(
            lambda: first.isdisjoint(secrets(cluster)), "one stays", 25 * HOUR, HOUR
        )
        await cluster.until_ready()

    play(scenario, years=True)


def test_the_secret_of_a_pool_goes_with_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        document = secure_executor()
        pool = document["spec"]["supernodes"]["pools"][0]
        document["spec"]["supernodes"]["pools"] = [pool, {**pool, "name": "other"}]
        await start(cluster, document)
        kept = cluster.files("fed-supernode-default-superexec")
        assert cluster.files("fed-supernode-other-superexec")
        document["spec"]["supernodes"]["pools"] = [pool]
        await cluster.apply(document)
        await cluster.until(lambda: not cluster.files("fed-supernode-other-superexec"), "it stays")
        await cluster.until_ready()
        assert cluster.files("fed-supernode-default-superexec") == kept

    play(scenario)


@pytest.mark.parametrize(
    ("name", "file"), [("fed-superlink-tls", "tls.key"), ("fed-ca", "ca.crt"), ("fed-ca-key", "")]
)
def test_a_certificate_that_someone_spoiled_is_made_again(name: str, file: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure())
        resource = CONFIG_MAP if name == "fed-ca" else SECRET
        before = cluster.get(resource, name)
        assert before
        if file:
            spoiled = {file: "spoiled"}
            data = spoiled if resource == CONFIG_MAP else encode_secret(spoiled)
            await cluster.patch(resource, name, {"data": data})
        else:
            await cluster.delete(resource, name)

        def is_whole() -> bool:
            stored = cluster.get(resource, name)
            return stored is not None and stored != before and not cluster.trust().faults

        await cluster.until(is_whole, "it stays as it is", 10)
        await cluster.writes_within(10)
        await cluster.until_ready()
        assert cluster.differences([secure()]) == []

    play(scenario)


def test_a_secret_of_someone_else_is_reported_and_left_unchanged() -> None:
    async def scenario(cluster: Cluster) -> None:
        body = {"metadata": {"name": "fed-superlink-tls"}, "data": encode_secret({"a": "mine"})}
        await cluster.user.create(SECRET, NAMESPACE, body)
        cluster.start_operator()
        await cluster.apply(secure())
        await cluster.until(lambda: cluster.reason("Degraded") == "NameTaken", "it is not told")
        assert "Secret fed-superlink-tls" in cluster.condition("Ready")["message"]
        assert cluster.get(DEPLOYMENT, "fed-superlink") is None
        assert cluster.files("fed-superlink-tls") == {"a": "mine"}
        await cluster.delete(SECRET, "fed-superlink-tls")
        await cluster.until_ready()

    play(scenario)


def keys(cluster: Cluster) -> dict[str, str]:
    """The public keys of the pool's SuperNodes."""
    ring = read_keyring(cluster.files(KEYRING))
    return dict(ring.keys) if ring else {}


def test_a_supernode_starts_when_its_key_is_registered() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.superlinks.reachable = False
        cluster.start_operator()
        await cluster.apply(secure(supernodeAuth={"enabled": True, "allowSubprocess": True}))
        await cluster.until(
            lambda: cluster.condition("Ready").get("reason") == "WaitingForKey", "it is not told"
        )
        held = cluster.pods("fed-supernode")
        assert len(held) == 2
        assert all({"name": GATE} in pod["spec"]["schedulingGates"] for pod in held)
        cluster.superlinks.reachable = True
        await cluster.until_ready()
        registered = {node.public_key for node in cluster.superlinks.registered}
        assert registered == {key.encode() for key in keys(cluster).values()}
        assert not any(pod["spec"].get("schedulingGates") for pod in cluster.pods())

    play(scenario)


def test_the_keys_of_removed_supernodes_are_unregistered() -> None:
    async def scenario(cluster: Cluster) -> None:
        pools = [{"name": "default", "replicas": 2}, {"name": "second", "replicas": 1}]
        await start(
            cluster, secure(supernodeAuth={"enabled": True, "allowSubprocess": True}, pools=pools)
        )
        await cluster.apply(
            secure(supernodeAuth={"enabled": True, "allowSubprocess": True}, pool={"replicas": 1})
        )
        await cluster.until(
            lambda: (
                [node.name for node in cluster.superlinks.registered if node.status == "registered"]
                == ["default-0"]
            ),
            lambda: str(cluster.superlinks.registered),
        )
        await cluster.until_ready()
        await cluster.until(
            lambda: cluster.get(SECRET, "fed-supernode-second-keys") is None, "its keys stay"
        )
        assert set(keys(cluster)) == {"0"}

    play(scenario)


def test_keys_are_replaced_by_time_alone_between_runs() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, secure(supernodeAuth={"enabled": True, "allowSubprocess": True}))
        first = keys(cluster)
        await sleep_until(START + KEY_LIFE - timedelta(days=1))
        assert keys(cluster) == first
        cluster.superlinks.start_run()
        await sleep_until(START + KEY_LIFE + timedelta(days=1))
        assert keys(cluster) == first
        cluster.superlinks.finish_runs()
        await cluster.until(lambda: keys(cluster) != first, "the keys stay", 25 * HOUR, HOUR)
        await cluster.until_ready(seconds=30 * HOUR)
        assert not set(keys(cluster).values()) & set(first.values())
        await cluster.until(
            lambda: (
                {
                    node.public_key
                    for node in cluster.superlinks.registered
                    if node.status == "registered"
                }
                == {key.encode() for key in keys(cluster).values()}
            ),
            "old keys stay registered",
            3 * DAY,
            HOUR,
        )

    play(scenario, years=True)
