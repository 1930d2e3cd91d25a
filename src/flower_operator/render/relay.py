"""TLS between the SuperLink's pod and that of ServerApps, on releases that have none there.

A relay at each end of the way: see relay.py of this package, which pods run as it is.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from ..flower.commands import EVERYWHERE, RELAY_PORT
from . import pods, secrets

Object = dict[str, Any]

CONTAINER = "relay"
# What Python needs to start; connections take little more.
RESOURCES = {"requests": {"cpu": "10m", "memory": "32Mi"}}


def accepting(image: str, runtime: str) -> Object:
    """In the SuperLink's pod, before the runtime API at this address of its loopback."""
    tls = secrets.SERVER_CERTIFICATE
    arguments = ["accept", f"{EVERYWHERE}:{RELAY_PORT}", runtime, secrets.SUPEREXEC_SECRET]
    ports = [{"name": "serverappio", "containerPort": RELAY_PORT, "protocol": "TCP"}]
    return _container(image, [*arguments, tls.certificate, tls.key], "tls") | {"ports": ports}


def connecting(image: str, runtime: str, service: str) -> Object:
    """In the other pod, as if the API were at this address of its own loopback."""
    arguments = ["connect", runtime, service, secrets.SUPEREXEC_SECRET, secrets.ROOT_CERTIFICATES]
    return _container(image, arguments, "ca")


def _container(image: str, arguments: list[str], trusted: str) -> Object:
    """Without probes: one that ends is started again, and one cannot be asked from outside."""
    return {
        "name": CONTAINER,
        "image": image,
        # Not from a file: it would be one more object, and one that changes under running pods.
        "command": ["python", "-I", "-c", _source()],
        "args": arguments,
        "resources": RESOURCES,
        "securityContext": pods.RESTRICTED | {"readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [secrets.mount(trusted), secrets.mount("superexec")],
    }


@cache
def _source() -> str:
    return files("flower_operator").joinpath("relay.py").read_text(encoding="utf-8")
