"""The SuperLink: its workload and the Service in front of it."""

from dataclasses import replace
from typing import Any

from ..api.types import Federation
from ..flower import commands
from ..flower.commands import HEALTH_PORT, RELAY_PORT, ApiPorts, beside, superlink_arguments
from ..flower.dialects import Dialect
from . import gateway, persistence, pods, relay, secrets, serverapp
from .envoy import Gateway
from .facts import Facts
from .metadata import (
    restart_annotations,
    service_address,
    superlink_labels,
    superlink_metadata,
    with_release,
)
from .releases import Releases

Object = dict[str, Any]


def superlink_address(federation: Federation, facts: Facts) -> str:
    """Where SuperNodes find the Fleet API, on every release."""
    if facts.site:
        return facts.site.superlink
    if external := federation.spec.superlink.external:
        return external.address
    return service_address(federation, facts, federation.spec.superlink.service.ports.grpc)


def control_address(federation: Federation, facts: Facts) -> str:
    """Where `flwr run` finds the Control API, on every release."""
    return service_address(federation, facts, federation.spec.superlink.service.ports.extra)


def superlink_objects(federation: Federation, facts: Facts, releases: Releases) -> list[Object]:
    """The SuperLink's Service, its workload last, and what else it needs."""
    template = _template(federation, facts, releases)
    objects = [superlink_service(federation, facts, releases)]
    if own := superlink_gateway(federation, releases):
        objects.append(gateway.gateway_config_map(federation, facts, own))
    if not serverapp.is_apart(federation):
        more, template = serverapp.launching(federation, facts, releases, template)
        objects += more
    metadata = with_release(superlink_metadata(federation, facts), releases.superlink)
    return [*objects, superlink_workload(federation, metadata, template)]


def superlink_service(federation: Federation, facts: Facts, releases: Releases) -> Object:
    """The documented port numbers, each led to where the release has that API."""
    service = federation.spec.superlink.service
    reached = api_ports(federation, releases)
    fixed = service.node_ports
    ports = [
        _service_port("fleet", service.ports.grpc, reached.fleet, fixed.grpc),
        _service_port("control", service.ports.extra, reached.control, fixed.extra),
    ]
    if _runtime_served(federation):
        number = service.ports.server_app_io
        ports.append(_service_port("serverappio", number, reached.runtime, fixed.server_app_io))
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


def api_ports(federation: Federation, releases: Releases) -> ApiPorts:
    """Where other pods reach each API in the SuperLink's."""
    ports = commands.api_ports(releases.superlink_dialect, gateway=gateway.is_used(federation))
    if serverapp.is_relayed(federation, releases):
        return replace(ports, runtime=RELAY_PORT)
    return ports


def superlink_gateway(federation: Federation, releases: Releases) -> Gateway | None:
    """What stands in front of the SuperLink, if anything does."""
    if not gateway.is_used(federation):
        return None
    served = _runtime_served(federation) and not serverapp.is_relayed(federation, releases)
    return gateway.gateway_of(federation, releases, serves_runtime=served)


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
    spec, superlink = federation.spec, federation.spec.superlink
    apart = serverapp.is_apart(federation)
    hosts = spec.isolation_mode == "process" and not apart
    guarded = superlink_gateway(federation, releases)
    annotations = restart_annotations(federation)
    if not spec.insecure:
        dialect = releases.superlink_dialect
        annotations |= secrets.superlink_annotations(
            facts,
            serves=not gateway.watches_certificate(federation),
            trusts=hosts and serverapp.has_tls(federation, releases),
            shares=secrets.superexec_secret(federation, dialect) is not None,
        )
    containers = [_superlink_container(federation, releases)]
    volumes = [] if spec.insecure else [secrets.server_certificate_volume(federation)]
    if guarded:
        containers.append(gateway.gateway_container(federation, facts, guarded))
        volumes = gateway.gateway_volumes(federation, facts)
    relayed = serverapp.is_relayed(federation, releases)
    if relayed:
        runtime = beside(releases.superlink_dialect.serverappio)
        containers.append(relay.accepting(superlink.image or "", runtime))
    if hosts:
        containers.append(serverapp.superexec_container(federation, facts, releases))
        volumes += serverapp.superexec_volumes(federation, releases)
    elif relayed or secrets.superexec_secret(federation, releases.superlink_dialect):
        volumes.append(secrets.superexec_secret_volume(federation.name))
    patch, own = superlink.pod_template, persistence.ending(federation)
    template = pods.pod_template(
        superlink_labels(federation),
        containers,
        volumes + superlink.volumes,
        pods.without_container(patch, serverapp.CONTAINER) if apart else patch,
        facts,
        annotations=annotations,
        spec=own | (serverapp.account(federation, facts) if hosts else {}),
    )
    template = persistence.tolerant(federation, template)
    return pods.with_mounted(template) if apart else template


def _superlink_container(federation: Federation, releases: Releases) -> Object:
    spec, dialect = federation.spec, releases.superlink_dialect
    guarded = gateway.is_used(federation)
    secure = not spec.insecure and not guarded
    secret = secrets.superexec_secret(federation, dialect)
    arguments = superlink_arguments(
        dialect,
        spec.isolation_mode,
        exposed=not guarded,
        runtime_exposed=_runtime_exposed(federation, releases),
        tls=secrets.SERVER_CERTIFICATE if secure else None,
        node_authentication=spec.supernode_auth.enabled and not guarded,
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
        probes=pods.probes(
            pods.grpc_probe(HEALTH_PORT),
            # The gateway is ready when the APIs are, which a kubelet cannot ask on loopback.
            None if guarded else _fleet_probe(dialect, secure),
            ready_seconds=persistence.ready_seconds(federation),
        ),
        ports=[] if guarded else _container_ports(federation, releases),
    )


def _runtime_served(federation: Federation) -> bool:
    """The documented Service has the app API in process mode; a secure one keeps it inside,
    unless apps are in other pods."""
    process = federation.spec.isolation_mode == "process"
    return process and (federation.spec.insecure or serverapp.is_remote(federation))


def _runtime_exposed(federation: Federation, releases: Releases) -> bool:
    """Whether other pods reach that API itself."""
    if gateway.is_used(federation):
        return False
    return _runtime_served(federation) and not serverapp.is_relayed(federation, releases)


def _fleet_probe(dialect: Dialect, secure: bool) -> Object:
    """Ready means that the Fleet API itself answers, not just that the process runs."""
    if dialect.fleet.transport == "gRPC":
        return {"tcpSocket": {"port": dialect.fleet.port}}
    scheme = "HTTPS" if secure else "HTTP"
    return {"httpGet": {"path": "/health", "port": dialect.fleet.port, "scheme": scheme}}


def _container_ports(federation: Federation, releases: Releases) -> list[Object]:
    dialect = releases.superlink_dialect
    apis = {"fleet": dialect.fleet, "control": dialect.control}
    if _runtime_exposed(federation, releases):
        apis["serverappio"] = dialect.serverappio
    ports: dict[int, Object] = {}
    for name, api in apis.items():
        port = {"name": name, "containerPort": api.port, "protocol": "TCP"}
        ports.setdefault(api.port, port)
    return list(ports.values())


def _service_port(name: str, port: int, target: int, node_port: int | None) -> Object:
    number = {"nodePort": node_port} if node_port else {}
    return {"name": name, "port": port, "targetPort": target, "protocol": "TCP"} | number
