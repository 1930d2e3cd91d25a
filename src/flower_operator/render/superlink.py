"""The SuperLink: its workload and the Service in front of it."""

from typing import Any

from ..api.rules import superlink_name
from ..api.types import Federation
from ..flower.commands import (
    HEALTH_PORT,
    SUPEREXEC_HEALTH_PORT,
    beside,
    superexec_arguments,
    superlink_arguments,
)
from ..flower.dialects import Dialect
from . import executor, persistence, pods, secrets
from .executor import Tasks
from .facts import Facts
from .metadata import (
    namespace_of,
    restart_annotations,
    serverapp_labels,
    superlink_labels,
    superlink_metadata,
    with_release,
)
from .releases import Releases

Object = dict[str, Any]

EXECUTOR_FILE = "executor.yaml"


def superlink_address(federation: Federation, facts: Facts) -> str:
    """Where SuperNodes find the Fleet API, on every release."""
    if facts.site:
        return facts.site.superlink
    if external := federation.spec.superlink.external:
        return external.address
    return _address(federation, facts, federation.spec.superlink.service.ports.grpc)


def control_address(federation: Federation, facts: Facts) -> str:
    """Where `flwr run` finds the Control API, on every release."""
    return _address(federation, facts, federation.spec.superlink.service.ports.extra)


def superlink_tasks(federation: Federation) -> Tasks | None:
    """The ServerApps of this Federation, if they are pods of their own."""
    superlink = federation.spec.superlink
    if superlink.executor != "kubernetes":
        return None
    return Tasks(
        where="spec.superlink",
        container="superexec-serverapp",
        account=f"{federation.name}-serverapp",
        labels=serverapp_labels(federation),
        resources=superlink.superexec_resources,
        annotations=superlink.pod_template.get("metadata", {}).get("annotations", {}),
        explicit_mounts=bool(superlink.superexec_volume_mounts),
    )


def superlink_objects(federation: Federation, facts: Facts, releases: Releases) -> list[Object]:
    """The SuperLink's Service, its workload last, and what else it needs."""
    metadata = superlink_metadata(federation, facts)
    template = _template(federation, facts, releases)
    objects = [superlink_service(federation, facts, releases)]
    if tasks := superlink_tasks(federation):
        dialect = releases.serverapp_dialect
        text = executor.config_text(tasks, template, metadata["namespace"], dialect)
        files = {EXECUTOR_FILE: executor.labelled(text, tasks.labels)}
        objects.append(executor.config_map(metadata, tasks, files))
        objects += executor.access(metadata, tasks, template)
        template = pods.annotated(template, {executor.HASH: executor.config_hash(text)})
    metadata = with_release(metadata, releases.superlink)
    return [*objects, superlink_workload(federation, metadata, template)]


def superlink_service(federation: Federation, facts: Facts, releases: Releases) -> Object:
    """The documented port numbers, each led to where the release has that API."""
    service = federation.spec.superlink.service
    dialect = releases.superlink_dialect
    fixed = service.node_ports
    ports = [
        _service_port("fleet", service.ports.grpc, dialect.fleet.port, fixed.grpc),
        _service_port("control", service.ports.extra, dialect.control.port, fixed.extra),
    ]
    if _runtime_exposed(federation):
        number, port = service.ports.server_app_io, dialect.serverappio.port
        ports.append(_service_port("serverappio", number, port, fixed.server_app_io))
    labels = superlink_labels(federation)
    metadata = superlink_metadata(federation, facts) | {"labels": service.labels | labels}
    if service.annotations:
        metadata["annotations"] = service.annotations
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": service.type, "selector": labels, "ports": ports},
    }


def superlink_workload(federation: Federation, metadata: Object, template: Object) -> Object:
    """A Deployment of one, or a StatefulSet of one where it has claims of its own."""
    claims = persistence.claims(federation)
    workload: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": superlink_labels(federation)},
            "template": template,
        },
    }
    if claims:
        workload["kind"] = "StatefulSet"
        # One at a time in any case; in order, a pod that cannot start would never be replaced.
        workload["spec"]["podManagementPolicy"] = "Parallel"
        workload["spec"]["volumeClaimTemplates"] = pods.with_claims(claims)
    else:
        # Two SuperLinks would each hold half of the federation's state.
        workload["spec"]["strategy"] = {"type": "Recreate"}
    return workload


def _template(federation: Federation, facts: Facts, releases: Releases) -> Object:
    superlink = federation.spec.superlink
    launches = superlink_tasks(federation) is not None
    annotations = restart_annotations(federation)
    if not federation.spec.insecure:
        dialect = releases.superlink_dialect
        process = federation.spec.isolation_mode == "process"
        annotations |= secrets.superlink_annotations(
            facts,
            trusts=process and dialect.runtime_follows_tls,
            shares=secrets.superexec_secret(federation, dialect) is not None,
        )
    template = pods.pod_template(
        superlink_labels(federation),
        _containers(federation, facts, releases),
        _volumes(federation, releases) + superlink.volumes,
        superlink.pod_template,
        facts,
        annotations=annotations,
        spec={"serviceAccountName": superlink_name(federation.name)} if launches else None,
    )
    if tolerations := persistence.tolerations(federation):
        template["spec"] = template["spec"] | {"tolerations": tolerations}
    return template


def _containers(federation: Federation, facts: Facts, releases: Releases) -> list[Object]:
    spec = federation.spec
    containers = [_superlink_container(federation, releases.superlink_dialect)]
    if spec.isolation_mode == "process":
        containers.append(_superexec_container(federation, facts, releases))
    return containers


def _superlink_container(federation: Federation, dialect: Dialect) -> Object:
    spec = federation.spec
    secure = not spec.insecure
    secret = secrets.superexec_secret(federation, dialect)
    arguments = superlink_arguments(
        dialect,
        spec.isolation_mode,
        runtime_exposed=_runtime_exposed(federation),
        tls=secrets.SERVER_CERTIFICATE if secure else None,
        node_authentication=spec.supernode_auth.enabled,
        superexec_secret=secret,
        state=persistence.folder(federation),
    )
    mounts = [secrets.mount("tls")] if secure else []
    mounts += [secrets.mount("superexec")] if secret else []
    return pods.container(
        "superlink",
        spec.superlink.image or "",
        arguments + spec.superlink.extra_args,
        env=spec.superlink.env,
        resources=spec.superlink.resources,
        mounts=mounts + persistence.mounts(federation) + spec.superlink.volume_mounts,
        probes=pods.probes(pods.grpc_probe(HEALTH_PORT), _fleet_probe(dialect, secure)),
        ports=_container_ports(federation, dialect),
    )


def _superexec_container(federation: Federation, facts: Facts, releases: Releases) -> Object:
    superlink = federation.spec.superlink
    tasks = superlink_tasks(federation)
    runtime = beside(releases.superlink_dialect.serverappio)
    if tasks:  # other pods must find it there too
        runtime = _address(federation, facts, superlink.service.ports.server_app_io)
    dialect = releases.serverapp_dialect
    runs_tls = not federation.spec.insecure and releases.superlink_dialect.runtime_follows_tls
    secret = secrets.superexec_secret(federation, dialect)
    mounts = [secrets.mount("ca")] if runs_tls else []
    mounts += [secrets.mount("superexec")] if secret else []
    mounts += executor.mounts(EXECUTOR_FILE) if tasks else []
    return pods.container(
        "superexec-serverapp",
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
        mounts=mounts + (superlink.superexec_volume_mounts or superlink.volume_mounts),
        probes=pods.probes(pods.grpc_probe(SUPEREXEC_HEALTH_PORT), None),
    )


def _volumes(federation: Federation, releases: Releases) -> list[Object]:
    tasks = superlink_tasks(federation)
    volumes = executor.volumes(tasks.account) if tasks else []
    if federation.spec.insecure:
        return volumes
    volumes.append(secrets.server_certificate_volume(federation))
    if federation.spec.isolation_mode == "process":
        if releases.superlink_dialect.runtime_follows_tls:
            volumes.append(secrets.authority_volume(federation))
        if secrets.superexec_secret(federation, releases.superlink_dialect):
            volumes.append(secrets.superexec_secret_volume(federation.name))
    return volumes


def _runtime_exposed(federation: Federation) -> bool:
    """The documented Service has the app API in process mode; a secure one keeps it inside,
    unless apps are in pods of their own."""
    process = federation.spec.isolation_mode == "process"
    return process and (federation.spec.insecure or superlink_tasks(federation) is not None)


def _fleet_probe(dialect: Dialect, secure: bool) -> Object:
    """Ready means that the Fleet API itself answers, not just that the process runs."""
    if dialect.fleet.transport == "gRPC":
        return {"tcpSocket": {"port": dialect.fleet.port}}
    scheme = "HTTPS" if secure else "HTTP"
    return {"httpGet": {"path": "/health", "port": dialect.fleet.port, "scheme": scheme}}


def _container_ports(federation: Federation, dialect: Dialect) -> list[Object]:
    apis = {"fleet": dialect.fleet, "control": dialect.control}
    if _runtime_exposed(federation):
        apis["serverappio"] = dialect.serverappio
    ports: dict[int, Object] = {}
    for name, api in apis.items():
        port = {"name": name, "containerPort": api.port, "protocol": "TCP"}
        ports.setdefault(api.port, port)
    return list(ports.values())


def _address(federation: Federation, facts: Facts, port: int) -> str:
    return f"{superlink_name(federation.name)}.{namespace_of(federation, facts)}.svc:{port}"


def _service_port(name: str, port: int, target: int, node_port: int | None) -> Object:
    number = {"nodePort": node_port} if node_port else {}
    return {"name": name, "port": port, "targetPort": target, "protocol": "TCP"} | number
