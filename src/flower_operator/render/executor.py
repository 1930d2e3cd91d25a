"""SuperExecs with flwr's Kubernetes executor: each task of theirs is a pod of its own.

What a task's pod is like follows from the SuperExec's own pod, `podTemplate` and all, as far as
the executor can be told. The operator writes that down; flwr makes the pods.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import yaml

from ..api.problems import Problem
from ..flower.dialects import Dialect
from ..flower.tasks import takes_variable
from .metadata import PREFIX, index_label
from .node_config import INDEX, MOST_BYTES
from .pods import SCRATCH
from .secrets import FOLDER

Object = dict[str, Any]
Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

# With what a SuperExec may do in its namespace; the chart brings it.
ROLE = "flower-operator-task-executor"

HASH = f"{PREFIX}/executor-config"
CONFIG = f"{FOLDER}/executor/executor.yaml"
CONFIG_VOLUME = "flower-executor"
TOKEN_VOLUME = "flower-token"
# Where every Kubernetes client looks for them.
TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"

POD_IP = "FLOWER_POD_IP"
POD_IP_VARIABLE = {"name": POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
POD_NAME = "FLOWER_POD_NAME"
POD_NAME_VARIABLE = {"name": POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
OWN_VARIABLES = {POD_IP, POD_NAME, INDEX}
OWN_VOLUMES = {CONFIG_VOLUME, TOKEN_VOLUME, "flower-ca", "flower-superexec"}

# Fields of a pod that reach tasks, by the executor's names for them.
POD_FIELDS = {
    "node-selector": "nodeSelector",
    "tolerations": "tolerations",
    "affinity": "affinity",
    "priority-class-name": "priorityClassName",
    "pod-security-context": "securityContext",
}
# These too, or they are of the SuperExec's own pod alone by their nature.
EXPECTED_FIELDS = {
    *POD_FIELDS.values(),
    "automountServiceAccountToken",
    "containers",
    "imagePullSecrets",
    "initContainers",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "volumes",
}


@dataclass(frozen=True)
class Tasks:
    """The tasks of one SuperExec, or of the SuperExecs of a pool."""

    where: str
    """The part of the spec that they follow from, as a path."""
    container: str
    """The SuperExec's container."""
    account: str
    """Name of the tasks' ServiceAccount, and of all else that is theirs."""
    labels: dict[str, str]
    resources: Object
    annotations: dict[str, str]
    explicit_mounts: bool
    """Whether the mounts are meant for the SuperExec alone."""
    count: int = 1
    """Of SuperExecs."""


@dataclass(frozen=True)
class _Mounts:
    kept: list[Object]
    volumes: list[Object]
    lost: list[tuple[str, str]]
    """Mount path, and why it cannot be had."""


def volumes(config_map: str) -> list[Object]:
    """The config of the executor, and the token that it starts pods with."""
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": ca},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return [
        {"name": CONFIG_VOLUME, "configMap": {"name": config_map}},
        {"name": TOKEN_VOLUME, "projected": {"sources": sources}},
    ]


def mounts(file: str) -> list[Object]:
    """For the SuperExec's container only: no other has a use for the token."""
    config = {"name": CONFIG_VOLUME, "mountPath": CONFIG, "subPathExpr": file, "readOnly": True}
    return [config, {"name": TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True}]


def config_text(tasks: Tasks, template: Object, namespace: str, dialect: Dialect) -> str:
    """The executor's config but for the labels, which `labelled` adds."""
    spec, container = template["spec"], _container(template, tasks)
    config: Object = {"namespace": namespace, "image": container["image"]}
    if "imagePullPolicy" in container:
        config["image-pull-policy"] = container["imagePullPolicy"]
    config["service-account-name"] = tasks.account
    if tasks.annotations:
        config["annotations"] = tasks.annotations
    config["env"] = [
        {"name": each["name"], "value": each.get("value", "")}
        for each in container["env"]
        if _is_literal(each)
    ]
    if tasks.resources:
        config["resources"] = tasks.resources
    config |= {name: spec[field] for name, field in POD_FIELDS.items() if field in spec}
    config["container-security-context"] = container["securityContext"]
    if dialect.task_volumes:
        found = _mounts(tasks, template, dialect)
        config |= {"volumes": found.volumes, "volume-mounts": found.kept}
    return _dump(config)


def labelled(text: str, labels: dict[str, str]) -> str:
    """The config of one SuperExec. It clears away whatever has its labels, so they are its own:
    of two that share them, one could take a task's Secret before the other has made the pod."""
    return text + _dump({"labels": labels})


def files_by_index(tasks: Tasks, text: str) -> dict[str, str]:
    """The config of each SuperExec of a pool; none if a ConfigMap cannot hold them all."""
    first = labelled(text, tasks.labels | index_label(0))
    if len(first.encode()) * tasks.count > MOST_BYTES:  # which `task_problems` tells
        return {}
    before = first.removesuffix("'0'\n")  # to write YAML for each of thousands takes long
    return {f"{index}.yaml": f"{before}'{index}'\n" for index in range(tasks.count)}


def config_hash(text: str) -> str:
    """Changes with the config, so that SuperExecs, which read it once, restart when it does."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_map(metadata: Object, tasks: Tasks, files: dict[str, str]) -> Object:
    metadata = metadata | {"name": tasks.account}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}


def access(metadata: Object, tasks: Tasks, template: Object) -> list[Object]:
    """Who the SuperExec and its tasks are to the API server. The SuperExec may start pods; a task
    may do nothing, its account is there for the image's pull secrets."""
    accounts = [
        _account(metadata | {"name": tasks.account}, template),
        _account(metadata, {"spec": {}}),
    ]
    name, namespace = metadata["name"], metadata["namespace"]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": ROLE,
        },
        "subjects": [subject],
    }
    return [*accounts, binding]


def task_problems(
    tasks: Tasks, template: Object, dialect: Dialect, files: dict[str, str]
) -> list[Problem]:
    """What a task would miss although it was asked for, or what is too much for a ConfigMap."""
    problems = []
    if tasks.explicit_mounts:
        path = f"{tasks.where}.superexecVolumeMounts"
        lost = _mounts(tasks, template, dialect).lost
        problems = [Problem(path, f"{each} is not to be had {why}") for each, why in lost]
    if len(files) < tasks.count:
        message = (
            f"kubernetes is not to be had for {tasks.count} replicas; make several pools of it"
        )
        problems.append(Problem(f"{tasks.where}.executor", message))
    return problems


def task_notices(tasks: Tasks, template: Object, patch: Object, dialect: Dialect) -> list[str]:
    """What the SuperExec has and its tasks do not get."""
    notices = []
    if not tasks.explicit_mounts:
        for each, why in _mounts(tasks, template, dialect).lost:
            notices.append(f"{tasks.where}.volumeMounts: {each} is not to be had {why}")
    for variable in _container(template, tasks)["env"]:
        name = variable["name"]
        if name not in OWN_VARIABLES and not _is_literal(variable):
            notices.append(
                f"{tasks.where}.env: {name} does not reach tasks in pods of their own; Flower "
                "passes on plain values alone, and no keys of model or search services"
            )
    for field in sorted(patch.get("spec", {}).keys() - EXPECTED_FIELDS):
        notices.append(
            f"{tasks.where}.podTemplate.spec.{field}: does not reach tasks in pods of their own"
        )
    return notices


def _mounts(tasks: Tasks, template: Object, dialect: Dialect) -> _Mounts:
    """The SuperExec's mounts as far as its tasks can have them."""
    known = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    result = _Mounts([], [], [])
    for mount in _container(template, tasks)["volumeMounts"]:
        name, path = mount["name"], mount["mountPath"]
        if name in OWN_VOLUMES:
            continue
        fault = _fault_of_volume(known.get(name), dialect)
        if fault is None:
            result.kept.append(mount)
            if all(volume["name"] != name for volume in result.volumes):
                result.volumes.append(known[name])
        elif name != SCRATCH:
            result.lost.append((path, f"in tasks' pods: {fault}"))
    return result


def _fault_of_volume(volume: Object | None, dialect: Dialect) -> str | None:
    if not dialect.task_volumes:
        return "Flower mounts no volumes there before 1.33"
    if volume is None:
        return "it is a claim of one pod's own; use one that several pods can mount"
    sources = volume.get("projected", {}).get("sources", [])
    if "secret" in volume or any(
        not {"secret", "serviceAccountToken"}.isdisjoint(each) for each in sources
    ):
        return "Flower mounts no secrets there"
    return None


def _account(metadata: Object, template: Object) -> Object:
    account: Object = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "automountServiceAccountToken": False,
    }
    if pull_secrets := template["spec"].get("imagePullSecrets"):
        account["imagePullSecrets"] = pull_secrets
    return account


def _container(template: Object, tasks: Tasks) -> Object:
    (found,) = (each for each in template["spec"]["containers"] if each["name"] == tasks.container)
    container: Object = found
    return container


def _is_literal(variable: Object) -> bool:
    return "valueFrom" not in variable and takes_variable(variable["name"])


class _Dumper(Dumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _dump(config: Object) -> str:
    text: str = yaml.dump(config, Dumper=_Dumper, sort_keys=False, width=4096, allow_unicode=True)
    return text
