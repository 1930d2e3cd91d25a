"""Whether the status tells the truth, and the events and metrics with it."""

import re
from itertools import pairwise

import pytest

from tests.cluster.federations import Document, Namespace, condition, manifest, wait_until
from tests.harness.nodes import FATE, FATE_CONTAINER
from tests.harness.operator_process import OperatorProcess
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.usefixtures("operator")


def doomed(fate: str, container: str = "supernode", *, superlink: bool = False) -> Document:
    """A Federation whose SuperNodes, or whose SuperLink, come to this."""
    template = {"metadata": {"annotations": {FATE: fate, FATE_CONTAINER: container}}}
    if superlink:
        return manifest(
            "lab", superlink={"image": "flwr/superlink:1.41.0", "podTemplate": template}
        )
    return manifest("lab", pools=[{"name": "default", "replicas": 2, "podTemplate": template}])


def test_a_federation_that_is_well_says_all_about_itself(namespace: Namespace) -> None:
    pools = [
        {"name": "default", "replicas": 2},
        {"name": "old", "replicas": 1, "images": {"supernode": "flwr/supernode:1.40.0"}},
    ]
    namespace.apply(manifest("lab", pools=pools))
    federation = namespace.wait_until_ready("lab")
    status = federation["status"]
    assert status["observedGeneration"] == federation["metadata"]["generation"]
    assert status["supernodes"] == "3/3"
    assert (status["readySupernodes"], status["desiredSupernodes"]) == (3, 3)
    assert status["release"] == "1.41.0"
    address = f"lab-superlink.{namespace.name}.svc:9093"
    assert status["endpoints"] == {"superlinkService": address}
    pools = status["pools"]
    said = {each["name"]: (each["kind"], each["ready"], each["release"]) for each in pools}
    assert said == {"default": ("StatefulSet", 2, "1.41.0"), "old": ("StatefulSet", 1, "1.40.0")}
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "Ready": "True",
        "Reconciling": "False",
        "SuperLinkAvailable": "True",
        "Degraded": "False",
    }
    assert "outside of the cluster" in condition(federation, "SuperLinkAvailable")["message"]
    assert "connectedSupernodes" not in status


@pytest.mark.parametrize(
    ("document", "reason", "words"),
    [
        (doomed("image-missing"), "ImageNotPullable", ["supernode", "flwr/supernode:1.41.0"]),
        (
            manifest(
                "lab",
                superlink={
                    "image": "flwr/superlink:1.41.0",
                    "gateway": {"enabled": True, "image": "registry.test/envoy:missing"},
                },
            ),
            "ImageNotPullable",
            ["gateway", "registry.test/envoy:missing"],
        ),
        (doomed("crash-loop"), "CrashLoop", ["supernode", "exit code 1", "bad flag"]),
        (doomed("out-of-memory"), "OutOfMemory", ["supernode", "memory"]),
        (
            manifest(
                "lab",
                pools=[
                    {
                        "name": "default",
                        "replicas": 1,
                        "podTemplate": {"spec": {"nodeSelector": {"there-is": "none"}}},
                    }
                ],
            ),
            "Unschedulable",
            ["0/10 nodes", "didn't match"],
        ),
        (manifest("lab", version="seven"), "UnknownRelease", ["spec.version", "seven"]),
        (
            manifest("lab", superlink={"image": "flwr/superlink:1.39.0"}),
            "ReleaseMismatch",
            ["1.39.0", "1.41.0"],
        ),
        (
            manifest("lab", pools=[{"name": "default", "replicas": 1, "nodeConfig": {"a b": "c"}}]),
            "InvalidSpec",
            ["nodeConfig"],
        ),
    ],
)
def test_a_fault_is_told_in_words_that_one_can_act_on(
    namespace: Namespace, document: Document, reason: str, words: list[str]
) -> None:
    namespace.apply(document)
    federation = namespace.wait_for_condition("lab", "Degraded", "True", reason)
    message = condition(federation, "Degraded")["message"]
    assert all(word in message for word in words), message
    assert condition(federation, "Ready")["status"] == "False"
    assert condition(federation, "Reconciling")["status"] == "False"
    # The status is written first.
    wait_until(lambda: warnings(namespace) == [reason], lambda: f"told: {warnings(namespace)}")


def warnings(namespace: Namespace) -> list[str]:
    return [each["reason"] for each in namespace.events("lab") if each["type"] == "Warning"]


def test_a_superlink_that_crashes_is_not_available(namespace: Namespace) -> None:
    namespace.apply(doomed("crash-loop", "superlink", superlink=True))
    federation = namespace.wait_for_condition("lab", "SuperLinkAvailable", "False", "CrashLoop")
    assert "bad flag" in condition(federation, "SuperLinkAvailable")["message"]


def test_one_bad_pool_is_told_apart_from_a_good_one(namespace: Namespace) -> None:
    template = {"metadata": {"annotations": {FATE: "crash-loop"}}}
    bad = {"name": "bad", "replicas": 1, "podTemplate": template}
    namespace.apply(manifest("lab", pools=[{"name": "good", "replicas": 2}, bad]))
    namespace.wait_for_condition("lab", "Degraded", "True", "CrashLoop")

    def told_apart() -> bool:
        pools = namespace.federation("lab")["status"]["pools"]
        said = {each["name"]: each["conditions"][0] for each in pools}
        return (said["good"]["status"], said["bad"]["reason"]) == ("True", "CrashLoop")

    wait_until(told_apart, "the pools are not told apart")
    assert namespace.federation("lab")["status"]["supernodes"] == "2/3"


def test_pod_security_says_why_there_are_no_pods(namespace: Namespace) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    namespace.cluster.kubectl("label", "namespace", namespace.name, label)
    template = {"spec": {"hostNetwork": True}}
    loose = {"name": "default", "replicas": 1, "podTemplate": template}
    namespace.apply(manifest("lab", pools=[loose]))
    federation = namespace.wait_for_condition("lab", "Degraded", "True", "PodsRefused")
    message = condition(federation, "Degraded")["message"]
    assert 'violates PodSecurity "restricted:latest"' in message
    assert "host namespaces" in message
    namespace.wait_for_condition("lab", "SuperLinkAvailable", "True")


@pytest.mark.parametrize(("kind", "reason"), [("pods", "PodsRefused"), ("services", "Refused")])
def test_a_quota_says_why_there_is_nothing(namespace: Namespace, kind: str, reason: str) -> None:
    name, quota = namespace.name, f"--hard=count/{kind}=0"
    namespace.cluster.kubectl("create", "quota", "none", quota, "-n", name)
    # The quota counts only once its controller has seen it.
    seen = ("get", "quota", "none", "-n", name, "-o", "jsonpath={.status.hard}")
    wait_until(lambda: bool(namespace.cluster.kubectl(*seen).stdout), "the quota is not seen")
    namespace.apply(manifest("lab"))
    federation = namespace.wait_for_condition("lab", "Degraded", "True", reason)
    assert "exceeded quota: none" in condition(federation, "Degraded")["message"]
    namespace.cluster.kubectl("delete", "quota", "none", "-n", name)
    namespace.wait_until_ready("lab", timeout=120)


def test_ready_waits_for_the_probes_and_goes_when_the_superlink_is_lost(
    namespace: Namespace,
) -> None:
    namespace.apply(doomed("not-ready", "superlink", superlink=True))
    namespace.wait_for_condition("lab", "Reconciling", "True")
    wait_until(lambda: supernodes(namespace) == "2/2", "the SuperNodes are not ready")
    assert condition(namespace.federation("lab"), "Ready")["status"] == "False"
    (pod,) = [each for each in namespace.pods() if "superlink" in each["metadata"]["name"]]
    name = pod["metadata"]["name"]
    namespace.cluster.kubectl("annotate", "pod", name, f"{FATE}-", "-n", namespace.name)
    namespace.wait_until_ready("lab")
    namespace.cluster.kubectl("annotate", "pod", name, f"{FATE}=not-ready", "-n", namespace.name)
    namespace.wait_for_condition("lab", "Ready", "False")
    namespace.wait_for_condition("lab", "SuperLinkAvailable", "False")


def supernodes(namespace: Namespace) -> str:
    said: str = namespace.federation("lab").get("status", {}).get("supernodes", "")
    return said


def test_ready_does_not_flap_with_a_crash_loop(namespace: Namespace) -> None:
    namespace.apply(doomed("flapping"))
    namespace.wait_for_condition("lab", "Degraded", "True", "CrashLoop")
    seen: list[tuple[int, str]] = []

    def ready_again(count: int) -> bool:
        """Looks at the pods' own account, to see that they do flap meanwhile."""
        status = namespace.federation("lab")["status"]
        ready = next(each["status"] for each in status["conditions"] if each["type"] == "Ready")
        seen.append((status["readySupernodes"], ready))
        counts = [number for number, _ in seen]
        turns = sum(now != before for before, now in pairwise(counts))
        return turns >= count

    wait_until(lambda: ready_again(6), "the pods do not flap")
    assert {ready for _, ready in seen} == {"False"}
    assert len(warnings(namespace)) == 1


def test_a_spec_that_cannot_be_rendered_leaves_what_runs_alone(namespace: Namespace) -> None:
    document = manifest("lab")
    namespace.apply(document)
    namespace.wait_until_ready("lab")
    before = {pod["metadata"]["uid"] for pod in namespace.pods()}
    namespace.apply(manifest("lab", version="nonsense"))
    federation = namespace.wait_for_condition("lab", "Ready", "False", "UnknownRelease")
    assert federation["status"]["supernodes"] == "2/2"
    assert condition(federation, "SuperLinkAvailable")["status"] == "True"
    assert {pod["metadata"]["uid"] for pod in namespace.pods()} == before
    namespace.apply(document)
    namespace.wait_until_ready("lab")


def test_a_newer_release_than_known_is_said(namespace: Namespace) -> None:
    namespace.apply(manifest("lab", version="9.1.0"))
    message = condition(namespace.wait_until_ready("lab"), "Ready")["message"]
    assert "9.1.0 is newer" in message


def test_a_pool_without_nodes_is_not_ready(namespace: Namespace) -> None:
    nowhere = {"name": "default", "podTemplate": {"spec": {"nodeSelector": {"there-is": "none"}}}}
    namespace.apply(manifest("lab", mode="DaemonSet", pools=[nowhere]))
    federation = namespace.wait_for_condition("lab", "Ready", "False", "NoNodes")
    assert federation["status"]["supernodes"] == "0/0"


def test_events_tell_transitions_only(namespace: Namespace) -> None:
    namespace.apply(manifest("lab"))
    namespace.wait_until_ready("lab")
    namespace.apply(manifest("lab", suspend=True))
    namespace.wait_for_condition("lab", "Ready", "False", "Suspended")
    namespace.apply(manifest("lab"))
    namespace.wait_until_ready("lab")

    def reasons() -> list[str]:
        return [each["reason"] for each in namespace.events("lab")]

    wait_until(lambda: reasons().count("Ready") == 2, "not every Ready is told", timeout=10)
    others = [reason for reason in reasons() if reason != "Ready"]
    assert 1 <= len(others) <= 2  # not ready any more, and why: rolling out first, or suspended


def test_a_reconcile_that_changed_something_is_one_line(
    namespace: Namespace, operator: OperatorProcess
) -> None:
    namespace.apply(manifest("lab"))
    namespace.wait_until_ready("lab")
    name = f"{namespace.name}/lab"

    def lines() -> list[Document]:
        return [line for line in operator.log() if line.get("federation") == name]

    wait_for(lambda: any(each["ready"] == "True" for each in lines()), "no line says Ready", 5)
    first = lines()[0]
    assert [each for each in lines() if each["done"]] == [first]
    assert first["done"] == [
        "created Service lab-superlink",
        "created Deployment lab-superlink",
        "created StatefulSet lab-supernode-default",
    ]
    assert all(each["level"] == "info" for each in lines())


def test_health_is_there_for_all_and_metrics_for_those_who_may(
    namespace: Namespace, operator: OperatorProcess
) -> None:
    namespace.apply(manifest("lab"))
    namespace.wait_until_ready("lab")
    assert operator.get_health("/healthz")[0] == 200
    assert operator.get_health("/readyz")[0] == 200
    assert operator.get_metrics(None)[0] == 401
    assert operator.get_metrics("nonsense")[0] == 401
    name = namespace.name
    namespace.cluster.kubectl("create", "serviceaccount", "reader", "-n", name)
    token = namespace.cluster.kubectl("create", "token", "reader", "-n", name).stdout.strip()
    assert operator.get_metrics(token)[0] == 403
    namespace.cluster.kubectl(
        "create",
        "clusterrolebinding",
        name,
        "--clusterrole=flower-operator-metrics-reader",
        f"--serviceaccount={name}:reader",
    )
    seen = wait_for(lambda: metrics(operator, token), "the reader may not read", 10)
    for figure in ("desired", "ready"):
        assert seen[f'flower_operator_supernodes{{state="{figure}"}}'] >= 2
    assert seen['flower_operator_federations_by_condition{condition="Ready",status="True"}'] >= 1
    assert seen["flower_operator_reconciles_total"] >= 1
    assert seen['flower_operator_api_requests_total{code="201",method="PATCH"}'] >= 3
    assert "flower_operator_queue_length" in seen
    assert "flower_operator_reconcile_errors_total" in seen
    assert seen["flower_operator_reconcile_seconds_count"] >= 1


def metrics(operator: OperatorProcess, token: str) -> dict[str, float] | None:
    status, text = operator.get_metrics(token)
    if status != 200:
        return None
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", text, re.M)}
