"""Services, and where they are reached."""

import msgspec
from msgspec import Struct

from .children import Child
from .metadata import Metadata, unversioned


class _Ingress(Struct):
    ip: str = ""
    hostname: str = ""


class _LoadBalancer(Struct):
    ingress: list[_Ingress] | None = None


class _ServiceStatus(Struct, rename="camel"):
    load_balancer: _LoadBalancer = msgspec.field(default_factory=_LoadBalancer)


class _ServicePort(Struct, rename="camel"):
    name: str = ""
    node_port: int | None = None


class _ServiceSpec(Struct):
    external_addresses: list[str] | None = msgspec.field(name="externalIPs", default=None)
    ports: list[_ServicePort] | None = None


class ServiceForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _ServiceStatus = msgspec.field(default_factory=_ServiceStatus)


class Service(Child):
    addresses: tuple[str, ...]
    """Where it is reached from outside of the cluster, as far as it says so itself."""


def service_of(form: ServiceForm) -> Service:
    spec, ingress = bytes(form.spec), form.status.load_balancer.ingress or ()
    given = msgspec.json.decode(spec, type=_ServiceSpec).external_addresses or ()
    addresses = [*given, *(text for each in ingress for text in (each.ip, each.hostname) if text)]
    return Service(unversioned(form.metadata), spec, tuple(addresses))


def node_port_of(service: Service, name: str) -> int | None:
    spec = msgspec.json.decode(service.content, type=_ServiceSpec)
    return next((port.node_port for port in spec.ports or () if port.name == name), None)
