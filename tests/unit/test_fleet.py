"""Pools on other clusters: who has which partition, who is a member, what the hub is given."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.api.types import ClusterStatus
from flower_operator.fleet.addon import (
    Edition,
    Route,
    addon_objects,
    cluster_objects,
    place_of,
)
from flower_operator.fleet.decisions import APPLIED, Apply, Remove, Wait, Wanted, decide
from flower_operator.fleet.hub import Identity
from flower_operator.fleet.membership import (
    PATIENCE,
    cluster_status,
    membership_of,
    missed_since,
    patience_left,
)
from flower_operator.fleet.observed import (
    Addon,
    Cluster,
    ClusterForm,
    Object,
    Work,
    WorkForm,
    cluster_of,
    work_of,
)
from flower_operator.fleet.partitions import (
    Partitions,
    allocate,
    numbers_of,
    ranges,
    read,
    total,
    write,
)
from flower_operator.fleet.route import route_of
from flower_operator.render import Facts, render
from flower_operator.render.facts import Numbers
from flower_operator.render.metadata import RELEASE
from flower_operator.render.releases import find_releases
from flower_operator.render.skupper import Grant
from flower_operator.status.observation import Placed
from flower_operator.status.observed import Metadata
from flower_operator.status.outline import Exposure, PoolOutline
from tests.unit.federations import Document, document, find

ROUTE = Route("192.0.2.7", 30092)
PLACED: Document = {"name": "edge", "placement": {"name": "gpu"}}
HOLDERS = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["", "c1", "c2", "c3"]))


@given(st.lists(st.dictionaries(HOLDERS, st.integers(0, 4)), max_size=12))
@settings(max_examples=50, deadline=None)
def test_partitions_are_never_two_alike_and_stay_with_their_holders(steps: list[Any]) -> None:
    held: Partitions = {}
    for wanted in steps:
        after = allocate(held, wanted)
        numbers = [number for each in after.values() for number in each]
        assert len(numbers) == len(set(numbers))
        assert {holder: len(each) for holder, each in after.items()} == wanted
        for holder, each in after.items():
            before = held.get(holder, ())[: len(each)]
            assert each[: len(before)] == before
        fresh = set(numbers) - {number for each in held.values() for number in each}
        assert all(number < len(numbers) for number in fresh)  # the smallest that were free
        assert read(write(after)) == after
        assert total(after) == max(numbers, default=-1) + 1
        held = after


def test_what_someone_freed_is_given_to_the_next() -> None:
    held = allocate({}, {("p", ""): 2, ("p", "one"): 1, ("p", "two"): 1})
    assert held == {("p", ""): (0, 1), ("p", "one"): (2,), ("p", "two"): (3,)}
    held = allocate(held, {("p", ""): 2, ("p", "two"): 1})
    held = allocate(held, {("p", ""): 2, ("p", "two"): 1, ("p", "three"): 2})
    assert held["p", "two"] == (3,)
    assert held["p", "three"] == (2, 4)


@pytest.mark.parametrize("text", ["", "0", "0-3,7", "9,2-4"])
def test_numbers_are_written_as_ranges(text: str) -> None:
    assert ranges(numbers_of(text)) == text


def test_a_ledger_that_says_a_number_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        read({"p": "one 0-2\ntwo 2\n"})


def addon(**metadata: Any) -> Addon:
    return Addon(Metadata(**metadata), (), "True")


def test_a_lost_cluster_stays_a_member_and_one_that_is_not_selected_leaves() -> None:
    clusters = {
        name: Cluster(name, available, "")
        for name, available in {"new": True, "kept": True, "lost": False, "left": True}.items()
    }
    addons = {name: addon() for name in ("kept", "lost", "left", "gone-for-good")}
    works = {"left": Work("left", "x", {}), "was": Work("was", "x", {})}
    found = membership_of({"new", "kept", "unknown"}, addons, works, clusters)
    assert found.members == ("kept", "lost", "new")
    assert found.leaving == ("left",)
    # It may yet turn out to be lost, until its addon is told to go.
    assert found.staying == ("left",)
    addons["left"] = addon(deletion_timestamp="2026-01-01T00:00:00Z")
    assert membership_of({"kept"}, addons, works, clusters).staying == ()


def test_a_lost_cluster_that_was_told_to_leave_is_no_member() -> None:
    clusters = {"lost": Cluster("lost", False, "")}
    addons = {"lost": addon(deletion_timestamp="2026-01-01T00:00:00Z")}
    found = membership_of((), addons, {}, clusters)
    assert (found.members, found.leaving) == ((), ("lost",))


def test_a_cluster_that_is_not_accepted_any_more_leaves_whether_it_is_heard_of_or_not() -> None:
    for heard in ("True", "Unknown"):
        told = [{"type": "ManagedClusterConditionAvailable", "status": heard}]
        form = {"spec": {"hubAcceptsClient": False}, "status": {"conditions": told}}
        cluster = cluster_of(msgspec.convert({"metadata": {"name": "c"}, **form}, ClusterForm))
        assert cluster
        found = membership_of({"c"}, {"c": addon()}, {}, {"c": cluster})
        assert (found.members, found.leaving, found.staying) == ((), ("c",), ())


def test_a_cluster_on_its_way_out_is_none() -> None:
    metadata = Metadata(name="c", deletion_timestamp="2026-01-01T00:00:00Z")
    form = ClusterForm(metadata)
    form.spec.hub_accepts_client = True
    assert cluster_of(form) is None


def test_a_cluster_leaves_when_it_was_not_selected_for_a_while() -> None:
    clusters = {"moved": Cluster("moved", True, "")}
    now = datetime(2026, 11, 16, tzinfo=UTC)
    since = missed_since({}, {"moved"}, now)
    for late, members in ((timedelta(), ("moved",)), (PATIENCE, ())):
        since = missed_since(since, {"moved"}, now + late)
        missed = patience_left(since, now + late)
        found = membership_of((), {"moved": addon()}, {}, clusters, missed)
        assert found.members == members
    # Once it was selected again, it is counted from the beginning.
    assert missed_since(missed_since(since, (), now), {"moved"}, now + PATIENCE) == {
        "moved": now + PATIENCE
    }


def test_of_a_lost_cluster_nothing_counts_as_ready() -> None:
    work = Work("c", "x", {"ready": 2, "desired": 2})
    well = cluster_status("c", 2, addon(), work, Cluster("c", True, ""), (0, 1))
    assert (well.ready, well.desired, well.addon, well.partitions) == (2, 2, "Available", "0-1")
    lost = cluster_status("c", 2, addon(), work, Cluster("c", False, "yesterday"), (0, 1))
    assert (lost.ready, lost.desired, lost.addon, lost.last_seen) == (0, 2, "Lost", "yesterday")


def test_names_of_addons_tell_namesakes_apart_and_fit() -> None:
    one, other = place_of("a", "b-c", "p"), place_of("a-b", "c", "p")
    assert one.addon != other.addon
    long = place_of("n" * 40, "f" * 40, "p" * 60)
    assert len(f"{long.namespace}.{long.addon}") <= 63
    assert long.addon.startswith("flower-ffff")
    assert len(place_of("n" * 63, "f" * 40, "p").addon) <= 63


def hub_objects(
    federation: Document, bundle: str | None = None, size: int = 4
) -> dict[str, Document]:
    parsed = parse(federation)
    facts = Facts(namespace="team", numbers=Numbers((), str(size)))
    objects = addon_objects(parsed, 0, facts, find_releases(parsed), ROUTE, bundle)
    return {each["kind"]: each for each in objects}


def manifests(objects: dict[str, Document]) -> dict[str, Document]:
    every = objects["AddOnTemplate"]["spec"]["agentSpec"]["workload"]["manifests"]
    return {each["kind"]: each for each in every}


NODE_CONFIG = {
    "partition-id": "{partition}",
    "num-partitions": "{partitions}",
    "site": "{cluster}/{pool}",
}


def arguments(workload: Document) -> list[str]:
    found: list[str] = workload["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def test_one_supernode_a_cluster_has_its_partition_in_its_arguments() -> None:
    config = NODE_CONFIG | {"text": "{{cluster}}"}
    objects = hub_objects(document(pool={**PLACED, "replicas": 1, "nodeConfig": config}))
    found = arguments(manifests(objects)["StatefulSet"])
    assert (
        'num-partitions=4 partition-id={{PARTITION_ID}} site="{{CLUSTER_NAME}}/edge" '
        'text="{cluster}"' in found
    )
    assert "{{SUPERLINK_ADDRESS}}:{{SUPERLINK_PORT}}" in found
    container = manifests(objects)["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "{{IMAGE}}"


def test_several_have_a_file_each_and_restart_when_their_numbers_change() -> None:
    objects = hub_objects(document(pool={**PLACED, "replicas": 2, "nodeConfig": NODE_CONFIG}))
    data = manifests(objects)["ConfigMap"]["data"]
    assert "partition-id={{PARTITION_ID}}\n" in data["0.toml"]
    assert "partition-id={{PARTITION_ID_1}}\n" in data["1.toml"]
    template = manifests(objects)["StatefulSet"]["spec"]["template"]
    said = template["metadata"]["annotations"]["flower.flwr.ai/partitions"]
    assert said == "{{PARTITION_ID}},{{PARTITION_ID_1}} of 4"


def test_each_cluster_has_all_variables_in_its_own_config() -> None:
    """The hub does not merge configs."""
    federation = document(pool={**PLACED, "replicas": 2})
    config = hub_objects(federation)["AddOnDeploymentConfig"]
    shared = {
        "SUPERLINK_ADDRESS": "192.0.2.7",
        "SUPERLINK_PORT": "30092",
        "IMAGE": "flwr/supernode:1.25.0",
        "NODE_TYPE": "edge",
    }
    assert variables(config) == shared
    place = place_of("team", "fed", "edge")
    edition = Edition("1.25.0", "flwr/supernode:own", "")
    config, member = cluster_objects(place, "paris", shared, (5, 7), edition)
    own = {"PARTITION_ID": "5", "PARTITION_ID_1": "7", "IMAGE": "flwr/supernode:own"}
    assert variables(config) == shared | own
    template, reference = member["spec"]["configs"]
    assert template["name"] == hub_objects(federation)["AddOnTemplate"]["metadata"]["name"]
    assert (reference["namespace"], reference["name"]) == ("paris", config["metadata"]["name"])
    assert member["metadata"]["namespace"] == "paris"


def variables(config: Document) -> dict[str, str]:
    return {each["name"]: each["value"] for each in config["spec"]["customizedVariables"]}


def test_no_secret_of_the_hub_goes_out_and_the_ca_does() -> None:
    federation = document(
        isolation="process",
        insecure=False,
        version="1.41.0",
        pool={**PLACED, "images": {"superexecClientApp": "flwr/superexec:1.41.0"}},
    )
    objects = hub_objects(federation, bundle="CERTIFICATES")
    assert '"kind": "Secret"' not in json.dumps(objects)
    every = objects["AddOnTemplate"]["spec"]["agentSpec"]["workload"]["manifests"]
    (bundle,) = (each for each in every if each["metadata"]["name"] == "fed-supernode-edge-ca")
    assert bundle["data"] == {"ca.crt": "CERTIFICATES"}


@pytest.mark.parametrize(
    ("release", "node", "apps"),
    [
        (
            "1.41.0",
            {"supernode-tls": {"ca.crt", "tls.crt", "tls.key"}, "superexec": {"secret"}},
            {"ca": {"ca.crt"}, "superexec": {"secret"}},
        ),
        ("1.29.0", {"superexec": {"secret"}}, {"superexec": {"secret"}}),
        ("1.28.0", {}, {}),
    ],
)
def test_supernodes_and_superexecs_elsewhere_mount_what_their_agent_makes(
    release: str, node: dict[str, set[str]], apps: dict[str, set[str]]
) -> None:
    """And a ClientApp never sees the key of its SuperNode's certificate."""
    federation = document(
        isolation="process",
        insecure=False,
        version=release,
        pool={**PLACED, "images": {"superexecClientApp": f"flwr/superexec:{release}"}},
    )
    objects = hub_objects(federation, bundle="CERTIFICATES")
    found = manifests(objects)
    work = objects["ManifestWorkReplicaSet"]["spec"]["manifestWorkTemplate"]["workload"]
    assert mounted(found["StatefulSet"]) == node
    assert mounted(work["manifests"][-1]) == apps
    # Where there is nothing to make, there is nobody to make it.
    assert ("Deployment" in found) is bool(node)
    if node:
        arguments = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert arguments[-1] == "--introduce"


def mounted(workload: Document) -> dict[str, set[str]]:
    return {
        volume["name"].removeprefix("flower-"): {item["key"] for item in secret["items"]}
        for volume in workload["spec"]["template"]["spec"]["volumes"]
        if (secret := volume.get("secret", {})).get("secretName") == "fed-supernode-edge-runtime"
    }


def test_supernodes_elsewhere_reach_their_superlink_and_names_alone() -> None:
    federation = document(insecure=False, pool={**PLACED})
    policy = manifests(hub_objects(federation, bundle="X"))["NetworkPolicy"]["spec"]
    assert policy["ingress"] == []
    assert policy["egress"][0] == {
        "to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}],
        "ports": [{"protocol": "TCP", "port": 30092}],
    }
    assert [each["port"] for each in policy["egress"][1]["ports"]] == [53, 53]
    assert len(policy["egress"]) == 2


def test_clientapps_come_as_a_work_of_their_own() -> None:
    federation = document(isolation="process", insecure=False, pool={**PLACED})
    objects = hub_objects(federation, bundle="X")
    supernode = manifests(objects)["StatefulSet"]
    assert [each["name"] for each in supernode["spec"]["template"]["spec"]["containers"]] == [
        "supernode"
    ]
    spec = objects["ManifestWorkReplicaSet"]["spec"]
    # In the namespace of a cluster its works are called like it.
    assert (
        objects["ManifestWorkReplicaSet"]["metadata"]["name"]
        == place_of("team", "fed", "edge").addon
    )
    assert spec["placementRefs"][0]["name"] == "gpu"
    assert spec["placementRefs"][0]["rolloutStrategy"]["progressive"]["maxConcurrency"] == "25%"
    *_, workload = spec["manifestWorkTemplate"]["workload"]["manifests"]
    assert workload["spec"]["replicas"] == 2
    address = "fed-supernode-edge-$(FLOWER_INDEX).fed-supernode-edge.team.svc:9094"
    assert address in arguments(workload)
    assert manifests(objects)["Service"]["metadata"]["name"] == "fed-supernode-edge"


def test_a_pool_with_placement_is_no_part_of_the_hubs_own_plan() -> None:
    here: Document = {"name": "here", "nodeConfig": {"id": "{partition}"}}
    pools = [here, {**PLACED, "replicas": 3}]
    federation = parse(document(pools=pools))
    plan = render(federation, Facts(namespace="team"))
    names = {each["metadata"]["name"] for each in plan.objects}
    assert names == {"fed-superlink", "fed-supernode-here"}


def test_pools_of_the_hub_take_the_numbers_that_they_are_given() -> None:
    pools: list[Document] = [
        {"name": "here", "nodeConfig": {"id": "{partition}/{partitions}"}},
        PLACED,
    ]
    facts = Facts(namespace="team", numbers=Numbers((("here", ("0", "5")),), "6"))
    plan = render(parse(document(pools=pools)), facts)
    assert find(plan, "ConfigMap", "fed-supernode-here")["data"] == {
        "0.toml": 'id="0/6"\n',
        "1.toml": 'id="5/6"\n',
    }
    counted = replace(facts, numbers=Numbers((("here", ("0", "1")),), "6"))
    plan = render(parse(document(pools=pools)), counted)
    assert "ConfigMap" not in {each["kind"] for each in plan.objects}


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ({"nodeConfig": {"a": "{cluster}"}}, "{cluster} is to be had only in pools with placement"),
        ({**PLACED, "env": [{"name": "A", "value": "{{B}}"}]}, "no text of it may hold '{{'"),
        ({**PLACED, "nodeConfig": {"a": "{{{cluster}}}"}}, "no text of it may hold '{{'"),
        ({**PLACED, "nodeConfig": {"a": "{{{{B}}}}"}}, "no text of it may hold '{{'"),
        ({**PLACED, "nodeConfig": {"a": "{{.B}}"}}, "no text of it may hold '{{'"),
        ({**PLACED, "replicas": 2, "nodeConfig": {"a": "{partition}{node}"}}, "cannot stand"),
    ],
)
def test_what_cannot_be_placed_is_refused(pool: Document, words: str) -> None:
    with pytest.raises(InvalidFederation) as error:
        render(parse(document(pool=pool)), Facts())
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("exposure", "found"),
    [
        (Exposure("NodePort", "hub.example", 9092, 30092), Route("hub.example", 30092)),
        (Exposure("NodePort", "hub.example", 9092, None), Route("hub.example", 31234)),
        (Exposure("LoadBalancer", None, 9092, None), Route("198.51.100.4", 9092)),
        (Exposure("LoadBalancer", "hub.example", 9092, None), Route("hub.example", 9092)),
        (Exposure("ClusterIP", "hub.example", 443, None), Route("hub.example", 443)),
    ],
)
def test_the_route_is_what_the_service_says(exposure: Exposure, found: Route) -> None:
    assert route_of(exposure, ["198.51.100.4"], 31234) == found


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer", "ClusterIP"])
def test_without_an_address_it_says_what_is_missing(kind: str) -> None:
    found = route_of(Exposure(kind, None, 9092, None), [], 31234)
    assert isinstance(found, tuple)
    assert found[0] == "NoAddress"


def existing(*identities: Identity, **metadata: Any) -> dict[Identity, Object]:
    metadata = {"labels": {"flower.flwr.ai/namespace": "team"}, **metadata}
    return {each: Object(Metadata(uid="u", generation=1, **metadata)) for each in identities}


TEMPLATE: Identity = ("AddOnTemplate", "", "flower-x-1.41.0")
DEFINITION: Identity = ("ClusterManagementAddOn", "", "flower-x")
SHARED: Identity = ("AddOnDeploymentConfig", "team", "flower-x")
OWN: Identity = ("AddOnDeploymentConfig", "paris", "flower-x-1.41.0")
ADDON: Identity = ("ManagedClusterAddOn", "paris", "flower-x")


def test_configs_outlive_the_addons_that_read_them() -> None:
    there = existing(TEMPLATE, DEFINITION, SHARED, OWN, ADDON)
    assert list(decide({}, there)) == [
        Wait(TEMPLATE),
        Wait(DEFINITION),
        Wait(SHARED),
        Wait(OWN),
        Remove(ADDON, "u"),
    ]
    del there[ADDON]
    elsewhere: Identity = ("ManagedClusterAddOn", "rome", "flower-x")
    both = there | existing(elsewhere)
    assert [each.identity for each in decide({}, both) if isinstance(each, Remove)] == [
        OWN,
        elsewhere,
    ]
    assert list(decide({}, there)) == [
        Remove(each, "u") for each in (TEMPLATE, DEFINITION, SHARED, OWN)
    ]


def test_what_a_cluster_was_told_before_goes_when_it_has_heard() -> None:
    other = existing(ADDON, annotations={RELEASE: "1.42.0"})
    there = existing(TEMPLATE, OWN) | other
    wanted = {ADDON: Wanted(ADDON, "", {}, {})}
    assert [each for each in decide(wanted, there, ["paris"]) if not isinstance(each, Apply)] == [
        Wait(TEMPLATE),
        Wait(OWN),
    ]
    assert [each for each in decide(wanted, there) if isinstance(each, Remove)] == [
        Remove(TEMPLATE, "u"),
        Remove(OWN, "u"),
    ]
    there |= existing(ADDON, annotations={RELEASE: "1.41.0"})
    assert not [each for each in decide(wanted, there) if isinstance(each, Remove)]


def test_what_is_as_it_should_be_is_left_alone() -> None:
    wanted = {OWN: Wanted(OWN, "digest", {"a": "b"}, {})}
    note = {APPLIED: "digest.1"}
    assert not list(decide(wanted, existing(OWN, annotations=note, labels={"a": "b"})))
    assert list(decide(wanted, existing(OWN, annotations=note))) == [Apply(wanted[OWN], "u", 1)]
    changed = existing(OWN, annotations={APPLIED: "other.1"}, labels={"a": "b"})
    assert list(decide(wanted, changed)) == [Apply(wanted[OWN], "u", 2)]
    assert list(decide(wanted, {})) == [Apply(wanted[OWN], None, 1)]
    leaving = existing(OWN, deletion_timestamp="now")
    assert list(decide(wanted, leaving)) == [Wait(OWN)]


def test_over_skupper_clusters_link_and_supernodes_go_to_its_router() -> None:
    federation = parse(document(insecure=False, interconnect="skupper", pool=PLACED))
    facts, grant = Facts(namespace="team"), Grant("https://grant", "code", "CA")
    objects = addon_objects(
        federation, 0, facts, find_releases(federation), Route("fed-superlink", 9092), "X", grant
    )
    found = manifests({each["kind"]: each for each in objects})
    assert found["AccessToken"]["spec"] == {"url": "https://grant", "code": "code", "ca": "CA"}
    assert found["Listener"]["spec"]["host"] == "fed-superlink"
    assert {found[kind]["metadata"]["namespace"] for kind in ("Site", "Listener")} == {"team"}
    to_router = found["NetworkPolicy"]["spec"]["egress"][0]
    assert to_router == {
        "to": [{"podSelector": {"matchLabels": {"skupper.io/component": "router"}}}]
    }


@pytest.mark.parametrize(
    ("message", "refusal"),
    [('namespaces "team" not found', ""), ("exceeded quota", "exceeded quota")],
)
def test_what_a_cluster_cannot_apply_is_told_unless_it_is_only_early(
    message: str, refusal: str
) -> None:
    condition = {"type": "Applied", "status": "False", "message": message}
    manifests = {"resourceStatus": {"manifests": [{"conditions": [condition]}]}}
    assert work_of(msgspec.convert({"status": manifests}, WorkForm)).refusal == refusal


def test_what_a_cluster_reports_is_bounded() -> None:
    """A number beyond 32 bits, or words of a megabyte, would keep any status from being written."""
    texts = {"report": "k" * (4 << 20), "release": "1" * 9999, "mark": "m" * 9999}
    numbers = {"desired": 1 << 40, "ready": -5, "updated": 3, "generation": 1 << 40}
    values: list[Document] = [
        {"name": name, "fieldValue": {"string": text}} for name, text in texts.items()
    ]
    values += [{"name": name, "fieldValue": {"integer": at}} for name, at in numbers.items()]
    condition = {"type": "Applied", "status": "False", "message": "x" * 100_000}
    manifest = {"conditions": [condition], "statusFeedback": {"values": values}}
    status = {"resourceStatus": {"manifests": [manifest]}}
    work = work_of(msgspec.convert({"status": status}, WorkForm))
    assert work.numbers == {"desired": 10_000, "ready": 0, "updated": 3, "generation": 1 << 40}
    assert work.report is not None
    assert len(work.report) == 1 << 20
    assert max(len(text) for text in (work.refusal, work.release, work.mark)) == 400


def test_a_cluster_is_settled_when_all_its_pods_are_of_its_last_generation() -> None:
    told = {"ready": 2, "desired": 2, "updated": 2, "generation": 3, "observed": 3}
    assert Work("c", "x", told).settled
    assert not any(Work("c", "x", told | {name: 1}).settled for name in told)
    assert Work("c", "x", {}).settled  # nothing runs there, and nothing has to be waited for


def test_a_pool_is_not_complete_before_its_clientapps_can_run() -> None:
    pool = PoolOutline("edge", "w", "StatefulSet", 1, "1.41.0", False)
    well = ClusterStatus(name="paris", desired=1, ready=1, addon="Available")
    assert Placed(pool, (well,)).state is None
    assert Placed(pool, (well,), apps_missing="not yet").state == ("Placing", "pool edge: not yet")
