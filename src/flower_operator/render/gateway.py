"""The gateway in front of the SuperLink: Envoy as a container of the same pod.

It gives the Fleet and Control APIs separate ports, which flwr from 1.40 on serves on one without a
login, and terminates TLS with certificates that it reloads when they change.
"""

from typing import Any

from ..api.types import Federation
from ..flower.commands import EVERYWHERE, GATEWAY_HEALTH_PORT, GATEWAY_PORTS
from . import pods, secrets
from .envoy import (
    LIVE_PATH,
    READY_PATH,
    ApiName,
    Gateway,
    Location,
    envoy_arguments,
    gateway_files,
)
from .facts import Facts
from .metadata import superlink_metadata
from .releases import Releases

Object = dict[str, Any]

CONTAINER = "gateway"
VOLUME = "flower-gateway"
FOLDER = f"{secrets.FOLDER}/gateway"
PORT_NAMES: dict[ApiName, str] = {
    "fleet": "fleet",
    "control": "control",
    "runtime": "serverappio",
}


def is_used(federation: Federation) -> bool:
    return federation.spec.superlink.gateway.enabled


def watches_certificate(federation: Federation) -> bool:
    """Whether a new certificate takes no restart. One from elsewhere may be by a CA that clients
    do not know yet, so that it must not be served before they are restarted."""
    spec = federation.spec
    return is_used(federation) and not spec.insecure and not spec.tls.from_elsewhere


def gateway_of(federation: Federation, releases: Releases, *, serves_runtime: bool) -> Gateway:
    return Gateway(
        releases.superlink_dialect,
        serves_runtime=serves_runtime,
        tls=not federation.spec.insecure,
        watches_certificate=watches_certificate(federation),
        refuses_registration=federation.spec.supernode_auth.enabled,
    )


def gateway_config_map(federation: Federation, facts: Facts, gateway: Gateway) -> Object:
    """Envoy reads the listeners again when it changes, so no pod is restarted for it."""
    location = Location(
        host=EVERYWHERE,
        port_of=lambda port: port,
        folder=FOLDER,
        certificates=f"{secrets.FOLDER}/tls",
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": superlink_metadata(federation, facts) | {"name": _name(federation, facts)},
        "data": gateway_files(gateway, location),
    }


def gateway_container(federation: Federation, facts: Facts, gateway: Gateway) -> Object:
    own = federation.spec.superlink.gateway
    mounts = [secrets.mount("gateway"), *([secrets.mount("tls")] if gateway.tls else [])]
    ports = [
        {
            "name": PORT_NAMES[api],
            "containerPort": getattr(GATEWAY_PORTS, api),
            "protocol": "TCP",
        }
        for api in gateway.apis
    ]
    container: Object = {
        "name": CONTAINER,
        "image": own.image or facts.gateway_image,
        "command": ["envoy"],
        "args": envoy_arguments(FOLDER),
        "ports": ports,
        **pods.probes(_probe(LIVE_PATH, GATEWAY_HEALTH_PORT), _readiness_probe(gateway)),
        "securityContext": pods.RESTRICTED | {"readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return container | ({"resources": own.resources} if own.resources else {})


def gateway_volumes(federation: Federation, facts: Facts) -> list[Object]:
    volumes = [{"name": VOLUME, "configMap": {"name": _name(federation, facts)}}]
    if not federation.spec.insecure:
        volumes.append(secrets.server_certificate_volume(federation))
    return volumes


def _name(federation: Federation, facts: Facts) -> str:
    name: str = superlink_metadata(federation, facts)["name"]
    return f"{name}-gateway"


def _readiness_probe(gateway: Gateway) -> Object:
    probe = _probe(READY_PATH, GATEWAY_PORTS.fleet)
    return {"httpGet": probe["httpGet"] | ({"scheme": "HTTPS"} if gateway.tls else {})}


def _probe(path: str, port: int) -> Object:
    return {"httpGet": {"path": path, "port": port}}
