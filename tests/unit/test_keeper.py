"""What the operator keeps of certificates between one look and the next."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from flower_operator.kube.client import Client
from flower_operator.kube.errors import ApiError
from flower_operator.kube.resources import Resource
from flower_operator.operator.caches import Caches
from flower_operator.operator.desired import desired_of
from flower_operator.operator.given import LOOK_SECONDS, Elsewhere
from flower_operator.operator.maker import Maker
from flower_operator.operator.safe import Safe, TrustFault
from flower_operator.operator.trust import Keeper, Trusted, may_have_runs
from flower_operator.status.observation import Connected
from flower_operator.status.observed import Trust, TrustForm, Workload, trust_of
from flower_operator.trust.layout import encode_secret
from tests.harness.certificates import huge_key, issued_certificate
from tests.unit.federations import Document, document
from tests.unit.observations import federation, workload

SERVICE = "fed-superlink.team.svc"


@dataclass
class Cluster:
    """As much of an API server, and of the operator's caches, as a Keeper asks."""

    addresses_: tuple[str, ...] = ()
    strangers: dict[str, dict[str, str]] = field(default_factory=dict)
    objects: dict[str, Trust] = field(default_factory=dict)
    writes: int = 0
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def addresses(self, namespace: str, service: str) -> tuple[str, ...]:
        return self.addresses_

    def trust(self, kind: str, namespace: str, name: str) -> Trust | None:
        return self.objects.get(kind + name)

    def put_trust(self, kind: str, answer: bytes) -> None:
        found = trust_of(msgspec.json.decode(answer, type=TrustForm))
        self.objects[kind + found.metadata.name] = found

    async def get(self, path: str) -> bytes:
        files = self.strangers.get(path.rpartition("/")[2])
        if files is None:
            raise ApiError(404, "NotFound", "not found")
        return msgspec.json.encode({"data": encode_secret(files)})

    async def apply(self, resource: Resource, body: Document) -> bytes:
        self.writes += 1
        return msgspec.json.encode({**body, "metadata": {**body["metadata"], "uid": "1"}})

    apply_new = apply

    def secrets(self, key: tuple[str, str]) -> list[str]:
        return [name for name in self.objects if name.startswith("fed-")]


Care = Callable[..., Awaitable[Trusted]]


def keep(cluster: Cluster, scenario: Callable[[Care], Awaitable[None]], **spec: Any) -> None:
    """Run a scenario, which is told how a Federation is cared for."""
    own = federation(document(insecure=False, **spec))
    outline = desired_of(own)[0].outline

    async def run() -> None:
        client, caches = cast("Client", cluster), cast("Caches", cluster)
        safe, maker = Safe(client, caches), Maker()
        elsewhere = Elsewhere(client, caches, safe, maker)
        keeper = Keeper(caches, safe, maker, elsewhere, lambda: cluster.now)

        async def care(*workloads: Workload, busy: bool = False) -> Trusted:
            return await keeper.care(own, outline, workloads, busy)

        try:
            await scenario(care)
        finally:
            await maker.close()

    asyncio.run(run())


def started_with(trusted: Trusted) -> Workload:
    """The SuperLink, once it runs with that."""
    superlink = workload("Deployment", "fed-superlink", {"observedGeneration": 1}, replicas=1)
    superlink.certificate = trusted.identities.certificate
    superlink.authority = trusted.identities.authority
    superlink.settled = True
    return superlink


def test_a_new_address_waits_for_runs_and_the_status_says_so() -> None:
    cluster = Cluster()

    async def scenario(care: Care) -> None:
        first = await care()
        assert first.notes == ()
        cluster.addresses_ = ("192.0.2.7", "not a name!")
        waiting = await care(started_with(first), busy=True)
        [note] = waiting.notes
        assert note.startswith("a certificate for 192.0.2.7 waits until no run is under way, ")
        assert waiting.identities == first.identities
        writes = cluster.writes
        again = await care(started_with(first), busy=True)
        assert (again.notes, cluster.writes) == (waiting.notes, writes), "nothing is written twice"
        cluster.now += timedelta(hours=1)
        assert (await care(started_with(first), busy=True)).notes == waiting.notes
        cluster.now += timedelta(hours=1)
        after = await care(started_with(first), busy=True)
        assert after.notes == ()
        assert after.identities.certificate != first.identities.certificate

    keep(cluster, scenario, tls={"rotation": {"maxWait": "1h30m"}})


@pytest.mark.parametrize("keeps", [True, False])
def test_a_superlink_with_a_database_may_have_runs_while_it_is_away(keeps: bool) -> None:
    superlink = {"persistence": {"size": "1Gi"}} if keeps else {}
    outline = desired_of(federation(document(insecure=False, superlink=superlink)))[0].outline
    away = workload("StatefulSet", "fed-superlink", {}, replicas=1)
    back = workload("StatefulSet", "fed-superlink", {"readyReplicas": 1}, replicas=1)
    suspended = workload("StatefulSet", "fed-superlink", {}, replicas=0)
    asking = Connected(asking=True)
    found = [may_have_runs(asking, each, outline) for each in (None, suspended, away, back)]
    assert found == [False, False, keeps, True]
    assert not may_have_runs(Connected(2, busy=False), back, outline)
    assert may_have_runs(Connected(why_not="nothing answers", busy=True), away, outline)
    silent = Connected(why_not="nothing answers")
    assert [may_have_runs(silent, each, outline) for each in (away, back)] == [keeps, True]
    assert not may_have_runs(replace(silent, given_up=True), back, outline)


def test_a_certificate_from_elsewhere_is_looked_at_again_and_waits_for_runs() -> None:
    first, second = issued_certificate(SERVICE), issued_certificate(SERVICE)
    cluster = Cluster(strangers={"mine": first})

    async def scenario(care: Care) -> None:
        before = await care()
        assert before.recheck
        assert before.recheck <= LOOK_SECONDS
        assert before.bundle == first["ca.crt"]
        writes = cluster.writes
        assert (await care(started_with(before))).told == ()
        assert cluster.writes == writes
        cluster.strangers["mine"] = second
        waiting = await care(started_with(before), busy=True)
        assert waiting.identities == before.identities
        assert waiting.notes[0].startswith("the new certificate of Secret mine waits until no run")
        assert waiting.bundle == first["ca.crt"] + second["ca.crt"]
        after = await care(started_with(before))
        assert after.identities != before.identities
        assert (await care(started_with(after))).bundle == second["ca.crt"]
        cluster.strangers["mine"] = {**second, "tls.key": ""}
        [fault] = (await care(started_with(after))).faults
        assert fault.message == "spec.tls.secretName: Secret mine: it lacks tls.key"

    keep(cluster, scenario, tls={"secretName": "mine"})


@pytest.mark.parametrize(
    ("file", "size", "words"),
    [
        ("tls.key", None, "11,344 bytes, and 4,096 are accepted: use an ECDSA key, or RSA of 4096"),
        ("tls.crt", 65_537, "65,537 bytes, and 65,536 are accepted: leave out certificates that"),
        ("ca.crt", 262_145, "262,145 bytes, and 262,144 are accepted: leave out CAs that"),
    ],
)
def test_a_secret_that_is_too_large_is_refused_before_anyone_parses_it(
    file: str, size: int | None, words: str
) -> None:
    fit = issued_certificate(SERVICE)
    text = huge_key() if size is None else fit[file].ljust(size, "\n")
    cluster = Cluster(strangers={"mine": {**fit, file: text}})

    async def scenario(care: Care) -> None:
        with pytest.raises(TrustFault) as caught:
            await care()
        fault = caught.value.fault
        assert fault.reason == "CertificateUnfit"
        assert fault.message.startswith(f"spec.tls.secretName: Secret mine: {file} has {words}")

    keep(cluster, scenario, tls={"secretName": "mine"})
