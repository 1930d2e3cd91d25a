"""The SuperLink: its workload and the Service in front of it."""

from typing import Any

from ..api.rules import superlink_name
from ..api.types import Federation
from ..flower.commands import (
    HEALTH_PORT,
    SUPEREXEC_HEALTH_PORT,
    superexec_arguments,
    superlink_arguments,
)
from ..flower.dialects import Dialect
from . import pods, secrets
from .facts import Facts
from .metadata import (
    namespace_of,
    restart_annotations,
    superlink_labels,
    superlink_metadata,
)
from .releases import Releases

Object = dict[str, Any]


def superlink_address(federation: Federation, facts: Facts) -> str:
    """Where SuperNodes of this cluster find the Fleet API, on every release."""
    return _address(federation, facts, federation.spec.superlink.service.ports.grpc)


def control_address(federation: Federation, facts: Facts) -> str:
    """Where `flwr run` finds the Control API, on every release."""
    return _address(federation, facts, federation.spec.superlink.service.ports.extra)


def superlink_service(federation: Federation, facts: Facts, releases: Releases) -> Object:
    """The documented port numbers, each led to where the release has that API."""
    service = federation.spec.superlink.service
    dialect = releases.superlink_dialect
    ports = [
        _service_port("fleet", service.ports.grpc, dialect.fleet.port),
        _service_port("control", service.ports.extra, dialect.control.port),
    ]
    if _runtime_exposed(federation):
        port = dialect.serverappio.port
        ports.append(_service_port("serverappio", service.ports.server_app_io, port))
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


def superlink_workload(federation: Federation, facts: Facts, releases: Releases) -> Object:
    """A Deployment of one, or a StatefulSet of one where it has claims of its own."""
    superlink = federation.spec.superlink
    labels = superlink_labels(federation)
    workload: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": superlink_metadata(federation, facts),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": pods.pod_template(
                labels,
                _containers(federation, releases),
                _volumes(federation, releases) + superlink.volumes,
                superlink.pod_template,
                annotations=restart_annotations(federation),
            ),
        },
    }
    if superlink.volume_claim_templates:
        workload["kind"] = "StatefulSet"
        claims = pods.with_claims(superlink.volume_claim_templates)
        workload["spec"]["volumeClaimTemplates"] = claims
    else:
        # Two SuperLinks would each hold half of the federation's state.
        workload["spec"]["strategy"] = {"type": "Recreate"}
    return workload


def _containers(federation: Federation, releases: Releases) -> list[Object]:
    spec = federation.spec
    containers = [_superlink_container(federation, releases.superlink_dialect)]
    if spec.isolation_mode == "process":
        containers.append(_superexec_container(federation, releases))
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
        superexec_secret=secret,
    )
    mounts = [secrets.mount("tls")] if secure else []
    mounts += [secrets.mount("superexec")] if secret else []
    return pods.container(
        "superlink",
        spec.superlink.image,
        arguments + spec.superlink.extra_args,
        env=spec.superlink.env,
        resources=spec.superlink.resources,
        mounts=mounts + spec.superlink.volume_mounts,
        probes=pods.probes(pods.grpc_probe(HEALTH_PORT), _fleet_probe(dialect, secure)),
        ports=_container_ports(federation, dialect),
    )


def _superexec_container(federation: Federation, releases: Releases) -> Object:
    superlink = federation.spec.superlink
    dialect = releases.serverapp_dialect
    runs_tls = not federation.spec.insecure and releases.superlink_dialect.runtime_follows_tls
    secret = secrets.superexec_secret(federation, dialect)
    mounts = [secrets.mount("ca")] if runs_tls else []
    mounts += [secrets.mount("superexec")] if secret else []
    return pods.container(
        "superexec-serverapp",
        superlink.superexec_image or "",
        superexec_arguments(
            dialect,
            "serverapp",
            releases.superlink_dialect.serverappio,
            root_certificates=secrets.ROOT_CERTIFICATES if runs_tls else None,
            superexec_secret=secret,
        ),
        env=superlink.env,
        resources=superlink.superexec_resources,
        mounts=mounts + (superlink.superexec_volume_mounts or superlink.volume_mounts),
        probes=pods.probes(pods.grpc_probe(SUPEREXEC_HEALTH_PORT), None),
    )


def _volumes(federation: Federation, releases: Releases) -> list[Object]:
    if federation.spec.insecure:
        return []
    volumes = [secrets.server_certificate_volume(federation.name)]
    if federation.spec.isolation_mode == "process":
        if releases.superlink_dialect.runtime_follows_tls:
            volumes.append(secrets.authority_volume(federation.name))
        if secrets.superexec_secret(federation, releases.superlink_dialect):
            volumes.append(secrets.superexec_secret_volume(federation.name))
    return volumes


def _runtime_exposed(federation: Federation) -> bool:
    """The documented Service has the app API in process mode; a secure one keeps it inside."""
    return federation.spec.isolation_mode == "process" and federation.spec.insecure


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


def _service_port(name: str, port: int, target: int) -> Object:
    return {"name": name, "port": port, "targetPort": target, "protocol": "TCP"}
