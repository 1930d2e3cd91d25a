"""The names and addresses that a SuperLink's certificate is for."""

import ipaddress
import re
from collections.abc import Iterable
from contextlib import suppress

from ..api.rules import pool_name, superlink_name, supernodes_name

# A port that is forwarded, or a SuperLink that runs on this machine, is reached by these.
LOCAL = ("localhost", "127.0.0.1", "::1")
CLUSTER_DOMAIN = "cluster.local"

_LABEL = r"[a-z0-9]([-a-z0-9_]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")
_LONGEST = 253


def server_names(federation: str, namespace: str, others: Iterable[str] = ()) -> tuple[str, ...]:
    """Every form of the Service's name, this machine's, and `others`; raises ValueError."""
    service = superlink_name(federation)
    forms = ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.{CLUSTER_DOMAIN}")
    names = [*(f"{service}{form}" for form in forms), *LOCAL, *map(normal_name, others)]
    return tuple(dict.fromkeys(names))


def service_name(federation: str, namespace: str) -> str:
    """The form by which SuperNodes and the operator know the Service."""
    return f"{superlink_name(federation)}.{namespace}.svc"


def supernode_names(federation: str, namespace: str) -> tuple[str, ...]:
    """What tasks know their SuperNode by, in the same pod or in one of their own."""
    return (*LOCAL, f"*.{supernodes_name(federation)}.{namespace}.svc")


def site_supernode_names(federation: str, pool: str, namespace: str) -> tuple[str, ...]:
    """What SuperExecs know a SuperNode of another cluster by: one for each node, or each."""
    service = f"{pool_name(federation, pool)}.{namespace}.svc"
    return service, f"*.{service}"


def with_addresses(names: Iterable[str], addresses: Iterable[str]) -> tuple[str, ...]:
    """Names and, in the same way of writing, addresses that someone else thought of; what a
    certificate cannot be for is left out."""
    found = []
    for each in addresses:
        with suppress(ValueError):
            found.append(normal_name(each))
    return tuple(dict.fromkeys((*names, *found)))


def normal_name(name: str) -> str:
    """The one way of writing a DNS name or an address; raises ValueError."""
    if address := address_of(name):
        return address.compressed
    plain = name.lower().removesuffix(".")
    if len(plain) > _LONGEST or not _DNS_NAME.fullmatch(plain):
        raise ValueError(f"{name!r} is neither a DNS name nor an IP address")
    return plain


def address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        return None
    return address
