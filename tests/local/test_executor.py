"""The rendered config of the Kubernetes executor, before each release's own executor."""

from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from flower_operator.api.manifest import parse
from flower_operator.flower.releases import Release
from flower_operator.flower.tasks import POD_PREFIX, secret_of
from flower_operator.operator.permissions import TASK_EXECUTOR
from flower_operator.render import Facts, render
from scripts.manifests import EXAMPLES
from tests.harness.releases import extended_unless
from tests.harness.tasks import Call, launch
from tests.local.machine import Machine

Document = dict[str, Any]

EXAMPLE = EXAMPLES / "federation-kubernetes-executor.yaml"
ADDRESS = "10.0.0.7:9094"
RELEASES = [Release(1, 32, 1), Release(1, 33), Release(1, 36), Release(1, 37), Release(1, 42)]


@dataclass(frozen=True)
class Launch:
    release: Release
    calls: dict[str, list[Call]]
    """By method of the client that the executor calls."""


@pytest.fixture(scope="module", params=extended_unless(RELEASES[-1:], RELEASES), ids=str)
def launched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """A task of the example's first SuperNode, from its start to the clearing away."""
    release: Release = request.param
    document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"]["version"] = str(release)
    if release.minor < 33:  # when tasks could mount nothing
        document["spec"]["supernodes"]["pools"][0].pop("superexecVolumeMounts")
    objects = render(parse(document), Facts(namespace="team")).objects
    (files,) = (
        each["data"]
        for each in objects
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].endswith("clientapp-hospitals")
    )
    config = tmp_path_factory.mktemp("executor") / "executor.yaml"
    config.write_text(files["0.yaml"])
    calls: dict[str, list[Call]] = {}
    for call in launch(release, config, ADDRESS):
        calls.setdefault(call["method"], []).append(call)
    return Launch(release, calls)


def test_flower_makes_of_a_task_what_the_manifest_says(launched: Launch) -> None:
    (created,) = launched.calls["create_namespaced_pod"]
    pod, spec = created["body"], created["body"]["spec"]
    (container,) = spec["containers"]
    assert created["namespace"] == "team"
    assert container["image"] == "registry.example.com/superexec-kubernetes:1.41.0"
    assert container["resources"]["limits"] == {"memory": "2Gi"}
    assert {"name": "DATASET", "value": "digits"} in container["env"]
    assert ADDRESS in container["args"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "federation-kubernetes-executor-clientapp-hospitals"
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert spec["tolerations"] == [
        {"key": "training", "operator": "Exists", "effect": "NoSchedule"}
    ]
    # What Pod Security asks for where it is strictest.
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    wanted = {"/app/.flwr", "/tmp", "/data"} if launched.release.minor >= 33 else set()
    assert mounted >= wanted
    assert {each["name"] for each in container["volumeMounts"]} == {
        each["name"] for each in spec["volumes"]
    }
    assert (
        pod["metadata"]["labels"].items()
        >= {
            "app.kubernetes.io/managed-by": "flower-operator",
            "flower.flwr.ai/component": "clientapp",
            "flower.flwr.ai/federation": "federation-kubernetes-executor",
            "flower.flwr.ai/pool": "hospitals",
            "flower.flwr.ai/index": "0",
        }.items()
    )


def test_the_names_and_the_labels_are_those_we_clear_away_by(launched: Launch) -> None:
    calls = launched.calls
    pod = calls["create_namespaced_pod"][0]["body"]["metadata"]
    secret = calls["create_namespaced_secret"][0]["body"]["metadata"]
    assert pod["name"].startswith(POD_PREFIX)
    assert secret["name"] == secret_of(pod["name"])
    # A sweep is for this SuperNode's tasks alone.
    for call in calls["list_namespaced_pod"] + calls["list_namespaced_secret"]:
        assert "flower.flwr.ai/index=0" in call["selector"].split(",")
        assert "flower.flwr.ai/pool=hospitals" in call["selector"].split(",")


def test_the_role_allows_what_flower_calls_and_no_more(launched: Launch) -> None:
    called = {tuple(method.split("_namespaced_")) for method in launched.calls}
    allowed = {
        (verb, resource.removesuffix("s"))
        for rule in TASK_EXECUTOR
        for verb in rule.verbs
        for resource in rule.resources
    }
    assert called == allowed


@pytest.mark.extended
def test_on_this_machine_tasks_are_processes(machine: Machine) -> None:
    up = machine.run("up", "-d", "--timeout", "240", EXAMPLE)
    assert "note: executor kubernetes is for clusters" in up.stderr
    status = machine.run("status", "federation-kubernetes-executor").stdout
    assert status.startswith("federation-kubernetes-executor: ready, 3/3 SuperNodes connected")
