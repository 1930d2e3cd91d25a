"""The controller from a Federation to Ready and through every change, on a cluster in memory."""

import asyncio
import copy

import pytest

from flower_operator.api.manifest import parse
from flower_operator.kube.client import MERGE_PATCH
from flower_operator.kube.resources import (
    CONFIG_MAP,
    DAEMON_SET,
    DEPLOYMENT,
    LEASE,
    POD,
    SERVICE,
    STATEFUL_SET,
    Resource,
)
from flower_operator.operator.controller import Options
from flower_operator.operator.desired import CHILDREN, FEDERATION
from flower_operator.operator.placement import FINALIZER
from flower_operator.render import Facts, render
from flower_operator.render.metadata import RESTARTED_AT
from tests.harness.memory_api import Fault, Request
from tests.harness.memory_api.controllers import is_ready
from tests.unit.federations import Document, document, find, plan
from tests.unit.memory_cluster import NAMESPACE, Cluster, play
from tests.unit.virtual_time import now

SUPERLINK, POOL = "fed-superlink", "fed-supernode-default"
CLAIM: Document = {
    "metadata": {"name": "state"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
TWO_POOLS = document(
    pools=[
        {"name": name, "nodeConfig": {"number": "{partition}"}} for name in ("default", "second")
    ]
)


async def start(cluster: Cluster, *documents: Document) -> None:
    """An operator, and Federations that are Ready."""
    cluster.start_operator()
    for manifest in documents or (document(),):
        await cluster.apply(manifest)
    for manifest in documents or (document(),):
        await cluster.until_ready(manifest["metadata"]["name"])


def uid_of(cluster: Cluster, resource: Resource, name: str) -> str | None:
    body = cluster.get(resource, name)
    return body["metadata"]["uid"] if body else None


def paths(cluster: Cluster, since: int) -> set[str]:
    """The last part of each path that the operator wrote to, Events and status aside."""
    return {
        request.path.rpartition("/")[2]
        for request in cluster.writes()[since:]
        if not request.path.endswith(("/events", "/status"))
    }


def test_a_new_federation_gets_its_children_and_becomes_ready() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        assert cluster.differences([document()]) == []
        assert cluster.status()["supernodes"] == "2/2"
        assert cluster.status()["connectedSupernodes"] in (None, 0, 2)
        assert cluster.events() == ["Ready"]
        uid = cluster.federation()["metadata"]["uid"]
        for child in cluster.children().values():
            (owner,) = child["metadata"]["ownerReferences"]
            assert (owner["uid"], owner["controller"]) == (uid, True)
        await cluster.until(
            lambda: cluster.status().get("connectedSupernodes") == 2, "nobody is counted"
        )

    play(scenario)


def test_each_child_of_a_new_federation_is_written_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        written = [
            request.path.rpartition("/")[2]
            for request in cluster.writes()
            if not request.path.endswith(("/events", "/status"))
        ]
        assert sorted(written) == [SUPERLINK, SUPERLINK, POOL]

    play(scenario)


def test_at_rest_nothing_is_written() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, document(), TWO_POOLS | {"metadata": {"name": "two"}})
        await cluster.writes_within(60)
        assert await cluster.writes_within(300) == []

    play(scenario)


def test_a_restarted_operator_writes_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.writes_within(60)
        await cluster.stop_operator()
        cluster.start_operator()
        assert await cluster.writes_within(90) == []
        await cluster.apply(document(suspend=True))
        await cluster.until(
            lambda: cluster.condition("Ready").get("reason") == "Suspended", "it does not work"
        )

    play(scenario)


def test_an_edit_writes_only_what_it_changes() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.writes_within(60)
        before = len(cluster.writes())
        changed = await cluster.apply(document(pool={"replicas": 3}))
        await cluster.until_ready()
        await cluster.writes_within(10)
        assert cluster.differences([changed]) == []
        assert cluster.status()["supernodes"] == "3/3"
        assert paths(cluster, before) == {POOL}
        puts = [each for each in cluster.writes()[before:] if each.path.endswith(POOL)]
        assert len(puts) == 1

    play(scenario)


def test_a_field_that_is_taken_out_again_is_gone() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, document(pool={"podTemplate": {"spec": {"hostname": "odd"}}}))
        pool = cluster.get(STATEFUL_SET, POOL)
        assert pool
        assert pool["spec"]["template"]["spec"]["hostname"] == "odd"
        await cluster.apply(document())
        await cluster.until_as_rendered(document())
        pool = cluster.get(STATEFUL_SET, POOL)
        assert pool
        assert "hostname" not in pool["spec"]["template"]["spec"]

    play(scenario)


@pytest.mark.parametrize(
    ("resource", "name"), [(SERVICE, SUPERLINK), (DEPLOYMENT, SUPERLINK), (STATEFUL_SET, POOL)]
)
def test_a_deleted_child_is_recreated_within_two_seconds(resource: Resource, name: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        before = uid_of(cluster, resource, name)
        await cluster.delete(resource, name)
        await cluster.until(
            lambda: uid_of(cluster, resource, name) not in (None, before), "it is gone", 2.0
        )
        await cluster.until_ready()
        assert cluster.differences([document()]) == []

    play(scenario)


@pytest.mark.parametrize(
    ("resource", "name", "changes"),
    [
        (STATEFUL_SET, POOL, {"spec": {"replicas": 5}}),
        (STATEFUL_SET, POOL, {"metadata": {"labels": {"flower.flwr.ai/pool": "other"}}}),
        (STATEFUL_SET, POOL, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}),
        (STATEFUL_SET, POOL, {"metadata": {"annotations": {"flower.flwr.ai/applied": None}}}),
        (DEPLOYMENT, SUPERLINK, {"spec": {"replicas": 0}}),
        (DEPLOYMENT, SUPERLINK, {"metadata": {"annotations": {"flower.flwr.ai/applied": None}}}),
        (DEPLOYMENT, SUPERLINK, {"spec": {"template": {"spec": {"enableServiceLinks": True}}}}),
        (SERVICE, SUPERLINK, {"spec": {"selector": {"app.kubernetes.io/name": "other"}}}),
        (SERVICE, SUPERLINK, {"spec": {"selector": {"extra": "label"}}}),
    ],
)
def test_a_child_changed_by_hand_is_put_right_within_two_seconds(
    resource: Resource, name: str, changes: Document
) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.patch(resource, name, changes)
        await cluster.until_as_rendered(document(), seconds=2.0)
        await cluster.until_ready()
        await cluster.writes_within(20)
        await cluster.stop_operator()
        cluster.start_operator()
        assert await cluster.writes_within(40) == [], "the note on it is wrong"

    play(scenario)


def test_a_status_that_someone_else_wrote_is_put_right() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.writes_within(60)
        before = cluster.status()
        uid = cluster.federation()["metadata"]["uid"]
        wrong = {**before, "supernodes": "9/9"}
        await cluster.user.patch_status(FEDERATION, NAMESPACE, "fed", uid, wrong)
        await cluster.until(lambda: cluster.status() == before, "it stays wrong", 2.0)

    play(scenario)


def test_labels_that_others_add_to_a_child_stay() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.patch(DEPLOYMENT, SUPERLINK, {"metadata": {"labels": {"team": "blue"}}})
        await cluster.apply(document(superlink={"extraArgs": ["--x"]}))
        await cluster.until_ready()
        child = cluster.get(DEPLOYMENT, SUPERLINK)
        assert child
        assert child["metadata"]["labels"]["team"] == "blue"
        assert "--x" in child["spec"]["template"]["spec"]["containers"][0]["args"]

    play(scenario)


def test_the_objects_of_a_removed_pool_are_deleted() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, TWO_POOLS)
        assert cluster.get(CONFIG_MAP, "fed-supernode-second")
        await cluster.apply(document())
        await cluster.until_as_rendered(document())
        await cluster.until_ready()
        assert cluster.pods("second") == []

    play(scenario)


def test_a_changed_mode_replaces_every_supernode() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        daemon = await cluster.apply(document("DaemonSet"))
        await cluster.until_as_rendered(daemon)
        await cluster.until_ready()
        assert cluster.get(DAEMON_SET, POOL)
        assert cluster.status()["supernodes"] == "2/2"
        await cluster.apply(document())
        await cluster.until_as_rendered(document())
        await cluster.until_ready()

    play(scenario)


def test_a_superlink_that_gets_a_volume_never_runs_twice() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        (pod,) = cluster.pods(SUPERLINK)
        hold = {"metadata": {"finalizers": ["test/hold"]}}
        await cluster.patch(POD, pod["metadata"]["name"], hold)
        moved = document(superlink={"volumeClaimTemplates": [CLAIM]})
        await cluster.apply(moved)
        await cluster.until(
            lambda: f"StatefulSet {SUPERLINK}" in cluster.condition("Ready").get("message", ""),
            "it does not wait for the old pod",
        )
        await cluster.writes_within(10)
        assert cluster.get(STATEFUL_SET, SUPERLINK) is None
        release: Document = {"metadata": {"finalizers": []}}
        await cluster.patch(POD, pod["metadata"]["name"], release)
        await cluster.until(lambda: cluster.get(STATEFUL_SET, SUPERLINK), "it does not move")
        assert cluster.get(DEPLOYMENT, SUPERLINK) is None
        await cluster.until_ready()
        assert cluster.differences([moved]) == []

    play(scenario)


def test_changed_claims_replace_the_workload_and_keep_its_pods() -> None:
    def pool(size: str) -> Document:
        spec = CLAIM["spec"] | {"resources": {"requests": {"storage": size}}}
        return document(pool={"volumeClaimTemplates": [CLAIM | {"spec": spec}]})

    async def scenario(cluster: Cluster) -> None:
        await start(cluster, pool("1Gi"))
        pods = {pod["metadata"]["uid"] for pod in cluster.pods(POOL)}
        workload = uid_of(cluster, STATEFUL_SET, POOL)
        await cluster.apply(pool("2Gi"))
        await cluster.until_as_rendered(pool("2Gi"))
        await cluster.until_ready()
        assert uid_of(cluster, STATEFUL_SET, POOL) != workload
        assert {pod["metadata"]["uid"] for pod in cluster.pods(POOL)} == pods
        assert "Replaced" in cluster.events()
        await cluster.apply(document())
        await cluster.until_as_rendered(document())
        await cluster.until_ready()
        assert not {pod["metadata"]["uid"] for pod in cluster.pods(POOL)} & pods, "other mounts"

    play(scenario)


@pytest.mark.parametrize("owned", [False, True])
def test_an_object_of_someone_else_is_reported_and_left_unchanged(owned: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        reference = {
            "apiVersion": FEDERATION.api_version,
            "kind": FEDERATION.kind,
            "name": "fed",
            "uid": "another",
            "controller": True,
        }
        cluster.controllers.collects_garbage = False
        metadata: Document = {"name": SUPERLINK}
        if owned:
            metadata["ownerReferences"] = [reference]
        spec = {"selector": {"app": "theirs"}}
        body = {"metadata": metadata, "spec": spec}
        await cluster.user.create(SERVICE, NAMESPACE, body)
        theirs = cluster.get(SERVICE, SUPERLINK)
        cluster.start_operator()
        await cluster.apply(document())
        await cluster.until(lambda: cluster.reason("Degraded") == "NameTaken", "it is not told")
        assert f"Service {SUPERLINK}" in cluster.condition("Degraded")["message"]
        assert cluster.condition("Ready")["status"] == "False"
        await cluster.writes_within(120)
        assert cluster.get(SERVICE, SUPERLINK) == theirs
        await cluster.delete(SERVICE, SUPERLINK)
        await cluster.until_ready()

    play(scenario)


def test_a_refused_manifest_is_reported_and_what_runs_stays() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.writes_within(60)
        before = copy.deepcopy(cluster.children())
        refused = document(pools=[{"name": "default"}, {"name": "default"}])
        refused["spec"]["supernodes"]["image"] = "flwr/supernode:1.9.0"
        await cluster.apply(refused)
        await cluster.until(lambda: cluster.reason("Degraded"), "it is not told")
        assert cluster.condition("Ready")["status"] == "False"
        assert cluster.condition("SuperLinkAvailable")["status"] == "True"
        await cluster.writes_within(30)
        assert cluster.children() == before
        assert await cluster.writes_within(120) == [], "it tries again in vain"
        await cluster.apply(document())
        await cluster.until_ready()

    play(scenario)


def test_a_child_that_the_api_server_refuses_is_reported_and_tried_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        def refuse(resource: Resource, old: Document | None, new: Document) -> str:
            return "spec.ports: Invalid value" if resource == SERVICE else ""

        cluster.server.validate = refuse
        cluster.start_operator()
        await cluster.apply(document())
        await cluster.until(lambda: cluster.reason("Degraded") == "Refused", "it is not told")
        message = cluster.condition("Degraded")["message"]
        assert message.startswith(f"Service {SUPERLINK}: ")
        assert "spec.ports: Invalid value" in message
        assert cluster.get(STATEFUL_SET, POOL), "the others are made"
        cluster.server.validate = lambda resource, old, new: ""
        await cluster.until_ready()
        assert cluster.events() == ["Refused", "Ready"]

    play(scenario)


def test_children_of_another_operator_are_taken_over() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.apply(document())
        owner = {
            "apiVersion": FEDERATION.api_version,
            "kind": FEDERATION.kind,
            "name": "fed",
            "uid": cluster.federation()["metadata"]["uid"],
            "controller": True,
        }
        for rendered in plan().objects:
            child = copy.deepcopy(rendered)
            child["metadata"]["ownerReferences"] = [owner]
            if "template" in child["spec"]:
                child["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c"]
            else:
                child["spec"]["ports"].append({"name": "theirs", "port": 1})
            await cluster.user.create(CHILDREN[child["kind"]], NAMESPACE, child)
        before = {key: child["metadata"]["uid"] for key, child in cluster.children().items()}
        cluster.start_operator()
        await cluster.until_as_rendered(document())
        await cluster.until_ready()
        for (kind, name), child in cluster.children().items():
            assert child["metadata"]["uid"] == before[kind, name]
            if kind == "Service":
                assert len(child["spec"]["ports"]) == 2
            else:
                containers = child["spec"]["template"]["spec"]["containers"]
                assert "command" not in containers[0]

    play(scenario)


def labelled(mode: str, **labels: str) -> Document:
    """Its pools' pods have these labels."""
    return document(mode, pool={"podTemplate": {"metadata": {"labels": labels}}})


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
def test_a_label_that_is_added_to_the_pods_of_a_pool_does_not_recreate_it(mode: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, document(mode))
        before = uid_of(cluster, CHILDREN[mode], POOL)
        for manifest in (labelled(mode, team="blue"), labelled(mode, team="red"), document(mode)):
            await cluster.apply(manifest)
            await cluster.until_as_rendered(manifest)
            await cluster.until_ready()
            assert uid_of(cluster, CHILDREN[mode], POOL) == before
        assert "Replaced" not in cluster.events()

    play(scenario)


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
def test_a_workload_whose_selector_has_more_labels_keeps_it(mode: str) -> None:
    """It was made by an operator that put labels of the pod template into the selector."""
    resource = CHILDREN[mode]

    async def scenario(cluster: Cluster) -> None:
        await cluster.apply(labelled(mode, team="blue"))
        owner = {
            "apiVersion": FEDERATION.api_version,
            "kind": FEDERATION.kind,
            "name": "fed",
            "uid": cluster.federation()["metadata"]["uid"],
            "controller": True,
        }
        rendered = render(parse(labelled(mode, team="blue")), Facts(namespace="team"))
        old = copy.deepcopy(find(rendered, mode, POOL))
        old["metadata"]["ownerReferences"] = [owner]
        old["spec"]["selector"]["matchLabels"]["team"] = "blue"
        await cluster.user.create(resource, NAMESPACE, old)
        before = uid_of(cluster, resource, POOL)

        def selector() -> Document:
            pool = cluster.get(resource, POOL)
            assert pool
            found: Document = pool["spec"]["selector"]["matchLabels"]
            return found

        cluster.start_operator()
        await cluster.until_ready()
        assert uid_of(cluster, resource, POOL) == before
        assert selector()["team"] == "blue"
        await cluster.writes_within(60)
        assert await cluster.writes_within(60) == []
        # An edit is applied to it, a label more too.
        edited = labelled(mode, team="blue", late="yes")
        edited["spec"]["supernodes"]["pools"][0]["extraArgs"] = ["--x"]
        await cluster.apply(edited)
        await cluster.until_ready()
        pool = cluster.get(resource, POOL)
        assert pool
        assert "--x" in pool["spec"]["template"]["spec"]["containers"][0]["args"]
        assert pool["spec"]["template"]["metadata"]["labels"]["late"] == "yes"
        assert uid_of(cluster, resource, POOL) == before
        # Pods without the label are not its own: now it is recreated, with our labels alone.
        await cluster.apply(document(mode))
        await cluster.until_as_rendered(document(mode))
        await cluster.until_ready()
        assert uid_of(cluster, resource, POOL) != before
        assert "team" not in selector()

    play(scenario)


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
def test_suspending_stops_the_supernodes_and_keeps_the_superlink(mode: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, document(mode))
        (superlink,) = cluster.pods(SUPERLINK)
        suspended = await cluster.apply(document(mode, suspend=True))
        await cluster.until(
            lambda: cluster.condition("Ready").get("reason") == "Suspended", "it is not told"
        )
        await cluster.until(lambda: len(cluster.pods()) == 1, "SuperNodes stay")
        assert cluster.pods() == [superlink]
        assert cluster.differences([suspended]) == []
        assert cluster.status()["supernodes"] == "0/0"
        resumed = await cluster.apply(document(mode))
        await cluster.until_ready()
        assert cluster.differences([resumed]) == []

    play(scenario)


def test_restarted_at_restarts_every_pod() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        before = {pod["metadata"]["uid"] for pod in cluster.pods()}
        annotations = {RESTARTED_AT: "2026-01-01T00:00:00Z"}
        await cluster.patch(FEDERATION, "fed", {"metadata": {"annotations": annotations}})
        await cluster.until(
            lambda: (
                len(cluster.pods()) == 3
                and not {pod["metadata"]["uid"] for pod in cluster.pods()} & before
            ),
            "some pods are old",
        )
        await cluster.until_ready()

    play(scenario)


@pytest.mark.parametrize("how", ["Background", "Foreground"])
def test_a_deleted_federation_leaves_nothing(how: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(
            cluster,
            document(isolation="process", insecure=False),
            TWO_POOLS | {"metadata": {"name": "other"}},
        )
        await cluster.delete(FEDERATION, "fed", how)

        def mine() -> list[tuple[str, str]]:
            return [key for key in cluster.children() if key[1].startswith("fed-")]

        await cluster.until(lambda: not mine() and not cluster.pods("fed-"), "something is left")
        await cluster.writes_within(60)
        assert mine() == []
        assert cluster.files("fed-ca-key") == {}
        assert cluster.is_ready("other")
        asked = len(cluster.superlinks.asked)
        await cluster.writes_within(90)
        assert set(cluster.superlinks.asked[asked:]) == {"other"}

    play(scenario)


def test_orphaned_children_are_left_as_they_are() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.delete(FEDERATION, "fed", "Orphan")
        await cluster.until(lambda: cluster.get(FEDERATION, "fed") is None, "it is not deleted")
        await cluster.writes_within(60)
        assert len(cluster.children()) == 3
        assert not any(
            child["metadata"].get("ownerReferences") for child in cluster.children().values()
        )

    play(scenario)


def test_a_federation_that_waits_for_its_deletion_is_left_alone() -> None:
    async def scenario(cluster: Cluster) -> None:
        held = document()
        held["metadata"] = {"name": "fed", "finalizers": ["test/hold"]}
        await start(cluster, held)
        await cluster.writes_within(60)
        await cluster.delete(FEDERATION, "fed")
        assert await cluster.writes_within(30) == []
        await cluster.delete(SERVICE, SUPERLINK)
        assert await cluster.writes_within(30) == []

    play(scenario)


def test_the_finalizer_of_a_federation_without_other_clusters_is_removed() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        finalizers = {"metadata": {"finalizers": ["test/other", FINALIZER]}}
        await cluster.patch(FEDERATION, "fed", finalizers)
        await cluster.until(
            lambda: cluster.federation()["metadata"]["finalizers"] == ["test/other"],
            "the finalizer stays",
        )
        await cluster.patch(FEDERATION, "fed", {"metadata": {"finalizers": []}})
        await cluster.stop_operator()
        await cluster.patch(FEDERATION, "fed", {"metadata": {"finalizers": [FINALIZER]}})
        await cluster.delete(FEDERATION, "fed")
        cluster.start_operator()
        await cluster.until(lambda: cluster.get(FEDERATION, "fed") is None, "it is not deleted")

    play(scenario)


@pytest.mark.parametrize("had_it", [True, False])
def test_a_finalizer_that_someone_else_adds_at_the_same_time_stays(had_it: bool) -> None:
    """The operator has read the Federation, and has not written to it yet."""

    async def scenario(cluster: Cluster) -> None:
        added: list[str] = []

        def add_another(request: Request) -> Fault | None:
            finalizers = (request.body or {}).get("metadata", {}).get("finalizers")
            if request.manager == "flower-operator" and finalizers is not None and not added:
                added.append("test/late")
                live = cluster.federation()["metadata"].get("finalizers", [])
                body = {"metadata": {"finalizers": [*live, *added]}}
                late = Request("PATCH", request.path, "kubectl", {}, body, MERGE_PATCH)
                assert cluster.server.handle(late)[0] == 200
            return None

        await start(cluster)
        cluster.server.fault = add_another
        finalizers = ["test/other", FINALIZER] if had_it else [FINALIZER]
        await cluster.patch(FEDERATION, "fed", {"metadata": {"finalizers": finalizers}})
        await cluster.until(
            lambda: FINALIZER not in cluster.federation()["metadata"]["finalizers"],
            "the finalizer stays",
        )
        assert added
        rest = [*finalizers[:-1], *added]
        assert cluster.federation()["metadata"]["finalizers"] == rest

    play(scenario)


def test_a_federation_in_the_operators_own_namespace_is_refused() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        own = Options().namespace
        metadata = {"name": "fed", "namespace": own}
        await cluster.user.apply(FEDERATION, document() | {"metadata": metadata})

        def ready() -> Document:
            federation = cluster.server.get(FEDERATION, own, "fed") or {}
            found = federation.get("status", {}).get("conditions") or [{}]
            return next((each for each in found if each.get("type") == "Ready"), {})

        await cluster.until(lambda: ready().get("status") == "False", "it is not told")
        assert ready()["reason"] == "OperatorNamespace"
        assert ready()["message"] == (
            f"metadata.namespace: {own} is the operator's own namespace; "
            "create the Federation in another"
        )
        await cluster.writes_within(60)
        assert all(not cluster.server.objects(each, own) for each in (SERVICE, DEPLOYMENT, POD))
        await cluster.user.delete(FEDERATION, own, "fed", None, "Background")
        await cluster.writes_within(5)
        assert cluster.server.get(FEDERATION, own, "fed") is None

    play(scenario)


def test_an_operator_outside_of_the_cluster_has_no_namespace_there() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator(inside=False)
        own = Options().namespace
        await cluster.user.apply(
            FEDERATION, document() | {"metadata": {"name": "fed", "namespace": own}}
        )
        await cluster.until(lambda: cluster.server.objects(DEPLOYMENT, own), "nothing is rendered")

    play(scenario)


def test_a_namesake_of_a_deleted_federation_gets_children_of_its_own() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.delete(FEDERATION, "fed")
        await cluster.apply(document())
        uid = cluster.federation()["metadata"]["uid"]
        await cluster.until(
            lambda: (
                [
                    owner["uid"]
                    for child in cluster.children().values()
                    for owner in child["metadata"].get("ownerReferences", [])
                ]
                == [uid] * 3
            ),
            "not all children are of the second Federation",
        )
        await cluster.until_ready()

    play(scenario)


def test_tasks_without_a_superexec_are_deleted() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        labels = {"app.kubernetes.io/managed-by": "flower-operator"}
        labels |= {"flower.flwr.ai/component": "serverapp"}
        for name, federation in (("flwr-taskexecutor-1", "fed"), ("flwr-taskexecutor-2", "gone")):
            metadata = {"name": name, "labels": labels | {"flower.flwr.ai/federation": federation}}
            spec = {"containers": [{"name": "taskexecutor", "image": "x"}]}
            body = {"metadata": metadata, "spec": spec}
            await cluster.user.create(POD, NAMESPACE, body)
        await cluster.until(lambda: not cluster.pods("taskexecutor"), "tasks stay", 10)

    play(scenario)


def test_a_pod_that_cannot_start_is_reported_until_it_does() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.apply(
            document(superlink={"image": "flwr/superlink:missing"}, version="1.25.0")
        )
        await cluster.until(
            lambda: cluster.reason("Degraded") == "ImageNotPullable", lambda: str(cluster.status())
        )
        assert cluster.condition("SuperLinkAvailable")["status"] == "False"
        await cluster.apply(document())
        await cluster.until_ready()
        assert cluster.events() == ["Ready", "Starting", "ImageNotPullable", "Ready"]

    play(scenario)


def test_supernodes_that_wait_for_a_lost_superlink_are_started_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        before = {pod["metadata"]["uid"] for pod in cluster.pods(POOL)}
        await cluster.writes_within(120)
        cluster.superlinks.absent = 2
        (pod,) = cluster.pods(SUPERLINK)
        await cluster.delete(POD, pod["metadata"]["name"])
        await cluster.until(
            lambda: not {pod["metadata"]["uid"] for pod in cluster.pods(POOL)} & before,
            "they wait in vain",
            600,
        )
        assert "SuperNodeStranded" in cluster.events()
        cluster.superlinks.absent = 0
        await cluster.until_ready()

    play(scenario)


def test_a_second_replica_takes_over_and_never_do_both_write() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        second = cluster.start_operator()
        await cluster.writes_within(30)
        first = cluster.operators.pop(0)
        await first.kill()
        killed = now()
        changed = await cluster.apply(document(pool={"replicas": 3}))
        before = len(cluster.writes())
        await cluster.until_ready(seconds=30)
        assert cluster.differences([changed]) == []
        assert cluster.operators == [second]
        assert cluster.writes()[before].time > killed + 8, "the Lease was not waited for"

    play(scenario)


def test_in_a_burst_ready_follows_the_pods_however_slowly_progress_is_written() -> None:
    """A status of mere progress waits for its turn; the SuperLink is asked all the same."""
    names = [f"fed-{number}" for number in range(40)]

    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        for name in names:
            await cluster.apply(document() | {"metadata": {"name": name}})
        running = 3 * len(names)
        await cluster.until(
            lambda: sum(map(is_ready, cluster.pods())) == running, "pods are missing", 60
        )
        started = now()
        await cluster.until_ready(*names, seconds=600)
        assert now() - started < 10
        progress = [each for each in cluster.writes() if each.path.endswith("/status")]
        assert len(progress) < 3 * len(names), "progress is written at once"

    play(scenario)


def holder(cluster: Cluster) -> str:
    """Of the Lease; empty if it was given up."""
    lease = cluster.server.get(LEASE, "system", "flower-operator")
    assert lease
    return str(lease["spec"].get("holderIdentity", ""))


def test_a_standby_that_is_stopped_ends_well_and_leaves_the_lease_alone() -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        leader = holder(cluster)
        cluster.start_operator()
        await asyncio.sleep(10)
        await cluster.stop_operator()
        assert holder(cluster) == leader
        await cluster.apply(document(pool={"replicas": 3}))
        await cluster.until_ready()

    play(scenario)


def test_a_leader_that_is_stopped_before_it_has_synced_gives_up_its_lease() -> None:
    async def scenario(cluster: Cluster) -> None:
        def lose_pods(request: Request) -> Fault | None:
            return Fault(code=500) if request.path.endswith("/pods") else None

        cluster.server.fault = lose_pods
        cluster.start_operator()
        await asyncio.sleep(10)
        assert holder(cluster)
        await cluster.stop_operator()
        assert holder(cluster) == ""

    play(scenario)
