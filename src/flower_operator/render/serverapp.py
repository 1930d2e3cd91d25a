"""The SuperExec for ServerApps: in the SuperLink's pod, or in one of its own.

Of its own where the SuperLink keeps its state: a run then outlives the SuperLink's pod.
"""

from typing import Any

from ..api.rules import serverapp_name
from ..api.types import Federation
from ..flower.commands import SUPEREXEC_HEALTH_PORT, beside, superexec_arguments
from . import executor, gateway, persistence, pods, relay, secrets
from .executor import Tasks
from .facts import Facts
from .metadata import (
    restart_annotations,
    serverapp_labels,
    serverapp_metadata,
    service_address,
    superexec_serverapp_labels,
    superlink_metadata,
)
from .releases import Releases

Object = dict[str, Any]

CONTAINER = "superexec-serverapp"
EXECUTOR_FILE = "executor.yaml"


def superlink_tasks(federation: Federation) -> Tasks | None:
    """The ServerApps of this Federation, if they are pods of their own."""
    superlink = federation.spec.superlink
    if superlink.executor != "kubernetes":
        return None
    return Tasks(
        where="spec.superlink",
        container=CONTAINER,
        account=serverapp_name(federation.name),
        labels=serverapp_labels(federation),
        resources=superlink.superexec_resources,
        annotations=superlink.pod_template.get("metadata", {}).get("annotations", {}),
        explicit_mounts=bool(superlink.superexec_volume_mounts),
    )


def is_apart(federation: Federation) -> bool:
    """Whether the SuperExec has a pod of its own."""
    return bool(federation.spec.superlink.persistence) and _tie(federation) is None


def is_remote(federation: Federation) -> bool:
    """Whether it, or its tasks, reach the SuperLink over the network."""
    return superlink_tasks(federation) is not None or is_apart(federation)


def has_tls(federation: Federation, releases: Releases) -> bool:
    """Whether the runtime API that it asks has TLS: always where it has the port of the others, and
    from 1.30 on where it is asked from elsewhere. Behind a gateway the SuperLink has none."""
    if federation.spec.insecure:
        return False
    dialect = releases.superlink_dialect
    able = dialect.runtime_certificate is not None
    if gateway.is_used(federation):
        return able and is_remote(federation)
    return dialect.runtime_follows_tls or (able and is_remote(federation))


def is_relayed(federation: Federation, releases: Releases) -> bool:
    """Whether there is TLS on its way to that API all the same, between two relays."""
    secure = not federation.spec.insecure
    return secure and is_apart(federation) and not has_tls(federation, releases)


def serverapp_notices(federation: Federation) -> list[str]:
    """For the status on a cluster: runs that may be thought to be safe and are not."""
    if not federation.spec.superlink.persistence or superlink_tasks(federation):
        return []
    if tie := _tie(federation):
        return [f"spec.superlink.persistence: a run ends with the SuperLink's pod: {tie}"]
    return []


def serverapp_objects(federation: Federation, facts: Facts, releases: Releases) -> list[Object]:
    """What the SuperExec needs, its workload last; nothing if it is in the SuperLink's pod."""
    if not is_apart(federation):
        return []
    superlink = federation.spec.superlink
    containers = [superexec_container(federation, facts, releases)]
    if is_relayed(federation, releases):
        service = service_address(federation, facts, superlink.service.ports.server_app_io)
        runtime = beside(releases.superlink_dialect.serverappio)
        containers.append(relay.connecting(superlink.superexec_image or "", runtime, service))
    annotations = restart_annotations(federation)
    if not federation.spec.insecure:
        annotations |= secrets.superexec_annotations(
            facts,
            trusts=has_tls(federation, releases),
            shares=secrets.superexec_secret(federation, releases.serverapp_dialect) is not None,
        )
    template = pods.pod_template(
        superexec_serverapp_labels(federation),
        containers,
        superexec_volumes(federation, releases) + superlink.volumes,
        pods.without_container(superlink.pod_template, "superlink"),
        facts,
        annotations=annotations,
        spec=account(federation, facts),
    )
    template = pods.with_mounted(persistence.tolerant(federation, template))
    objects, template = launching(federation, facts, releases, template)
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": serverapp_metadata(federation, facts),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": superexec_serverapp_labels(federation)},
            # Two that launch pods would clear away what the other has begun.
            "strategy": {"type": "Recreate"},
            "template": template,
        },
    }
    return [*objects, workload]


def superexec_container(federation: Federation, facts: Facts, releases: Releases) -> Object:
    superlink = federation.spec.superlink
    tasks = superlink_tasks(federation)
    runtime = beside(releases.superlink_dialect.serverappio)
    if is_remote(federation) and not is_relayed(federation, releases):
        runtime = service_address(federation, facts, superlink.service.ports.server_app_io)
    dialect = releases.serverapp_dialect
    runs_tls = has_tls(federation, releases)
    secret = secrets.superexec_secret(federation, dialect)
    mounts = [secrets.mount("ca")] if runs_tls else []
    mounts += [secrets.mount("superexec")] if secret else []
    mounts += executor.mounts(EXECUTOR_FILE) if tasks else []
    return pods.container(
        CONTAINER,
        superlink.superexec_image or "",
        superexec_arguments(
            dialect,
            "serverapp",
            runtime,
            root_certificates=secrets.ROOT_CERTIFICATES if runs_tls else None,
            superexec_secret=secret,
            executor_config=executor.CONFIG if tasks else None,
        ),
        env=superlink.env,
        resources={} if tasks else superlink.superexec_resources,
        mounts=mounts + _mounts(federation),
        probes=pods.probes(pods.grpc_probe(SUPEREXEC_HEALTH_PORT), None),
    )


def superexec_volumes(federation: Federation, releases: Releases) -> list[Object]:
    """What the SuperExec, and a relay beside it, mount beside what a user gives them."""
    tasks = superlink_tasks(federation)
    volumes = executor.volumes(tasks.account) if tasks else []
    relayed = is_relayed(federation, releases)
    if relayed or has_tls(federation, releases):
        volumes.append(secrets.authority_volume(federation))
    if relayed or secrets.superexec_secret(federation, releases.superlink_dialect):
        volumes.append(secrets.superexec_secret_volume(federation.name))
    return volumes


def account(federation: Federation, facts: Facts) -> Object:
    """For the pod that the SuperExec is in: as whom it launches tasks, if it does."""
    if not superlink_tasks(federation):
        return {}
    return {"serviceAccountName": superlink_metadata(federation, facts)["name"]}


def launching(
    federation: Federation, facts: Facts, releases: Releases, template: Object
) -> tuple[list[Object], Object]:
    """What the SuperExec in a pod of this template needs to launch tasks, and the template with
    that known to it."""
    tasks, metadata = superlink_tasks(federation), superlink_metadata(federation, facts)
    if not tasks:
        return [], template
    dialect = releases.serverapp_dialect
    text = executor.config_text(tasks, template, metadata["namespace"], dialect)
    files = {EXECUTOR_FILE: executor.labelled(text, tasks.labels)}
    objects = [executor.config_map(metadata, tasks, files)]
    objects += executor.access(metadata, tasks, template)
    return objects, pods.annotated(template, {executor.HASH: executor.config_hash(text)})


def _tie(federation: Federation) -> str | None:
    """Why ServerApps run in the SuperLink's pod, unless they can do without."""
    if federation.spec.isolation_mode == "subprocess":
        return "with isolationMode subprocess, ServerApps run in it"
    if shared := sorted(_shared_claims(federation)):
        return (
            f"ServerApps run in it to mount {', '.join(shared)} too; say in superexecVolumeMounts "
            "what they need"
        )
    return None


def _shared_claims(federation: Federation) -> set[str]:
    """Volumes of the SuperExec that pods of different nodes may be unable to have at a time."""
    superlink = federation.spec.superlink
    mounted = {mount["name"] for mount in superlink.volume_mounts}
    claimed = {each["name"] for each in superlink.volumes if "persistentVolumeClaim" in each}
    own = {claim["metadata"]["name"] for claim in persistence.claims(federation)}
    return {mount["name"] for mount in _mounts(federation)} & (own | (claimed & mounted))


def _mounts(federation: Federation) -> list[Object]:
    superlink = federation.spec.superlink
    return superlink.superexec_volume_mounts or superlink.volume_mounts
