"""The Helm chart and the make targets that install it, on a cluster of their own: the CRD goes."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from flower_operator import __version__
from flower_operator.operator.permissions import (
    FLEET,
    LEADER_ELECTION,
    MANAGER,
    METRICS,
    TASK_EXECUTOR_BINDING,
    Rule,
)
from scripts.admission import NAME as POLICY
from scripts.chart import CHART, policy
from scripts.manifests import CRD, EXAMPLES, ROOT
from tests.cluster.conftest import serves_federations
from tests.harness.binaries import binary
from tests.harness.control_plane import ControlPlane
from tests.harness.waiting import wait_for

Document = dict[str, Any]
# Group, resource, verb and name, or "*" for any.
Right = tuple[str, str, str, str]

NAMESPACE = "flower-operator-system"
DEPLOYMENT = "flower-operator-controller-manager"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{DEPLOYMENT}"
STRANGER = f"system:serviceaccount:{NAMESPACE}:stranger"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/federations.flwr.exalsius.ai"
DEPLOYMENT_PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{DEPLOYMENT}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TASK_EXECUTOR = f"{RBAC}/clusterroles/flower-operator-task-executor"
EXAMPLE = EXAMPLES / "federation-statefulset-subprocess.yaml"
READ = {"get", "list", "watch"}
WRITE = {"create", "update", "patch", "delete"}
SECTION = re.compile(r"^## Install the operator on a cluster\n(.*?)^## ", re.MULTILINE | re.DOTALL)
# Not "sh": those blocks are run by test_docs, on a cluster where the CRD has to stay.
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(controllers=True, nodes=1) as plane:
        for name in (NAMESPACE, "north", "south"):
            plane.kubectl("create", "namespace", name)
        # So that whatever installs the operator here shows that its pod is let in.
        label = "pod-security.kubernetes.io/enforce=restricted"
        plane.kubectl("label", "namespace", NAMESPACE, label)
        yield plane


def environment(plane: ControlPlane) -> dict[str, str]:
    tools = [binary("helm").parent, binary("kubectl").parent]
    own_settings = {
        "PATH": os.pathsep.join([*map(str, tools), os.environ["PATH"]]),
        "KUBECONFIG": str(plane.kubeconfig),
        "KUBECACHEDIR": str(plane.folder / "kubectl-cache"),
        "HELM_CACHE_HOME": str(plane.folder / "helm/cache"),
        "HELM_CONFIG_HOME": str(plane.folder / "helm/config"),
        "HELM_DATA_HOME": str(plane.folder / "helm/data"),
        # No image is made here.
        "CONTAINER_TOOL": "true",
    }
    # The tests may be run by a make that has its own options.
    outer = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return outer | own_settings


def run(plane: ControlPlane, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(plane),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def helm(plane: ControlPlane, *arguments: str) -> str:
    done = run(plane, ROOT, "helm", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(plane: ControlPlane, *arguments: str) -> str:
    done = run(plane, ROOT, "helm", *arguments)
    assert done.returncode != 0, done.stdout
    return done.stderr


def chart(verb: str, *settings: str, release: str = "flower-operator") -> list[str]:
    """The arguments of a Helm command on the chart."""
    options = [option for setting in settings for option in ("--set", setting)]
    return [verb, release, str(CHART), "--namespace", NAMESPACE, *options]


@contextmanager
def installed(plane: ControlPlane, *settings: str) -> Iterator[None]:
    helm(plane, *chart("install", *settings))
    try:
        yield
    finally:
        uninstall(plane)


def uninstall(plane: ControlPlane) -> None:
    helm(plane, "uninstall", "flower-operator", "--namespace", NAMESPACE, "--ignore-not-found")


def exists(plane: ControlPlane, path: str) -> bool:
    return plane.request("GET", path)[0] == 200


def stays(plane: ControlPlane, path: str) -> bool:
    """Whether it exists and is not on its way out either."""
    status, found = plane.request("GET", path)
    return status == 200 and "deletionTimestamp" not in found["metadata"]


def wait_until_gone(plane: ControlPlane, path: str) -> None:
    wait_for(lambda: not exists(plane, path), f"{path} is still there", timeout=30)


def wait_until_ready(plane: ControlPlane) -> None:
    def ready() -> bool:
        _, deployment = plane.request("GET", DEPLOYMENT_PATH)
        return bool(deployment.get("status", {}).get("readyReplicas"))

    def message() -> str:
        return plane.kubectl("describe", "replicaset", "-n", NAMESPACE).stdout

    wait_for(ready, message, timeout=30)


def container(plane: ControlPlane) -> Document:
    _, deployment = plane.request("GET", DEPLOYMENT_PATH)
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


# What may be written in the values.


def test_lint_finds_nothing(plane: ControlPlane) -> None:
    assert "0 chart(s) failed" in helm(plane, "lint", "--strict", str(CHART))


@pytest.mark.extended
def test_the_api_server_accepts_every_combination_of_values(plane: ControlPlane) -> None:
    switches = [
        [f"{name}={value}" for value in ("true", "false")]
        for name in ("crd.enable", "crd.keep", "metrics.enable")
    ]
    for settings in product(*switches, ("manager.replicas=1", "manager.namespaces={north}")):
        objects = helm(plane, *chart("template", *settings))
        apply(plane, objects, "--dry-run=server", "--validate=strict")


@pytest.mark.extended
def test_the_api_server_accepts_what_a_platform_team_sets(
    plane: ControlPlane, tmp_path: Path
) -> None:
    manager = {
        "image": {"repository": "a.example/operator", "tag": "1", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "replicas": 2,
        "namespaces": ["north", "south"],
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    }
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"manager": manager, "global": {"of": "a parent chart"}}))
    objects = helm(plane, *chart("template"), "-f", str(values))
    apply(plane, objects, "--dry-run=server", "--validate=strict")
    [spec] = [
        document["spec"]["template"]["spec"]
        for document in yaml.safe_load_all(objects)
        if document["kind"] == "Deployment"
    ]
    [container] = spec["containers"]
    assert container["args"] == ["controller", "--namespaces=north,south"]
    assert container["resources"]["requests"] == {"cpu": "50m", "memory": "96Mi"}
    for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity"):
        assert spec[name] == manager[name]


def apply(plane: ControlPlane, objects: str, *options: str) -> None:
    plane.kubectl("apply", "-f", "-", *options, input=objects)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("manger.replicas=2", "'manger'"),
        ("manager.image.repo=x", "'repo'"),
        ("crd.enabled=false", "'enabled'"),
        ("metrics.enabled=false", "'enabled'"),
        ("manager.replicas=two", "/manager/replicas"),
        ("manager.image.pullPolicy=Sometimes", "/manager/image/pullPolicy"),
        ("manager.image.repository=", "/manager/image/repository"),
        ("manager.namespaces={North}", "/manager/namespaces/0"),
        ("manager.resources.limts.memory=1Gi", "limts"),
        ("manager.affinity.podAfinity=1", "podAfinity"),
        ("openshift=maybe", "/openshift"),
        ("addon.enabled=true", "'enabled'"),
        ("addon.namespace=Flower", "/addon/namespace"),
    ],
)
def test_a_wrong_value_is_refused_by_name(plane: ControlPlane, setting: str, said: str) -> None:
    assert said in refusal(plane, *chart("install", setting, "crd.enable=false"))
    assert not exists(plane, DEPLOYMENT_PATH)
    uninstall(plane)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("option", "value", "image"),
    [
        ("--set", "pullPolicy=Always", f"flower-operator:{__version__}"),
        ("--set", "tag=v1.2", "flower-operator:v1.2"),
        ("--set", "repository=localhost:5000/a/b", f"localhost:5000/a/b:{__version__}"),
        ("--set", "tag=sha256:1f", "flower-operator@sha256:1f"),
        # Tags that are all digits are numbers to Helm, and large ones floats.
        ("--set", "tag=20261115", "flower-operator:20261115"),
        ("--set-json", "tag=20261115", "flower-operator:20261115"),
    ],
)
def test_the_image_is_the_one_that_was_meant(
    plane: ControlPlane, option: str, value: str, image: str
) -> None:
    only = ("--show-only", "templates/deployment.yaml")
    text = helm(plane, *chart("template"), *only, option, f"manager.image.{value}")
    [container] = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


@pytest.mark.extended
@pytest.mark.parametrize(
    ("options", "arguments", "has_user"),
    [
        ([], [], True),
        (["--api-versions", "security.openshift.io/v1"], [], False),
        (["--set", "openshift=true"], ["--openshift=true"], False),
        (
            ["--set", "openshift=false", "--api-versions", "security.openshift.io/v1"],
            ["--openshift=false"],
            True,
        ),
    ],
)
def test_on_openshift_the_operators_pod_asks_for_no_user(
    plane: ControlPlane, options: list[str], arguments: list[str], has_user: bool
) -> None:
    objects = helm(plane, *chart("template"), *options)
    apply(plane, objects, "--dry-run=server", "--validate=strict")
    [spec] = [
        document["spec"]["template"]["spec"]
        for document in yaml.safe_load_all(objects)
        if document["kind"] == "Deployment"
    ]
    assert spec["containers"][0]["args"] == ["controller", *arguments]
    assert ("runAsUser" in spec["securityContext"]) == has_user
    assert ("runAsGroup" in spec["securityContext"]) == has_user


# From the first install to the last object.


def test_install_upgrade_and_uninstall(plane: ControlPlane) -> None:
    with installed(plane):
        wait_until_ready(plane)
        wait_for(lambda: serves_federations(plane), "the CRD is not served", timeout=30)
        plane.kubectl("apply", "-f", str(EXAMPLE))
        assert container(plane)["name"] == "manager"
        assert container(plane)["args"] == ["controller"]
        assert exists(plane, f"{RBAC}/clusterroles/flower-operator-manager")

        changed = ["manager.replicas=2", "manager.namespaces={north,south}", "metrics.enable=false"]
        helm(plane, *chart("upgrade", *changed))
        _, deployment = plane.request("GET", DEPLOYMENT_PATH)
        assert deployment["spec"]["replicas"] == 2
        assert container(plane)["args"][1:] == [
            "--namespaces=north,south",
            "--metrics-bind-address=0",
        ]
        assert not exists(plane, f"{RBAC}/clusterroles/flower-operator-manager")
        assert exists(plane, f"{RBAC}/namespaces/south/roles/flower-operator-manager")
    wait_until_gone(plane, DEPLOYMENT_PATH)
    left = plane.kubectl(
        *("get", "clusterroles,clusterrolebindings,roles,rolebindings,services,serviceaccounts"),
        *("--all-namespaces", "-l", "app.kubernetes.io/name=flower-operator"),
    )
    assert left.stdout == ""
    assert stays(plane, CRD_PATH)
    assert "federation-statefulset-subprocess" in plane.kubectl("get", "federations").stdout


@pytest.mark.extended
def test_the_crd_stays_unless_told_otherwise(plane: ControlPlane) -> None:
    with installed(plane):
        pass
    assert stays(plane, CRD_PATH)
    # Without keep the next release takes it over, and along.
    with installed(plane, "crd.keep=false"):
        assert exists(plane, CRD_PATH)
    wait_until_gone(plane, CRD_PATH)
    with installed(plane, "crd.enable=false"):
        assert not exists(plane, CRD_PATH)


@pytest.mark.extended
def test_the_crd_of_the_chart_is_the_one_of_make_install(plane: ControlPlane) -> None:
    crd = yaml.safe_load(helm(plane, *chart("template"), "--show-only", "templates/crd.yaml"))
    expected = yaml.safe_load(CRD.read_text())
    assert crd["spec"] == expected["spec"]
    assert crd["metadata"]["name"] == expected["metadata"]["name"]


@pytest.mark.extended
def test_names_do_not_depend_on_the_release(plane: ControlPlane) -> None:
    one, other = (
        helm(plane, *chart("template", release=release)) for release in ("flower-operator", "other")
    )
    assert one == other


# Who may do what.


def rights(plane: ControlPlane, user: str, namespace: str) -> set[Right]:
    """All that the API server says a user may do in a namespace."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    _, answer = plane.request("POST", path, review, {"Impersonate-User": user})
    return expanded(answer["status"]["resourceRules"])


def expanded(rules: list[Document]) -> set[Right]:
    return {
        right
        for rule in rules
        for right in product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", ["*"])
        )
    }


def listed(*tables: tuple[Rule, ...]) -> set[Right]:
    return expanded([policy(rule) for table in tables for rule in table])


def own_rights(plane: ControlPlane, namespace: str) -> set[Right]:
    """What the operator may do beyond what every ServiceAccount may."""
    return rights(plane, ACCOUNT, namespace) - rights(plane, STRANGER, namespace)


def is_allowed(plane: ControlPlane, user: str, **attributes: Document) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, **attributes},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    allowed: bool = plane.request("POST", path, review)[1]["status"]["allowed"]
    return allowed


@pytest.mark.extended
def test_the_operator_may_do_what_is_listed_and_no_more(plane: ControlPlane) -> None:
    with installed(plane):
        wait_for(lambda: own_rights(plane, "north"), "the binding has no effect", timeout=10)
        assert own_rights(plane, "north") == listed(MANAGER, METRICS)
        assert not exists(plane, TASK_EXECUTOR)
        assert own_rights(plane, NAMESPACE) == listed(MANAGER, METRICS, LEADER_ELECTION)
        for verb, group, resource in [
            ("deletecollection", "", "secrets"),
            ("create", "", "pods"),
            ("update", "", "pods"),
            ("patch", "", "pods/ephemeralcontainers"),
            ("get", "", "pods/log"),
            ("create", "", "pods/exec"),
            ("update", "flwr.exalsius.ai", "federations"),
            ("patch", "flwr.exalsius.ai", "federations"),
            ("delete", "flwr.exalsius.ai", "federations"),
            ("deletecollection", "apps", "deployments"),
            ("create", "rbac.authorization.k8s.io", "roles"),
            ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
            ("bind", "rbac.authorization.k8s.io", "clusterroles"),
            ("bind", "rbac.authorization.k8s.io", "roles"),
            ("impersonate", "", "users"),
        ]:
            wanted = {"verb": verb, "group": group, "resource": resource, "namespace": "north"}
            assert not is_allowed(plane, ACCOUNT, resourceAttributes=wanted)


@pytest.mark.extended
@pytest.mark.parametrize("scope", [[], ["manager.namespaces={north}"]])
def test_the_operator_may_bind_one_role_where_tasks_are_pods(
    plane: ControlPlane, scope: list[str]
) -> None:
    with installed(plane, "taskExecutor.enable=true", *scope):
        wait_for(lambda: own_rights(plane, "north"), "the binding has no effect", timeout=10)
        assert own_rights(plane, "north") == listed(MANAGER, METRICS, TASK_EXECUTOR_BINDING)
        assert exists(plane, TASK_EXECUTOR)
        assert "--task-executor" in container(plane)["args"]
        other = {"verb": "bind", "group": "rbac.authorization.k8s.io", "resource": "clusterroles"}
        for name, allowed in (("flower-operator-task-executor", True), ("admin", False)):
            wanted = {**other, "namespace": "north", "name": name}
            assert is_allowed(plane, ACCOUNT, resourceAttributes=wanted) == allowed


@pytest.mark.extended
def test_the_operator_of_a_hub_may_do_that_and_what_is_listed_for_fleets(
    plane: ControlPlane,
) -> None:
    envoy = "registry.test/envoy:1"
    with installed(plane, "addon.enable=true", f"gateway.image={envoy}"):
        wait_for(lambda: own_rights(plane, "north"), "the binding has no effect", timeout=10)
        assert own_rights(plane, "north") == listed(MANAGER, METRICS, FLEET)
        image = container(plane)["image"]
        images = [f"--agent-image={image}", f"--gateway-image={envoy}"]
        assert container(plane)["args"] == ["controller", "--fleet", *images]


CLUSTERS = "cluster.open-cluster-management.io"
ADDONS = "addon.open-cluster-management.io"
WORKS = "work.open-cluster-management.io"


@pytest.mark.extended
@pytest.mark.parametrize(
    ("role", "more"),
    [
        (
            "federation-operator",
            {
                *((CLUSTERS, "placements", verb) for verb in READ | WRITE | {"deletecollection"}),
                *((CLUSTERS, "placementdecisions", verb) for verb in READ),
                *((CLUSTERS, "managedclustersetbindings", verb) for verb in READ),
                *((WORKS, "manifestworkreplicasets", verb) for verb in READ),
            },
        ),
        (
            "data-scientist",
            {
                *((CLUSTERS, "placements", verb) for verb in READ),
                *((CLUSTERS, "placementdecisions", verb) for verb in READ),
            },
        ),
        (
            "fleet-viewer",
            {
                *((CLUSTERS, "managedclusters", verb) for verb in READ),
                *((CLUSTERS, "managedclustersets", verb) for verb in READ),
                *((ADDONS, "clustermanagementaddons", verb) for verb in READ),
                *((ADDONS, "managedclusteraddons", verb) for verb in READ),
            },
        ),
    ],
)
def test_people_of_a_hub_choose_clusters_and_look_at_them(
    plane: ControlPlane, role: str, more: set[tuple[str, str, str]]
) -> None:
    name = f"flower-operator-{role}"
    with_fleet, without = (
        roles(helm(plane, *chart("template", f"addon.enable={value}")))
        for value in ("true", "false")
    )
    added = expanded(with_fleet[name]) - expanded(without.get(name, []))
    assert added == {(*right, "*") for right in more}
    assert set(with_fleet) - set(without) == {
        "flower-operator-addon",
        "flower-operator-fleet-viewer",
    }


def roles(objects: str) -> dict[str, list[Document]]:
    return {
        each["metadata"]["name"]: each["rules"]
        for each in yaml.safe_load_all(objects)
        if each["kind"] == "ClusterRole"
    }


@pytest.mark.extended
def test_the_placements_of_the_chart_are_those_of_the_example(plane: ControlPlane) -> None:
    settings = ("addon.placements=true", "addon.namespace=north")
    text = helm(plane, *chart("template", *settings), "--show-only", "templates/placements.yaml")
    shown = list(yaml.safe_load_all(text))
    assert {each["metadata"]["namespace"] for each in shown} == {"north"}
    examples = yaml.safe_load_all((EXAMPLES / "fleet/placements.yaml").read_text())
    assert [essence(each) for each in shown] == [
        essence(each) for each in examples if each["kind"] != "Namespace"
    ]
    assert "kind: Placement" not in helm(plane, *chart("template", "addon.enable=true"))


def essence(each: Document) -> tuple[str, str, str, Document]:
    return each["apiVersion"], each["kind"], each["metadata"]["name"], each["spec"]


@pytest.mark.extended
def test_an_operator_for_some_namespaces_has_no_rights_in_others(plane: ControlPlane) -> None:
    with installed(plane, "manager.namespaces={north}"):
        wait_for(lambda: own_rights(plane, "north"), "the binding has no effect", timeout=10)
        assert own_rights(plane, "north") == listed(MANAGER, METRICS)
        assert own_rights(plane, "south") == listed(METRICS)
        assert own_rights(plane, NAMESPACE) == listed(METRICS, LEADER_ELECTION)


@pytest.mark.extended
def test_without_metrics_there_is_nothing_to_ask_the_cluster(plane: ControlPlane) -> None:
    with installed(plane, "manager.namespaces={north}", "metrics.enable=false"):
        wait_for(lambda: own_rights(plane, "north"), "the binding has no effect", timeout=10)
        assert own_rights(plane, "south") == set()
        assert "metrics" not in json.dumps(container(plane)["ports"])


@pytest.mark.extended
@pytest.mark.parametrize(
    ("role", "built_in", "verbs"),
    [
        ("viewer", "view", READ),
        ("editor", "edit", READ | WRITE),
        ("admin", "admin", READ | WRITE | {"deletecollection"}),
    ],
)
def test_users_of_federations(
    plane: ControlPlane, role: str, built_in: str, verbs: set[str]
) -> None:
    expected = {("flwr.exalsius.ai", "federations", verb, "*") for verb in verbs}
    expected.add(("flwr.exalsius.ai", "federations/status", "get", "*"))
    for user, bound in [
        (f"direct-{role}", f"flower-operator-federation-{role}"),
        (f"by-{built_in}", built_in),
    ]:
        plane.kubectl(
            *("create", "rolebinding", user, "--namespace", "north"),
            *(f"--clusterrole={bound}", f"--user={user}"),
        )
    with installed(plane, "crd.enable=false"):
        direct = f"direct-{role}"
        wait_for(
            lambda: rights(plane, direct, "north") - rights(plane, "nobody", "north") == expected,
            lambda: str(rights(plane, direct, "north")),
            timeout=10,
        )
        assert not rights(plane, direct, "south") - rights(plane, "nobody", "south")
        # Kubernetes' own roles are put together by a controller.
        wait_for(
            lambda: on_federations(rights(plane, f"by-{built_in}", "north")) == expected,
            lambda: str(on_federations(rights(plane, f"by-{built_in}", "north"))),
            timeout=10,
        )


def on_federations(rights: set[Right]) -> set[Right]:
    return {right for right in rights if right[0] == "flwr.exalsius.ai"}


@pytest.mark.extended
def test_metrics_are_for_those_who_may_read_them(plane: ControlPlane) -> None:
    wanted = {"path": "/metrics", "verb": "get"}
    binding = ("clusterrolebinding", "prometheus")
    role = "--clusterrole=flower-operator-metrics-reader"
    plane.kubectl("create", *binding, role, "--user=prometheus")
    with installed(plane, "crd.enable=false"):
        wait_for(
            lambda: is_allowed(plane, "prometheus", nonResourceAttributes=wanted),
            "the binding has no effect",
            timeout=10,
        )
        assert not is_allowed(plane, "somebody", nonResourceAttributes=wanted)
        # What the Service leads to is what the container opens.
        path = f"/api/v1/namespaces/{NAMESPACE}/services/flower-operator-metrics"
        _, service = plane.request("GET", path)
        [port] = service["spec"]["ports"]
        ports = {each["name"]: each["containerPort"] for each in container(plane)["ports"]}
        assert ports[port["targetPort"]] == port["port"] == 8443
    plane.kubectl("delete", *binding)


# The make targets, in a folder that is theirs to write to.


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "dist").mkdir()
    for name in ("Makefile", "src", "dist/chart", "dist/crd.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def make(plane: ControlPlane, checkout: Path, *arguments: str) -> str:
    done = run(plane, checkout, "make", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.extended
def test_the_installer_goes_in_with_plain_kubectl(plane: ControlPlane, checkout: Path) -> None:
    make(plane, checkout, "build-installer", "IMG=localhost:5000/flower-operator:7")
    installer = str(checkout / "dist/install.yaml")
    plane.kubectl("apply", "-f", installer)
    wait_until_ready(plane)
    assert container(plane)["image"] == "localhost:5000/flower-operator:7"
    assert exists(plane, CRD_PATH)
    again = plane.kubectl("apply", "-f", installer).stdout.splitlines()
    assert [line for line in again if not line.endswith(" unchanged")] == []
    delete_installed(plane, checkout)


def delete_installed(plane: ControlPlane, checkout: Path) -> None:
    """Delete all that the installer made but the namespace, which other tests need."""
    objects = list(yaml.safe_load_all((checkout / "dist/install.yaml").read_text()))
    rest = [each for each in objects if each["kind"] != "Namespace"]
    assert len(rest) == len(objects) - 1
    plane.kubectl("delete", "-f", "-", input=yaml.safe_dump_all(rest))
    wait_until_gone(plane, CRD_PATH)


@pytest.mark.extended
def test_a_failed_installer_leaves_no_file(plane: ControlPlane, checkout: Path) -> None:
    done = run(plane, checkout, "make", "build-installer", "HELM=false")
    assert done.returncode != 0
    assert not (checkout / "dist/install.yaml").exists()


@pytest.mark.extended
def test_make_install_deploy_undeploy_uninstall(plane: ControlPlane, checkout: Path) -> None:
    make(plane, checkout, "install")
    wait_for(lambda: serves_federations(plane), "the CRD is not served", timeout=30)
    for image in ("flower-operator:1", "flower-operator:2"):
        make(plane, checkout, "deploy", f"IMG={image}")
        assert container(plane)["image"] == image
    make(plane, checkout, "undeploy")
    wait_until_gone(plane, DEPLOYMENT_PATH)
    assert stays(plane, CRD_PATH)
    make(plane, checkout, "uninstall")
    wait_until_gone(plane, CRD_PATH)
    make(plane, checkout, "undeploy", "uninstall")


@pytest.mark.extended
def test_the_commands_of_the_documentation_work(plane: ControlPlane, checkout: Path) -> None:
    section = SECTION.search((ROOT / "docs/how-to.md").read_text())
    assert section is not None
    commands = "\n".join(BLOCK.findall(section[1]))
    assert "helm install" in commands
    done = run(plane, checkout, "bash", "-euo", "pipefail", "-c", commands)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until_ready(plane)
    assert container(plane)["image"] == f"registry.example.com/flower-operator:{__version__}"
    delete_installed(plane, checkout)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("settings", "version", "policies"),
    [
        ([], "1.30.0", 1),
        ([], "1.33.1-gke.100", 1),
        ([], "1.29.9", 0),
        (["admissionPolicy.enable=true"], "1.29.9", 1),
        (["admissionPolicy.enable=false"], "1.33.0", 0),
    ],
)
def test_the_policy_is_there_where_kubernetes_has_such_policies(
    plane: ControlPlane, settings: list[str], version: str, policies: int
) -> None:
    text = helm(plane, *chart("template", *settings), "--kube-version", version)
    kinds = [each["kind"] for each in yaml.safe_load_all(text) if each]
    assert kinds.count("ValidatingAdmissionPolicy") == policies
    assert kinds.count("ValidatingAdmissionPolicyBinding") == policies


@pytest.mark.extended
def test_limits_reach_the_operator(plane: ControlPlane) -> None:
    settings = (
        "limits.podSecurity=restricted",
        "limits.issuers={Issuer/*,ClusterIssuer/internal}",
        "limits.dnsSuffixes={fl.example.org}",
        "limits.annotationPrefixes={metallb.io/,none/}",
    )
    text = helm(plane, *chart("template", *settings))
    (deployment,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == [
        "controller",
        "--pod-security=restricted",
        "--issuers=Issuer/*,ClusterIssuer/internal",
        "--dns-suffixes=fl.example.org",
        "--annotation-prefixes=metallb.io/,none/",
    ]
    for wrong in ("limits.podSecurity=baseline", "limits.issuers={internal}", "limits.other=1"):
        assert "limits" in refusal(plane, *chart("template", wrong))


@pytest.mark.extended
def test_the_api_server_finds_no_fault_with_the_policy(plane: ControlPlane) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/" + POLICY

    def checked() -> bool:
        status = plane.request("GET", path)[1].get("status", {})
        return "typeChecking" in status

    with installed(plane):
        wait_for(checked, "the policy is not checked", timeout=30)
        assert plane.request("GET", path)[1]["status"]["typeChecking"] == {}
