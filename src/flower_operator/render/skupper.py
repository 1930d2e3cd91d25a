"""Skupper's objects: how other clusters reach a SuperLink without an address of its own.

Beside the SuperLink a Site that takes links, a Connector to its Fleet API and an AccessGrant; on
the other side a Site, an AccessToken of that grant, which makes the link, and a Listener. Connector
and Listener are joined by their routing key, and the Listener's Service has the name of the
SuperLink's, so that its certificate fits.
"""

from dataclasses import dataclass
from typing import Any

from ..api.rules import superlink_name
from ..api.types import Federation
from .facts import Facts
from .metadata import superlink_labels, superlink_metadata
from .releases import Releases
from .superlink import api_ports

Object = dict[str, Any]

GROUP = "skupper.io"
API_VERSION = f"{GROUP}/v2alpha1"
ROUTER: Object = {"podSelector": {"matchLabels": {f"{GROUP}/component": "router"}}}
"""Skupper's pods, of one's own namespace, through which everything goes."""
REDEMPTIONS = 100
WINDOW = "24h"


@dataclass(frozen=True)
class Grant:
    """What lets another cluster link."""

    url: str
    code: str
    ca: str


def fleet_name(federation: str) -> str:
    return f"{federation}-fleet-api"


def skupper_objects(federation: Federation, facts: Facts, releases: Releases) -> list[Object]:
    """The SuperLink's side."""
    spec = federation.spec
    if not spec.interconnect or spec.superlink.external or not facts.skupper:
        return []
    name, metadata = federation.name, superlink_metadata(federation, facts)
    selector = ",".join(f"{key}={value}" for key, value in superlink_labels(federation).items())
    connector = {
        "routingKey": fleet_name(name),
        "port": api_ports(federation, releases).fleet,
        "selector": selector,
    }
    grant = {"redemptionsAllowed": REDEMPTIONS, "expirationWindow": WINDOW}
    return [
        _object("Site", metadata | {"name": name}, {"linkAccess": "default"}),
        _object("Connector", metadata | {"name": fleet_name(name)}, connector),
        _object("AccessGrant", metadata | {"name": name}, grant),
    ]


def linking_objects(federation: Federation, grant: Grant) -> list[Object]:
    """The other side."""
    name = federation.name
    listener = {
        "routingKey": fleet_name(name),
        "host": superlink_name(name),
        "port": federation.spec.superlink.service.ports.grpc,
    }
    token = {"url": grant.url, "code": grant.code, "ca": grant.ca}
    return [
        _object("Site", {"name": name}, {}),
        _object("AccessToken", {"name": name}, token),
        _object("Listener", {"name": fleet_name(name)}, listener),
    ]


def _object(kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
