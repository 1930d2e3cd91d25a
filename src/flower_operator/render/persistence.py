"""What a SuperLink has to know after a restart, on a claim of its own."""

from typing import Any

from ..api.problems import Problem
from ..api.rules import STATE_VOLUME
from ..api.types import Federation
from ..flower.dialects import Dialect
from . import pods

Object = dict[str, Any]

FOLDER = "/var/lib/flower"

# Pods are otherwise left on a node that is gone for five minutes.
GONE_SECONDS = 30
GONE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# Flower 1.41 with TLS waits for long until idle clients have said goodbye. Meanwhile nobody gets
# in, and runs are given up after a minute; its database bears to be left at any time.
GRACE_SECONDS = 2
# So often it is asked whether it is ready: until that is known nobody gets in, and once its port is
# closed nobody is to be sent there. One that just takes its time has as much of it as ever.
READY_SECONDS = 1


def claims(federation: Federation) -> list[Object]:
    """The claims of the SuperLink: the user's, and the one for its state."""
    superlink = federation.spec.superlink
    wanted = superlink.persistence
    if not wanted:
        return superlink.volume_claim_templates
    spec: Object = {
        "accessModes": wanted.access_modes,
        "resources": {"requests": {"storage": wanted.size}},
    }
    if wanted.storage_class_name is not None:
        spec["storageClassName"] = wanted.storage_class_name
    return [*superlink.volume_claim_templates, {"metadata": {"name": STATE_VOLUME}, "spec": spec}]


def folder(federation: Federation) -> str | None:
    return FOLDER if federation.spec.superlink.persistence else None


def mounts(federation: Federation) -> list[Object]:
    return [{"name": STATE_VOLUME, "mountPath": FOLDER}] if folder(federation) else []


def ending(federation: Federation) -> Object:
    """For the SuperLink's pod: how soon the next one may begin, where there is something to go
    on with."""
    return {"terminationGracePeriodSeconds": GRACE_SECONDS} if folder(federation) else {}


def ready_seconds(federation: Federation) -> int:
    return READY_SECONDS if folder(federation) else pods.READY_SECONDS


def tolerant(federation: Federation, template: Object) -> Object:
    """The template of a pod that leaves a node that is gone soon: its state does not."""
    superlink = federation.spec.superlink
    if not superlink.persistence:
        return template
    own: list[Object] = superlink.pod_template.get("spec", {}).get("tolerations", [])
    tolerated = {each.get("key") for each in own}  # without a key: everything
    added = [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": GONE_SECONDS,
        }
        for key in GONE
        if tolerated.isdisjoint((key, None))
    ]
    return {**template, "spec": {**template["spec"], "tolerations": own + added}}


def persistence_problems(
    federation: Federation, template: Object, dialect: Dialect
) -> list[Problem]:
    """What stands where the state should be."""
    superlink = federation.spec.superlink
    if not superlink.persistence:
        return []
    problems = [
        Problem("spec.superlink.extraArgs", f"{flag} is set by persistence; remove one of the two")
        for flag in (dialect.database, dialect.storage)
        if flag and _has_flag(superlink.extra_args, flag)
    ]
    for container in template["spec"]["containers"]:
        for mount in container.get("volumeMounts", []):
            if mount["mountPath"] == FOLDER and mount["name"] != STATE_VOLUME:
                message = f"{mount['name']} is mounted at {FOLDER}, where persistence has its claim"
                problems.append(Problem("spec.superlink.volumeMounts", message))
    return problems


def keeps_state(federation: Federation, dialect: Dialect) -> bool:
    """Whether the SuperLink has a database, here or by the user's own doing."""
    superlink = federation.spec.superlink
    return bool(superlink.persistence) or _has_flag(superlink.extra_args, dialect.database)


def persistence_notices(federation: Federation, dialect: Dialect) -> list[str]:
    """For the status on a cluster, where pods come and go; nobody has to act on it beforehand."""
    if keeps_state(federation, dialect):
        return []
    return ["spec.superlink.persistence: not set, so a restart of the SuperLink loses its runs"]


def _has_flag(arguments: list[str], flag: str) -> bool:
    return any(each == flag or each.startswith(f"{flag}=") for each in arguments)
