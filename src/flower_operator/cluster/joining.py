"""Other clusters join a Federation of this one."""

import time
from collections.abc import Callable
from dataclasses import replace

import msgspec

from ..api import types
from ..api.manifest import parse_stored
from ..api.problems import InvalidFederation
from ..api.rules import superlink_name
from ..control import ControlClient, ControlError
from ..control.joining import make_keys
from ..fleet.route import route_of
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.forward import HOST, forward
from ..kube.resources import ACCESS_GRANT, SERVICE
from ..render.joining import Joining, check_joining
from ..render.skupper import Grant
from ..status.observed import ServiceForm, node_port_of, service_of
from ..status.outline import exposure_of
from ..status.troubles import seconds_of
from ..trust.layout import Files
from .errors import ClusterError
from .federations import FEDERATION, Federation, list_pods
from .pods import superlink_pod
from .trust import read_bundle


class _GrantSpec(msgspec.Struct, rename="camel"):
    redemptions_allowed: int = 1


class _GrantStatus(msgspec.Struct, rename="camel"):
    url: str = ""
    code: str = ""
    ca: str = ""
    redemptions: int = 0
    expiration_time: str = ""
    message: str = ""


class _AccessGrant(msgspec.Struct):
    spec: _GrantSpec = msgspec.field(default_factory=_GrantSpec)
    status: _GrantStatus = msgspec.field(default_factory=_GrantStatus)


async def join(
    client: Client,
    federation: Federation,
    cluster: str,
    replicas: int,
    tell: Callable[[str], None],
) -> tuple[types.Federation, Joining]:
    """What is joined, and as what; keys of it are registered. `tell` hears what fails."""
    federation.check_superlink()
    whole, grant = await _whole(client, federation), None
    if whole.spec.interconnect:
        grant = await _grant(client, federation)
        address = f"{superlink_name(whole.name)}:{whole.spec.superlink.service.ports.grpc}"
    else:
        address = await _address(client, federation, whole)
    authority = None if whole.spec.insecure else await read_bundle(client, federation)
    joining = Joining(cluster, replicas, address, authority, grant=grant)
    try:
        check_joining(whole, joining)
    except InvalidFederation as error:
        raise ClusterError(f"it could not join so: {error}") from None
    if whole.spec.supernode_auth.enabled:
        pod = superlink_pod(federation.name, await list_pods(client, federation))
        port, namespace = federation.ports.control, federation.metadata.namespace
        async with forward(client, namespace, pod, port, tell) as here:
            joining = replace(joining, keys=await _keys(federation, f"{HOST}:{here}", joining))
    return whole, joining


async def _whole(client: Client, federation: Federation) -> types.Federation:
    metadata = federation.metadata
    answer = await client.get(FEDERATION.path(metadata.namespace, metadata.name))
    own = {"name": metadata.name, "namespace": metadata.namespace}
    try:
        return parse_stored(own, msgspec.json.decode(answer)["spec"])
    except InvalidFederation as error:
        raise ClusterError(f"{federation.name} is not valid: {error}") from None


async def _address(client: Client, federation: Federation, whole: types.Federation) -> str:
    namespace, name = federation.metadata.namespace, superlink_name(federation.name)
    try:
        answer = await client.get(SERVICE.path(namespace, name))
    except ApiError as error:
        if error.code != 404:
            raise
        raise ClusterError(f"{federation.name} has no Service {name} yet") from None
    service = service_of(msgspec.json.decode(answer, type=ServiceForm))
    node_port = node_port_of(service, "fleet")
    route = route_of(exposure_of(whole), service.addresses, node_port)
    if isinstance(route, tuple):
        raise ClusterError(route[1])
    host = f"[{route.host}]" if ":" in route.host else route.host
    return f"{host}:{route.port}"


async def _grant(client: Client, federation: Federation) -> Grant:
    namespace, name = federation.metadata.namespace, federation.name
    try:
        answer = await client.get(ACCESS_GRANT.path(namespace, name))
    except ApiError as error:
        if error.code != 404:
            raise
        words = f"{name} has no AccessGrant yet; look at: kubectl flower status {name}"
        raise ClusterError(words) from None
    found = msgspec.json.decode(answer, type=_AccessGrant)
    status, remedy = found.status, "the operator makes another one, try again in a moment"
    if not (status.url and status.code and status.ca):
        raise ClusterError(f"Skupper has not answered AccessGrant {name} yet: {status.message}")
    if status.redemptions >= found.spec.redemptions_allowed:
        raise ClusterError(f"AccessGrant {name} is used up: {remedy}")
    if status.expiration_time and seconds_of(status.expiration_time) <= time.time():
        raise ClusterError(f"AccessGrant {name} ended at {status.expiration_time}: {remedy}")
    return Grant(status.url, status.code, status.ca)


async def _keys(federation: Federation, address: str, joining: Joining) -> Files:
    client = ControlClient(
        federation.dialect,
        address,
        root_certificates=joining.authority,
        supernodes=(federation.status.desired_supernodes or 0) + joining.replicas,
    )
    try:
        return await make_keys(client, joining.cluster, joining.replicas)
    except ControlError as error:
        message = f"the SuperLink of {federation.name} does not register keys: {error}"
        raise ClusterError(message) from None
    finally:
        await client.close()
