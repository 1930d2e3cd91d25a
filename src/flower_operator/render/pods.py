"""Pods and containers: what every one of them has, whichever part of Flower it runs."""

from typing import Any

from ..api.problems import Problem
from .facts import Facts
from .merge import merge, overlay

Object = dict[str, Any]

# The user of Flower's own images; named by number, for the kubelet cannot look `app` up.
FLOWER_USER = 49999
GRACE_SECONDS = 30
READY_SECONDS = 5

# What flwr and the apps write to, each container to its own part of one volume.
SCRATCH = "flower-scratch"
WRITABLE = {
    "flwr": "/app/.flwr",
    "cache": "/app/.cache",
    "config": "/app/.config",
    "tmp": "/tmp",
    "var-tmp": "/var/tmp",
}
ENVIRONMENT = [
    {"name": "FLWR_HOME", "value": WRITABLE["flwr"]},
    {"name": "FLWR_DISABLE_UPDATE_CHECK", "value": "1"},
    {"name": "FLWR_TELEMETRY_ENABLED", "value": "0"},
]


def container(
    name: str,
    image: str,
    arguments: list[str],
    *,
    env: list[Object],
    resources: Object,
    mounts: list[Object],
    probes: Object,
    ports: list[Object] | None = None,
    security: Object | None = None,
) -> Object:
    """One container. `mounts` win over the writable folders, by mount path."""
    result: Object = {
        "name": name,
        "image": image,
        "args": arguments,
        "env": overlay("name", ENVIRONMENT, env),
        **probes,
        "securityContext": security or RESTRICTED,
        # The end of the log says why a container ended; the pod's status has it from there.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": overlay("mountPath", _writable_mounts(name), mounts),
    }
    if ports:
        result["ports"] = ports
    if resources:
        result["resources"] = resources
    return result


RESTRICTED: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
PRIVILEGED: Object = {"privileged": True}


def grpc_probe(port: int) -> Object:
    return {"grpc": {"port": port}}


def probes(alive: Object, ready: Object | None, *, ready_seconds: int = READY_SECONDS) -> Object:
    """A slow start is waited for (two minutes), a hang of a minute is ended."""
    result: Object = {
        "startupProbe": {**alive, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 60},
        "livenessProbe": {**alive, "periodSeconds": 20, "timeoutSeconds": 10},
    }
    if ready:
        result["readinessProbe"] = {**ready, "periodSeconds": ready_seconds, "timeoutSeconds": 5}
    return result


def pod_template(
    labels: dict[str, str],
    containers: list[Object],
    volumes: list[Object],
    patch: Object,
    facts: Facts,
    *,
    annotations: dict[str, str] | None = None,
    spec: Object | None = None,
) -> Object:
    """The pod template, with the user's `patch` merged over it; our labels stay."""
    metadata: Object = {"labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    base: Object = {
        "metadata": metadata,
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                **_identity(facts),
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": containers,
            "volumes": overlay("name", [{"name": SCRATCH, "emptyDir": {}}], volumes),
            **(spec or {}),
        },
    }
    template = merge("PodTemplateSpec", base, patch)
    template["metadata"] = template["metadata"] | {
        "labels": template["metadata"]["labels"] | labels
    }
    if account := template["spec"].get("serviceAccountName"):
        # The API server copies it into the field's old name. Were that not ours to remove too, an
        # account that is no longer named would be used from there for ever.
        template["spec"] = template["spec"] | {"serviceAccount": account}
    return template


def annotated(template: Object, annotations: dict[str, str]) -> Object:
    """The template with annotations that follow from the rest of it."""
    metadata = template["metadata"]
    annotations = {**metadata.get("annotations", {}), **annotations}
    return {**template, "metadata": {**metadata, "annotations": annotations}}


def without_container(patch: Object, name: str) -> Object:
    """A `podTemplate` for a pod that lacks one of the containers that it may speak of."""
    containers = patch.get("spec", {}).get("containers", [])
    kept = [each for each in containers if each["name"] != name]
    return patch if kept == containers else {**patch, "spec": {**patch["spec"], "containers": kept}}


def with_mounted(template: Object) -> Object:
    """The template with those volumes alone that a container of it mounts: a claim that only
    another pod needs would keep both on one node."""
    spec = template["spec"]
    every = [*spec["containers"], *spec.get("initContainers", [])]
    mounted = {mount["name"] for each in every for mount in each.get("volumeMounts", [])}
    volumes = [volume for volume in spec["volumes"] if volume["name"] in mounted]
    return {**template, "spec": {**spec, "volumes": volumes}}


def template_problems(template: Object, claims: list[Object], where: str) -> list[Problem]:
    """What Kubernetes would refuse in a merged template, named before it gets there."""
    spec = template["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    names = {claim["metadata"]["name"] for claim in claims}
    problems = [
        Problem(
            f"{where}.podTemplate", f"volume {name} has the name of a claim; rename one of them"
        )
        for name in sorted(volumes & names)
    ]
    started_first = {each["name"] for each in spec.get("initContainers", [])}
    problems += [
        Problem(f"{where}.podTemplate", f"two containers are named {each['name']}; rename one")
        for each in spec["containers"]
        if each["name"] in started_first
    ]
    for each in [*spec["containers"], *spec.get("initContainers", [])]:
        if "image" not in each:
            ours = ", ".join(c["name"] for c in spec["containers"] if "image" in c)
            problems.append(
                Problem(
                    f"{where}.podTemplate",
                    f"container {each['name']} has no image; to change one of the operator's "
                    f"containers, use its name: {ours}",
                )
            )
        for mount in each.get("volumeMounts", []):
            if mount["name"] not in volumes and mount["name"] not in names:
                problems.append(
                    Problem(
                        where,
                        f"container {each['name']} mounts {mount['name']}, which is no volume; "
                        "add it to volumes or volumeClaimTemplates",
                    )
                )
    return problems


def with_claims(claims: list[Object]) -> list[Object]:
    """The claims as a StatefulSet has them."""
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim} for claim in claims]


def _identity(facts: Facts) -> Object:
    """OpenShift gives each namespace users and groups of its own and refuses all others."""
    if facts.openshift:
        return {}
    return {"runAsUser": FLOWER_USER, "runAsGroup": FLOWER_USER, "fsGroup": FLOWER_USER}


def _writable_mounts(name: str) -> list[Object]:
    return [
        {"name": SCRATCH, "mountPath": path, "subPath": f"{name}/{folder}"}
        for folder, path in WRITABLE.items()
    ]
