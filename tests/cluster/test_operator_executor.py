"""SuperExecs whose tasks are pods: what they may do, and what becomes of their pods."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flower_operator.flower.releases import NEWEST
from flower_operator.flower.tasks import secret_of
from tests.cluster.federations import RELEASE, Document, Namespace, condition, manifest, wait_until
from tests.cluster.test_chart import Right, rights
from tests.harness.tasks import launch
from tests.harness.waiting import wait_for

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("operator")]

SUPEREXEC = f"flwr/superexec:{RELEASE}"
POOL = {"name": "default", "replicas": 2, "images": {"superexecClientApp": SUPEREXEC}}
LAUNCHING = {**POOL, "executor": "kubernetes"}
PLAIN = [("Service", "lab-superlink"), ("Deployment", "lab-superlink")]
PLAIN += [("StatefulSet", "lab-supernode-default")]


def lab(executor: str | None, pool: Document, **spec: Any) -> Document:
    superlink = {"image": f"flwr/superlink:{RELEASE}", "superexecImage": SUPEREXEC}
    if executor:
        superlink["executor"] = executor
    return manifest("lab", isolationMode="process", superlink=superlink, pools=[pool], **spec)


LAB = lab("kubernetes", LAUNCHING)


@pytest.fixture
def ready(namespace: Namespace) -> Namespace:
    """A namespace that lets in what is restricted, with a Federation whose tasks are pods."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    namespace.cluster.kubectl("label", "namespace", namespace.name, label)
    namespace.apply(LAB)
    namespace.wait_until_ready("lab")
    return namespace


def account(namespace: Namespace, name: str) -> str:
    return f"system:serviceaccount:{namespace.name}:{name}"


def start(namespace: Namespace, folder: Path, owner: str) -> Callable[[], list[str]]:
    """Start a task as flwr does it, with the rights of its SuperExec; what is left of it."""
    config_map, file, user = {
        "superlink": ("lab-serverapp", "executor.yaml", "lab-superlink"),
        "first": ("lab-clientapp-default", "0.yaml", "lab-supernode-default"),
        "second": ("lab-clientapp-default", "1.yaml", "lab-supernode-default"),
    }[owner]
    found = namespace.get("ConfigMap", config_map)
    assert found
    config = folder / f"{owner}.yaml"
    config.write_text(found["data"][file])
    made = {}
    for call in launch(NEWEST, config, "10.0.0.7:9094"):
        if call["method"].startswith("create_"):
            resource = f"{call['method'].removeprefix('create_namespaced_')}s"
            path = f"/api/v1/namespaces/{namespace.name}/{resource}"
            headers = {"Impersonate-User": account(namespace, user)}
            status, answer = namespace.cluster.request("POST", path, call["body"], headers)
            assert status == 201, answer
            made[resource] = f"{path}/{call['body']['metadata']['name']}"
    pod = made["pods"].rpartition("/")[2]
    assert made["secrets"].endswith(f"/{secret_of(pod)}")

    def left() -> list[str]:
        return [path for path in made.values() if namespace.cluster.request("GET", path)[0] == 200]

    assert len(left()) == 2
    return left


def running(namespace: Namespace, left: Callable[[], list[str]]) -> bool:
    (pod,) = (path for path in left() if "/pods/" in path)
    phase: str = namespace.cluster.request("GET", pod)[1]["status"]["phase"]
    return phase == "Running"


def test_superexecs_may_do_what_flower_calls_and_nothing_else(ready: Namespace) -> None:
    def own_rights(name: str, namespace: str) -> set[Right]:
        found = rights(ready.cluster, account(ready, name), namespace)
        return found - rights(ready.cluster, account(ready, "stranger"), namespace)

    calls = {("", "pods", verb, "*") for verb in ("create", "list", "delete")}
    calls |= {("", "secrets", verb, "*") for verb in ("create", "list", "delete")}
    for name in ("lab-superlink", "lab-supernode-default"):
        wait_for(partial(own_rights, name, ready.name), "the binding has no effect", 10)
        assert own_rights(name, ready.name) == calls
        assert own_rights(name, "default") == set()
    for name in ("lab-serverapp", "lab-clientapp-default"):
        assert own_rights(name, ready.name) == set()


def test_without_the_executor_all_that_it_needed_is_gone(ready: Namespace) -> None:
    assert len(ready.children()) == 11
    plain = lab(None, POOL)
    ready.apply(plain)
    wait_until(lambda: sorted(ready.children()) == sorted(PLAIN), "something is left over")
    ready.wait_until_ready("lab")
    ready.wait_until_as_rendered(plain)
    # An account that does not exist any more would keep every new pod out.
    assert {pod["spec"]["serviceAccountName"] for pod in ready.pods()} == {"default"}


def test_what_is_changed_by_hand_is_put_right(ready: Namespace) -> None:
    name = "lab-superlink"
    stranger = {"kind": "ServiceAccount", "name": "stranger", "namespace": ready.name}
    ready.patch("RoleBinding", name, {"subjects": [stranger]})
    ready.patch("ServiceAccount", name, {"automountServiceAccountToken": True})
    ready.wait_until_as_rendered(LAB)


def test_tasks_stay_with_their_federation_and_go_with_it(ready: Namespace, tmp_path: Path) -> None:
    tasks = [start(ready, tmp_path, owner) for owner in ("superlink", "first", "second")]
    wait_until(lambda: all(running(ready, task) for task in tasks), "the tasks do not run")
    # They are nobody's fault and nobody's SuperNode.
    federation = ready.wait_until_ready("lab")
    assert federation["status"]["supernodes"] == "2/2"
    ready.delete("lab")
    wait_until(lambda: not any(task() for task in tasks), "a task is left over")


def test_a_task_in_trouble_is_not_the_federations(ready: Namespace, tmp_path: Path) -> None:
    task = start(ready, tmp_path, "first")
    (pod,) = (path for path in task() if "/pods/" in path)
    fate = {"metadata": {"annotations": {"test/fate": "crash-loop"}}}
    assert ready.cluster.request("PATCH", pod, fate)[0] == 200

    def crashes() -> bool:
        statuses = ready.cluster.request("GET", pod)[1]["status"].get("containerStatuses", [])
        return any("waiting" in each["state"] for each in statuses)

    wait_until(crashes, "the task does not crash")
    # A change of the spec makes the operator look at everything anew.
    ready.apply(lab("kubernetes", {**LAUNCHING, "extraArgs": ["--x"]}))
    federation = ready.wait_until_ready("lab")
    assert condition(federation, "Degraded")["status"] == "False"
    assert len(task()) == 2


def test_tasks_of_a_superexec_that_is_no_more_are_cleared_away(
    ready: Namespace, tmp_path: Path
) -> None:
    superlink, first, second = (
        start(ready, tmp_path, owner) for owner in ("superlink", "first", "second")
    )
    ready.apply(lab("kubernetes", {**LAUNCHING, "replicas": 1}))
    wait_until(lambda: not second(), "the task of a replica that is gone stays")
    ready.apply(lab(None, {**LAUNCHING, "replicas": 1}))
    wait_until(lambda: not superlink(), "the task of the SuperLink's old executor stays")
    ready.wait_until_ready("lab")
    assert len(first()) == 2


def test_a_task_without_a_federation_is_cleared_away_and_nothing_else(
    ready: Namespace, tmp_path: Path
) -> None:
    """As after an operator that was away while the Federation was deleted."""
    task = start(ready, tmp_path, "superlink")
    (pod,) = (path for path in task() if "/pods/" in path)
    (secret,) = (path for path in task() if "/secrets/" in path)
    other = f"{secret}-of-someone"
    body = {"metadata": {"name": other.rpartition("/")[2]}}
    assert ready.cluster.request("POST", secret.rpartition("/")[0], body)[0] == 201
    gone = {"metadata": {"labels": {"flower.flwr.ai/federation": "long-gone"}}}
    assert ready.cluster.request("PATCH", pod, gone)[0] == 200
    wait_until(lambda: not task(), "the task stays")
    assert ready.cluster.request("GET", other)[0] == 200
