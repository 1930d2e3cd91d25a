"""What the operator makes of a Federation, and of every change to it or to its children."""

import pytest

from flower_operator.operator.desired import FEDERATION
from tests.cluster.federations import (
    Document,
    Namespace,
    condition,
    manifest,
    rendered,
    wait_until,
)
from tests.harness.operator_process import OperatorProcess
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.usefixtures("operator")

SUPERLINK = "lab-superlink"
POOL = "lab-supernode-default"
CLAIM: Document = {
    "metadata": {"name": "state"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
def lab(namespace: Namespace) -> Document:
    """A Federation that is ready."""
    document = manifest("lab")
    namespace.apply(document)
    namespace.wait_until_ready("lab")
    return document


def test_every_child_belongs_to_its_federation(namespace: Namespace, lab: Document) -> None:
    uid = namespace.federation("lab")["metadata"]["uid"]
    children = namespace.children()
    assert len(children) == 3
    for child in children.values():
        (owner,) = child["metadata"]["ownerReferences"]
        assert owner["uid"] == uid
        assert owner["controller"] is True


def test_everything_is_applied_by_one_field_manager(namespace: Namespace, lab: Document) -> None:
    for child in namespace.children().values():
        managers = {
            (each["manager"], each["operation"])
            for each in child["metadata"]["managedFields"]
            if "subresource" not in each
        }
        assert managers == {("flower-operator", "Apply")}


def test_a_changed_spec_rolls_out(namespace: Namespace, lab: Document) -> None:
    changed = manifest("lab", pools=[{"name": "default", "replicas": 3, "extraArgs": ["--x"]}])
    namespace.apply(changed)
    federation = namespace.wait_until_ready("lab")
    assert federation["status"]["supernodes"] == "3/3"
    assert namespace.differences(changed) == []
    pods = [pod for pod in namespace.pods() if pod["metadata"]["name"].startswith(POOL)]
    assert len(pods) == 3
    assert all("--x" in pod["spec"]["containers"][0]["args"] for pod in pods)


def test_a_field_that_is_taken_out_again_is_gone(namespace: Namespace, lab: Document) -> None:
    pool = {"name": "default", "replicas": 2, "podTemplate": {"spec": {"hostname": "odd"}}}
    namespace.apply(manifest("lab", pools=[pool]))
    wait_until(lambda: pod_field(namespace, "hostname") == "odd", "the hostname is not applied")
    namespace.apply(lab)
    wait_until(lambda: pod_field(namespace, "hostname") is None, "the hostname stays")


def pod_field(namespace: Namespace, name: str) -> object:
    pool = namespace.get("StatefulSet", POOL)
    assert pool
    return pool["spec"]["template"]["spec"].get(name)


def test_a_removed_pool_leaves_nothing_behind(namespace: Namespace, lab: Document) -> None:
    config = {"partition": "{partition}"}
    two = [
        {"name": "default", "replicas": 2, "nodeConfig": config},
        {"name": "second", "replicas": 1, "nodeConfig": config},
    ]
    namespace.apply(manifest("lab", pools=two))
    namespace.wait_until_ready("lab")
    assert namespace.get("ConfigMap", "lab-supernode-second")
    namespace.apply(lab)
    namespace.wait_until_as_rendered(lab)
    wait_until(lambda: len(namespace.pods()) == 3, "the pods of the removed pool stay")
    namespace.wait_until_ready("lab")


def test_a_changed_mode_leaves_nothing_behind(namespace: Namespace, lab: Document) -> None:
    daemon = manifest("lab", mode="DaemonSet", pools=[{"name": "default"}])
    namespace.apply(daemon)
    federation = namespace.wait_until_ready("lab")
    assert federation["status"]["supernodes"] == "10/10"
    assert namespace.differences(daemon) == []
    namespace.apply(lab)
    assert namespace.wait_until_ready("lab")["status"]["supernodes"] == "2/2"
    assert namespace.differences(lab) == []
    wait_until(lambda: len(namespace.pods()) == 3, "pods of the other mode stay")


def test_a_changed_service_type_leaves_nothing_behind(namespace: Namespace, lab: Document) -> None:
    image = lab["spec"]["superlink"]["image"]
    for kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        superlink = {"image": image, "service": {"type": kind}}
        namespace.apply(manifest("lab", superlink=superlink))
        wait_until(lambda kind=kind: service_type(namespace) == kind, f"no Service of {kind}")  # type: ignore[misc]
    service = namespace.get("Service", SUPERLINK)
    assert service
    assert not any("nodePort" in port for port in service["spec"]["ports"])
    namespace.wait_until_ready("lab")


def service_type(namespace: Namespace) -> str:
    service = namespace.get("Service", SUPERLINK)
    assert service
    kind: str = service["spec"]["type"]
    return kind


def test_a_superlink_that_gets_a_volume_never_runs_twice(
    namespace: Namespace, lab: Document
) -> None:
    (old,) = [name_of(pod) for pod in namespace.pods() if SUPERLINK in name_of(pod)]
    hold(namespace, old, ["test/hold"])
    superlink = {"image": lab["spec"]["superlink"]["image"], "volumeClaimTemplates": [CLAIM]}
    namespace.apply(manifest("lab", superlink=superlink))

    def waiting() -> bool:
        message = condition(namespace.federation("lab"), "Ready").get("message", "")
        return f"StatefulSet {SUPERLINK}" in message

    wait_until(waiting, "it does not wait for the old pod")
    assert namespace.get("StatefulSet", SUPERLINK) is None
    assert old in map(name_of, namespace.pods())
    hold(namespace, old, [])

    def moved() -> bool:
        if namespace.get("StatefulSet", SUPERLINK) is None:
            return False
        assert namespace.get("Deployment", SUPERLINK) is None, "two workloads at once"
        return True

    wait_until(moved, "the SuperLink has not become a StatefulSet")


def hold(namespace: Namespace, pod: str, finalizers: list[str]) -> None:
    """Keep a pod from going before it may."""
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}"
    patch = {"metadata": {"finalizers": finalizers}}
    status, answer = namespace.cluster.request("PATCH", path, patch)
    assert status == 200, answer


def test_changed_claims_replace_the_workload_and_keep_volumes_and_pods(
    namespace: Namespace, lab: Document
) -> None:
    def pool(size: str) -> Document:
        spec = CLAIM["spec"] | {"resources": {"requests": {"storage": size}}}
        claim = CLAIM | {"spec": spec}
        return {"name": "default", "replicas": 2, "volumeClaimTemplates": [claim]}

    first = manifest("lab", pools=[pool("1Gi")])
    namespace.apply(first)
    namespace.wait_until_as_rendered(first)
    wait_until(lambda: len(claims(namespace)) == 2, "there are no claims")
    pods = {pod["metadata"]["uid"] for pod in namespace.pods()}
    before = claims(namespace)

    second = manifest("lab", pools=[pool("2Gi")])
    namespace.apply(second)
    namespace.wait_until_as_rendered(second)
    assert claims(namespace) == before
    assert {pod["metadata"]["uid"] for pod in namespace.pods()} == pods
    told = [each["message"] for each in namespace.events("lab") if each["reason"] == "Replaced"]
    # At first the pods had no claims to mount, and had to go.
    assert len(told) == 2
    assert "pods are replaced" in told[0]
    assert "pods are taken over" in told[1]
    assert all(f"StatefulSet {POOL}" in each and "claims stay" in each for each in told)


def claims(namespace: Namespace) -> dict[str, str]:
    path = f"/api/v1/namespaces/{namespace.name}/persistentvolumeclaims"
    items = namespace.cluster.request("GET", path)[1]["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in items}


@pytest.mark.parametrize(
    ("kind", "name", "patch"),
    [
        ("StatefulSet", POOL, {"spec": {"replicas": 5}}),
        ("StatefulSet", POOL, {"metadata": {"labels": {"flower.flwr.ai/pool": "other"}}}),
        ("StatefulSet", POOL, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}),
        ("StatefulSet", POOL, {"metadata": {"annotations": {"flower.flwr.ai/applied": None}}}),
        ("Deployment", SUPERLINK, {"spec": {"replicas": 0}}),
        (
            "Deployment",
            SUPERLINK,
            {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}},
        ),
        ("Service", SUPERLINK, {"spec": {"selector": {"app.kubernetes.io/name": "other"}}}),
        ("Service", SUPERLINK, {"spec": {"type": "NodePort"}}),
    ],
)
def test_a_child_changed_by_hand_is_put_right(
    namespace: Namespace, lab: Document, kind: str, name: str, patch: Document
) -> None:
    namespace.patch(kind, name, patch)
    namespace.wait_until_as_rendered(lab)


@pytest.mark.parametrize(
    ("kind", "name"), [("Service", SUPERLINK), ("Deployment", SUPERLINK), ("StatefulSet", POOL)]
)
def test_a_child_deleted_by_hand_is_recreated(
    namespace: Namespace, lab: Document, kind: str, name: str
) -> None:
    before = namespace.get(kind, name)
    assert before
    namespace.cluster.kubectl("delete", kind, name, "-n", namespace.name, "--wait=false")

    def back() -> bool:
        now = namespace.get(kind, name)
        return now is not None and now["metadata"]["uid"] != before["metadata"]["uid"]

    wait_until(back, f"{kind} {name} is not recreated")
    namespace.wait_until_ready("lab")


def test_what_others_add_to_a_child_stays(namespace: Namespace, lab: Document) -> None:
    namespace.patch("Deployment", SUPERLINK, {"metadata": {"labels": {"team": "blue"}}})
    superlink = {"image": lab["spec"]["superlink"]["image"], "extraArgs": ["--x"]}
    changed = manifest("lab", superlink=superlink)
    namespace.apply(changed)
    namespace.wait_until_as_rendered(changed)  # so the child was applied anew
    child = namespace.get("Deployment", SUPERLINK)
    assert child
    assert child["metadata"]["labels"]["team"] == "blue"


@pytest.mark.parametrize("owner", ["nobody", "another Federation"])
def test_an_object_of_someone_else_is_never_touched(namespace: Namespace, owner: str) -> None:
    references = []
    if owner != "nobody":
        namespace.apply(manifest("other"))
        other = namespace.wait_until_ready("other")
        references = [
            {
                "apiVersion": FEDERATION.api_version,
                "kind": FEDERATION.kind,
                "name": "other",
                "uid": other["metadata"]["uid"],
                "controller": False,
            }
        ]
    body = {
        "metadata": {"name": SUPERLINK, "ownerReferences": references},
        "spec": {"ports": [{"name": "theirs", "port": 1}], "selector": {"app": "theirs"}},
    }
    path = f"/api/v1/namespaces/{namespace.name}/services"
    status, theirs = namespace.cluster.request("POST", path, body)
    assert status == 201
    namespace.apply(manifest("lab"))
    federation = namespace.wait_for_condition("lab", "Degraded", "True", "NameTaken")
    assert f"Service {SUPERLINK}" in condition(federation, "Degraded")["message"]
    assert condition(federation, "Ready")["status"] == "False"
    assert namespace.get("Service", SUPERLINK) == theirs

    namespace.cluster.kubectl("delete", "service", SUPERLINK, "-n", namespace.name)
    namespace.wait_until_ready("lab")


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_a_selector_with_more_labels_is_kept_until_pods_lack_them(
    namespace: Namespace, kind: str
) -> None:
    """As operators before this one made selectors: of all labels of a podTemplate."""
    replicas = {"replicas": 2} if kind == "StatefulSet" else {}

    def pool(**labels: str) -> Document:
        template = {"podTemplate": {"metadata": {"labels": labels}}}
        return manifest("lab", mode=kind, pools=[{"name": "default"} | replicas | template])

    every = rendered(pool(team="blue"), namespace.name)
    (old,) = (each for each in every if each["kind"] == kind)
    old["spec"]["selector"]["matchLabels"]["team"] = "blue"
    path = f"/apis/apps/v1/namespaces/{namespace.name}/{kind.lower()}s"
    status, created = namespace.cluster.request("POST", path, old)
    assert status == 201, created
    namespace.apply(pool(team="blue"))
    lab = namespace.wait_for_condition("lab", "Degraded", "True", "NameTaken")
    owner = {
        "apiVersion": FEDERATION.api_version,
        "kind": FEDERATION.kind,
        "name": "lab",
        "uid": lab["metadata"]["uid"],
        "controller": True,
    }
    namespace.patch(kind, POOL, {"metadata": {"ownerReferences": [owner]}})
    namespace.wait_until_ready("lab")
    child = namespace.get(kind, POOL)
    assert child
    assert child["metadata"]["uid"] == created["metadata"]["uid"]
    assert child["spec"]["selector"]["matchLabels"]["team"] == "blue"

    namespace.apply(pool(late="yes"))
    namespace.wait_until_as_rendered(pool(late="yes"))
    child = namespace.get(kind, POOL)
    assert child
    assert child["metadata"]["uid"] != created["metadata"]["uid"]
    uid = child["metadata"]["uid"]
    namespace.apply(pool(late="very"))
    namespace.wait_until_as_rendered(pool(late="very"))
    child = namespace.get(kind, POOL)
    assert child
    assert child["metadata"]["uid"] == uid, "a label of pods recreates it"


def test_deleting_a_federation_removes_everything(namespace: Namespace, lab: Document) -> None:
    namespace.delete("lab")
    gone = lambda: not namespace.children() and not namespace.pods()  # noqa: E731
    wait_until(gone, "something is left")


@pytest.mark.parametrize("cascade", ["foreground", "orphan"])
def test_deleting_never_hangs_and_does_as_it_is_told(
    namespace: Namespace, lab: Document, cascade: str
) -> None:
    namespace.cluster.kubectl(
        "delete", "federation", "lab", f"--cascade={cascade}", "-n", namespace.name, "--timeout=60s"
    )
    if cascade == "orphan":
        assert len(namespace.children()) == 3
        for child in namespace.children().values():
            assert "ownerReferences" not in child["metadata"]
    else:
        assert namespace.children() == {}


def test_a_namesake_that_comes_after_it_gets_children_of_its_own(
    namespace: Namespace, lab: Document
) -> None:
    first = namespace.federation("lab")["metadata"]["uid"]
    namespace.delete("lab")
    namespace.apply(lab)
    second = namespace.federation("lab")["metadata"]["uid"]
    assert first != second

    def all_new() -> bool:
        owners = [
            owner["uid"]
            for child in namespace.children().values()
            for owner in child["metadata"].get("ownerReferences", [])
        ]
        return owners == [second] * 3

    wait_until(all_new, "not all children are of the second Federation")
    namespace.wait_until_ready("lab")


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
def test_suspending_stops_the_supernodes_and_keeps_the_superlink(
    namespace: Namespace, mode: str
) -> None:
    pool: Document = {"name": "default"} | ({"replicas": 2} if mode == "StatefulSet" else {})
    document = manifest("lab", mode=mode, pools=[pool])
    namespace.apply(document)
    namespace.wait_until_ready("lab")
    superlink = [pod["metadata"]["uid"] for pod in namespace.pods() if SUPERLINK in name_of(pod)]

    suspended = manifest("lab", mode=mode, pools=[pool], suspend=True)
    namespace.apply(suspended)
    namespace.wait_for_condition("lab", "Ready", "False", "Suspended")
    wait_until(lambda: len(namespace.pods()) == 1, "SuperNodes stay")
    assert [pod["metadata"]["uid"] for pod in namespace.pods()] == superlink
    assert namespace.federation("lab")["status"]["supernodes"] == "0/0"

    namespace.apply(document)
    namespace.wait_until_ready("lab")
    assert namespace.differences(document) == []


def name_of(pod: Document) -> str:
    name: str = pod["metadata"]["name"]
    return name


def test_restarted_at_restarts_every_pod(namespace: Namespace, lab: Document) -> None:
    before = {pod["metadata"]["uid"] for pod in namespace.pods()}
    annotation = "flower.flwr.ai/restarted-at=2026-01-01T00:00:00Z"
    namespace.cluster.kubectl("annotate", "federation", "lab", annotation, "-n", namespace.name)

    def all_new() -> bool:
        pods = {pod["metadata"]["uid"] for pod in namespace.pods()}
        return len(pods) == 3 and not pods & before

    wait_until(all_new, "not every pod is new")
    namespace.wait_until_ready("lab")


def test_at_rest_nothing_is_written_nor_logged(
    namespace: Namespace, lab: Document, operator: OperatorProcess
) -> None:
    token = namespace.cluster.token
    quiet = []

    def at_rest() -> bool:
        quiet.append((operator.writes(token), len(operator.log())))
        return len(quiet) > 6 and len(set(quiet[-6:])) == 1

    wait_for(at_rest, lambda: f"it does not come to rest: {quiet[-8:]}", 60, interval=1)
