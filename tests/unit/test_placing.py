"""What is written to a hub, in which order, and what keeps it from being written."""

import asyncio
import copy
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from flower_operator.api.manifest import parse
from flower_operator.api.types import Rollout
from flower_operator.fleet.addon import Route, place_of
from flower_operator.fleet.hub import Hub, Identity
from flower_operator.fleet.keys import read_record
from flower_operator.fleet.membership import Membership
from flower_operator.fleet.observed import Addon, Cluster, Object, ObjectForm, Work, object_of
from flower_operator.fleet.partitions import Partitions, read, write
from flower_operator.fleet.placing import Order, Outcome, Placing
from flower_operator.fleet.resources import OWN
from flower_operator.fleet.rollout import Spread
from flower_operator.fleet.survey import PlacedPool, Survey, Surveyor
from flower_operator.kube.client import Client
from flower_operator.kube.errors import ApiError
from flower_operator.kube.resources import Resource
from flower_operator.operator.caches import Caches
from flower_operator.operator.desired import desired_of
from flower_operator.operator.ledger import Ledger
from flower_operator.operator.placement import Placements
from flower_operator.operator.safe import TrustFault
from flower_operator.render import Facts
from flower_operator.render.metadata import RELEASE
from flower_operator.status.observation import Connected, Fault
from flower_operator.status.observed import Metadata
from flower_operator.trust.certificates import make_key_pair
from tests.unit.federations import Document, document
from tests.unit.observations import UID, federation

KEY = ("team", "fed")
ADDON = place_of("team", "fed", "edge").addon
NOW = datetime(2026, 1, 1, tzinfo=UTC)
POOL = PlacedPool("edge", 0, "gpu", 1, 1, "1.25.0", Rollout())


@dataclass
class Server:
    """As much of a hub, and of what is known of it, as is asked here."""

    stored: dict[str, Document] = field(default_factory=dict)
    known: dict[Identity, Object] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    applied: dict[str, Document] = field(default_factory=dict)
    """What was applied last of each kind."""
    refused: Collection[str] = ()
    refusal: int = 500
    version: int = 0
    report: str | None = None
    """What every cluster tells of keys."""
    finalizers: list[str] = field(default_factory=list)

    async def get(self, path: str) -> bytes:
        name = path.rpartition("/")[2]
        if path.endswith(f"/federations/{name}"):
            metadata = {"uid": UID, "resourceVersion": "41", "finalizers": self.finalizers}
            return msgspec.json.encode({"metadata": metadata})
        if name not in self.stored:
            raise ApiError(404, "NotFound", "not found")
        return msgspec.json.encode(self.stored[name])

    async def create(self, resource: Resource, namespace: str, body: Document) -> bytes:
        return self._store(body)

    async def replace(self, resource: Resource, body: Document) -> bytes:
        found = self.stored[body["metadata"]["name"]]["metadata"]
        if body["metadata"].get("resourceVersion") not in (None, found["resourceVersion"]):
            raise ApiError(409, "Conflict", "it has changed")
        return self._store(body)

    def _store(self, body: Document) -> bytes:
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        self.stored[body["metadata"]["name"]] = body
        return msgspec.json.encode(body)

    async def apply(self, resource: Resource, body: Document) -> bytes:
        metadata = body["metadata"]
        title = f"{resource.kind} {metadata.get('namespace', '')}".strip()
        await asyncio.sleep(0)  # others may come in between
        if title in self.refused:
            raise ApiError(self.refusal, "InternalError", "not now")
        self.log.append(title)
        self.applied[resource.kind] = body
        generation = 1 if "uid" not in metadata else 2
        return msgspec.json.encode(
            {**body, "metadata": {**metadata, "uid": "u", "generation": generation}}
        )

    apply_new = apply

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, uid: str | None, _: str
    ) -> bytes:
        self.log.append(f"no {resource.kind} {namespace} {uid}")
        return b"{}"

    async def patch(self, resource: Resource, namespace: str, name: str, body: Document) -> bytes:
        assert body["metadata"]["resourceVersion"] == "41"
        self.finalizers = body["metadata"]["finalizers"]
        return b"{}"

    def follow(self, *_: object) -> None:
        pass

    def decided(self, namespace: str, placement: str) -> set[str]:
        return set(self.clusters)

    def newest_apps(self, namespace: str, addon: str) -> str | None:
        return None

    def node_port(self, *_: object) -> None:
        return None

    def addresses(self, namespace: str, service: str) -> tuple[str, ...]:
        return ("192.0.2.7",) if (namespace, service) == ("team", "fed-superlink") else ()

    def objects(self, key: tuple[str, str]) -> dict[Identity, Object]:
        return dict(self.known)

    def put(self, kind: str, answer: bytes) -> Object:
        kept = object_of(msgspec.json.decode(answer, type=ObjectForm))
        if kind in OWN:
            self.known[kind, kept.metadata.namespace, kept.metadata.name] = kept
        return kept

    def works(self, addon: str) -> dict[str, Work]:
        numbers = {"ready": 1, "desired": 1, "updated": 1}
        return {name: Work(name, addon, numbers, report=self.report) for name in self.clusters}

    def addons(self, key: tuple[str, str], addon: str) -> Mapping[str, Addon]:
        metadata = Metadata(name=addon)
        found = {name: Addon(metadata, (9 - at,), "True") for at, name in enumerate(self.clusters)}
        made = {each[1]: it for each, it in self.known.items() if each[0] == "ManagedClusterAddOn"}
        return found | {name: Addon(it.metadata, (), "True") for name, it in made.items()}


def placing_of(server: Server) -> Placing:
    return Placing(cast("Client", server), cast("Hub", server), lambda: NOW)


def care(
    server: Server,
    *members: str,
    release: str = "1.25.0",
    held: Collection[str] = (),
    isolation: str = "subprocess",
    labels: Mapping[str, str] | None = None,
) -> Outcome:
    pool = {"name": "edge", "replicas": 1, "placement": {"name": "gpu"}}
    if labels:
        pool["podTemplate"] = {"metadata": {"labels": dict(labels)}}
    manifest = document(isolation=isolation, pool=pool, version=release)
    order = Order(lambda: parse(manifest), (), Facts(namespace="team"), Route("hub", 1), None, None)
    survey = Survey({"edge": Membership(members, ())})
    partitions: Partitions = {("edge", name): (at,) for at, name in enumerate(members)}
    known, holders = replace(POOL, release=release), [("edge", name) for name in held]
    placing = placing_of(server)
    return asyncio.run(placing.care(KEY, order, [known], survey, partitions, {}, holders))


def test_what_all_share_comes_first_then_each_cluster_s_config_and_its_addon() -> None:
    server = Server()
    care(server, "paris")
    assert server.log == [
        "AddOnTemplate",
        "ClusterManagementAddOn",
        "AddOnDeploymentConfig team",
        "AddOnDeploymentConfig paris",
        "ManagedClusterAddOn paris",
    ]
    care(server, "paris")
    assert len(server.log) == 5, "nothing is written twice"


def test_an_addon_is_not_made_before_its_config_and_others_do_not_wait() -> None:
    server = Server(refused=["AddOnDeploymentConfig paris"])
    outcome = care(server, "paris", "rome")
    assert "ManagedClusterAddOn paris" not in server.log
    assert "ManagedClusterAddOn rome" in server.log
    assert outcome.retry is not None


def test_what_a_hub_refuses_for_good_is_told_in_its_words() -> None:
    outcome = care(Server(refused=["AddOnDeploymentConfig paris"], refusal=403), "paris")
    assert outcome.pending == []
    assert [words.partition(": ")[2] for words in outcome.refused] == ["not now"]
    assert "paris" in outcome.refused[0]


def test_a_cluster_that_is_held_back_is_not_changed_and_others_join_at_the_new_release() -> None:
    server = Server()
    care(server, "paris")
    del server.log[:]
    care(server, "paris", "rome", release="1.26.1", held=["paris"])
    assert server.log == [
        "AddOnTemplate",
        "ClusterManagementAddOn",
        "AddOnDeploymentConfig rome",
        "ManagedClusterAddOn rome",
    ]
    del server.log[:]
    care(server, "paris", "rome", release="1.26.1")
    assert server.log[:2] == ["AddOnDeploymentConfig paris", "ManagedClusterAddOn paris"]


def workload_of(applied: Document) -> Document:
    spec = applied["spec"]
    part = spec.get("agentSpec") or spec["manifestWorkTemplate"]
    workload: Document = part["workload"]["manifests"][-1]
    return workload


def selector_of(applied: Document) -> Document:
    labels: Document = workload_of(applied)["spec"]["selector"]["matchLabels"]
    return labels


@pytest.mark.parametrize("kind", ["AddOnTemplate", "ManifestWorkReplicaSet"])
@pytest.mark.parametrize("release", ["1.25.0", "1.26.1"])
@pytest.mark.parametrize("stays", [True, False])
def test_a_selector_with_more_labels_is_kept_on_clusters_until_pods_lack_them(
    kind: str, release: str, stays: bool
) -> None:
    server, blue = Server(), {"team": "blue"}
    care(server, "paris", isolation="process", labels=blue)
    assert "team" not in selector_of(server.applied[kind])
    # As an operator before this one made it.
    old = copy.deepcopy(server.applied[kind])
    selector_of(old)["team"] = "blue"
    server.stored[old["metadata"]["name"]] = old
    labels = {"late": "yes"} | (blue if stays else {})
    care(server, "paris", isolation="process", labels=labels, release=release)
    new = server.applied[kind]
    assert workload_of(new)["spec"]["template"]["metadata"]["labels"]["late"] == "yes"
    assert ("team" in selector_of(new)) == stays


@pytest.mark.parametrize(("available", "goes"), [("True", True), ("Unknown", False), (None, True)])
def test_before_a_cluster_loses_its_addon_it_is_asked_whether_it_is_only_lost(
    available: str | None, goes: bool
) -> None:
    server = Server()
    care(server, "paris")
    if available:
        told = [{"type": "ManagedClusterConditionAvailable", "status": available}]
        accepted = {"spec": {"hubAcceptsClient": True}, "status": {"conditions": told}}
        server.stored["paris"] = {"metadata": {"name": "paris"}, **accepted}
    del server.log[:]
    care(server)
    assert server.log == (["no ManagedClusterAddOn paris u"] if goes else [])


def test_who_leaves_keeps_its_number_until_nothing_of_it_is_left() -> None:
    survey = Survey({"edge": Membership(("paris",), ("rome",))})
    held: Partitions = {("edge", "rome"): (7, 8), ("edge", "oslo"): (9,)}
    assert survey.holders([POOL], held) == {("edge", "paris"): 1, ("edge", "rome"): 2}


def test_who_has_lost_nothing_yet_keeps_its_keys() -> None:
    survey = Survey({"edge": Membership(("paris",), ("oslo", "rome"), ("rome",))})
    assert survey.keyholders == [("edge", "paris"), ("edge", "rome")]


def test_what_a_lost_cluster_last_told_is_not_waited_for_and_its_number_is_known() -> None:
    server = Server()
    server.clusters = {"paris": Cluster("paris", True, ""), "rome": Cluster("rome", False, "")}
    surveyor = Surveyor(cast("Hub", server), lambda: NOW)
    assert [each.metadata.namespace for each in surveyor.workloads(KEY, [POOL])] == ["paris"]
    assert surveyor.recorded(KEY, [POOL]) == {("edge", "paris"): (9,), ("edge", "rome"): (8,)}


class HubOfTwoReleases(Server):
    """Paris has the release that it is to have, Rome still runs an older one."""

    def addons(self, key: tuple[str, str], addon: str) -> Mapping[str, Addon]:
        metadata = Metadata(name=addon, annotations={RELEASE: "1.26.1"})
        return {name: Addon(metadata, (), "True") for name in self.clusters}

    def works(self, addon: str) -> dict[str, Work]:
        return {
            "paris": Work("paris", addon, {}, release="1.26.1"),
            "rome": Work("rome", addon, {}, release="1.25.0"),
        }

    def newest_apps(self, namespace: str, addon: str) -> str:
        return "second"

    def apps(self, addon: str) -> dict[str, Work]:
        return {
            "paris": Work("paris", addon, {}, mark="second"),
            "rome": Work("rome", addon, {}, mark="first"),
        }


def surveyor_of_two() -> tuple[Surveyor, Survey]:
    server = HubOfTwoReleases()
    server.clusters = {name: Cluster(name, True, "") for name in ("paris", "rome", "oslo")}
    survey = Survey({"edge": Membership(("oslo", "paris", "rome"), ())})
    return Surveyor(cast("Hub", server), lambda: NOW), survey


def test_a_cluster_is_done_when_it_runs_the_release_that_it_is_to_have() -> None:
    surveyor, survey = surveyor_of_two()
    (advance,) = surveyor.advances(KEY, [POOL], survey)
    assert {site.cluster: site.settled for site in advance.sites} == {
        "oslo": False,
        "paris": True,
        "rome": False,
    }


def test_superexecs_of_clientapps_are_counted_on_the_clusters_of_the_pool() -> None:
    surveyor, survey = surveyor_of_two()
    spread = surveyor.spread(KEY, POOL, survey)
    assert spread.missing == "SuperExecs of ClientApps are ready on 1 of 3 clusters"
    assert surveyor.spread(KEY, POOL, Survey({"edge": None})) == Spread()


def leave(server: Server) -> bool:
    return asyncio.run(placing_of(server).leave(KEY))


def test_a_federation_that_goes_waits_for_clusters_that_are_there_alone() -> None:
    server = Server()
    care(server, "paris", "rome")
    server.clusters = {"paris": Cluster("paris", True, ""), "rome": Cluster("rome", False, "")}
    del server.log[:]
    assert not leave(server)
    assert set(server.log) == {
        "no ManagedClusterAddOn paris u",
        "no ManagedClusterAddOn rome u",
        "no AddOnDeploymentConfig rome u",
    }


OTHER = {"ownerReferences": [{"kind": "Federation", "name": "fed", "uid": "x", "controller": True}]}
OURS = {"ownerReferences": [{"kind": "Federation", "name": "fed", "uid": UID, "controller": True}]}


def test_of_two_operators_that_write_at_the_same_time_one_is_refused_and_reads_again() -> None:
    server, own = Server(), federation(document())

    async def scenario() -> None:
        one, two = (Ledger(cast("Client", server), "partitions", read, write) for _ in range(2))
        await one.write(own, {("edge", "paris"): (0,)})
        assert await two.read(own) == {("edge", "paris"): (0,)}
        await one.write(own, {("edge", "paris"): (0,), ("edge", "rome"): (1,)})
        with pytest.raises(ApiError) as error:
            await two.write(own, {("edge", "paris"): (0,), ("edge", "oslo"): (1,)})
        assert error.value.code == 409
        assert await two.read(own) == {("edge", "paris"): (0,), ("edge", "rome"): (1,)}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("metadata", "data", "reason"),
    [
        (OTHER, {}, "NameTaken"),
        ({}, {}, "NameTaken"),
        (OURS, {"edge": "paris many"}, "LedgerUnreadable"),
    ],
)
def test_a_ledger_that_is_not_ours_or_makes_no_sense_is_left_alone(
    metadata: Document, data: dict[str, Any], reason: str
) -> None:
    body = {"metadata": {"name": "fed-partitions", **metadata}, "data": data}
    server = Server(stored={"fed-partitions": body})
    ledger = Ledger(cast("Client", server), "partitions", read, write)
    with pytest.raises(TrustFault) as error:
        asyncio.run(ledger.read(federation(document())))
    assert error.value.fault.reason == reason


SECURE: Document = {"insecure": False, "supernodeAuth": {"enabled": True, "allowSubprocess": True}}
SERVICE = {"type": "NodePort", "externalAddress": "hub.example", "nodePorts": {"grpc": 30092}}


def test_numbers_and_keys_are_written_down_and_a_claim_to_another_s_key_is_told() -> None:
    """Before any cluster hears of them; of a ledger that is lost the addons still tell."""
    public = make_key_pair().public
    server = Server(report=json.dumps({"pod": public}))
    server.clusters = {name: Cluster(name, True, "") for name in ("oslo", "paris", "rome")}
    pool = {"name": "edge", "replicas": 1, "placement": {"name": "gpu"}}
    own = federation(document(pool=pool, superlink={"service": SERVICE}, **SECURE))
    outline = desired_of(own)[0].outline
    hub, client, caches = cast("Hub", server), cast("Client", server), cast("Caches", server)
    placements = Placements(client, caches, hub, lambda: NOW)

    others = {("edge", "paris"): (8,), ("edge", "rome"): (7,)}

    async def scenario() -> Outcome:
        look = await placements.look(KEY, own, outline, Connected())
        assert look
        assert look.partitions == {("edge", "oslo"): (9,), **others}
        assert not server.log
        facts = Facts(namespace="team")
        _, outcome = await placements.care(KEY, own, outline, look, facts, "CA", (), ())
        return outcome

    told = asyncio.run(scenario()).refused
    assert read(server.stored["fed-partitions"]["data"])["edge", "rome"] == (7,)
    record = read_record(server.stored["fed-fleet-keys"]["data"])
    assert record.keys == {public: (("edge", "oslo"), NOW)}
    assert [each.partition(" tells of a key")[0] for each in told] == [
        "cluster paris",
        "cluster rome",
    ]
    assert server.finalizers == ["flower.flwr.ai/fleet"]


def test_clusters_are_led_to_the_load_balancer_of_the_federation_s_own_service() -> None:
    server = Server(clusters={"oslo": Cluster("oslo", True, "")})
    pool = {"name": "edge", "replicas": 1, "placement": {"name": "gpu"}}
    own = federation(document(pool=pool, superlink={"service": {"type": "LoadBalancer"}}))
    outline = desired_of(own)[0].outline
    hub, client, caches = cast("Hub", server), cast("Client", server), cast("Caches", server)
    placements = Placements(client, caches, hub, lambda: NOW)

    async def scenario() -> None:
        look = await placements.look(KEY, own, outline, Connected())
        assert look
        facts = Facts(namespace="team")
        placed, _ = await placements.care(KEY, own, outline, look, facts, None, (), ())
        assert "NoAddress" not in str(placed[0])

    asyncio.run(scenario())
    assert "192.0.2.7" in str(server.applied)


def test_a_cluster_that_reports_too_many_keys_gets_none_of_them_registered() -> None:
    """A thousand where one SuperNode runs; a ClusterStatus says of whom the fault is."""
    body = "-----BEGIN PUBLIC KEY-----\n{:064}\n-----END PUBLIC KEY-----\n"
    server = Server(report=json.dumps({str(at): body.format(at) for at in range(1000)}))
    server.clusters = {"oslo": Cluster("oslo", True, "")}
    pool = {"name": "edge", "replicas": 1, "placement": {"name": "gpu"}}
    own = federation(document(pool=pool, superlink={"service": SERVICE}, **SECURE))
    outline = desired_of(own)[0].outline
    hub, client, caches = cast("Hub", server), cast("Client", server), cast("Caches", server)
    placements = Placements(client, caches, hub, lambda: NOW)

    async def scenario() -> tuple[int, tuple[Fault, ...]]:
        look = await placements.look(KEY, own, outline, Connected())
        assert look
        facts = Facts(namespace="team")
        placed, _ = await placements.care(KEY, own, outline, look, facts, "CA", (), ())
        return sum(len(ring.keys) for _, ring, _ in look.enrolled.roster), placed[0].faults

    registered, faults = asyncio.run(scenario())
    assert registered == 0
    assert "fed-fleet-keys" not in server.stored
    message = (
        "pool edge: cluster oslo reports 1000 keys for at most 1 SuperNode; no new key of that "
        "cluster is registered"
    )
    assert faults == (Fault("TooManyKeys", message),)


LABELS = {
    "cluster.open-cluster-management.io/placement": "gpu",
    "open-cluster-management.io/addon-name": ADDON,
}


@pytest.mark.parametrize("kept", ["_decisions", "_clusters", "_works", "_apps"])
def test_news_of_what_a_federation_is_placed_by_concern_it_alone(kept: str) -> None:
    concerned: list[tuple[str, str]] = []
    hub = Hub(cast("Client", None), concerned.append)
    other = place_of("team", "other", "edge").addon
    hub.follow(("team", "other"), ["else"], [other])
    hub.follow(KEY, ["gpu"], [ADDON])
    metadata = {"name": ADDON, "namespace": "team", "labels": LABELS, "resourceVersion": "1"}
    getattr(hub, kept).put(msgspec.json.encode({"metadata": metadata}))
    # Of a cluster nobody knows whom it concerns.
    assert concerned == ([("team", "other"), KEY] if kept == "_clusters" else [KEY])
