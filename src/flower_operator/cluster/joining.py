"""Other clusters join a Federation of this one."""

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
from ..kube.resources import SERVICE
from ..render.joining import Joining, check_joining
from ..status.observed import ServiceForm, node_port_of, service_of
from ..status.outline import exposure_of
from ..trust.layout import Files
from .errors import ClusterError
from .federations import FEDERATION, Federation, list_pods
from .pods import superlink_pod
from .trust import read_bundle


async def join(
    client: Client,
    federation: Federation,
    cluster: str,
    replicas: int,
    tell: Callable[[str], None],
) -> tuple[types.Federation, Joining]:
    """What is joined, and as what; keys of it are registered. `tell` hears what fails."""
    federation.check_superlink()
    whole = await _whole(client, federation)
    address = await _address(client, federation, whole)
    authority = None if whole.spec.insecure else await read_bundle(client, federation)
    joining = Joining(cluster, replicas, address, authority)
    try:
        check_joining(whole, joining)
    except InvalidFederation as error:
        raise ClusterError(f"it could not join so: {error}") from None
    if whole.spec.supernode_auth.enabled:
        pod = superlink_pod(federation.name, await list_pods(client, federation))
        port, namespace = federation.dialect.control.port, federation.metadata.namespace
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


async def _keys(federation: Federation, address: str, joining: Joining) -> Files:
    client = ControlClient(federation.dialect, address, root_certificates=joining.authority)
    try:
        return await make_keys(client, joining.cluster, joining.replicas)
    except ControlError as error:
        message = f"the SuperLink of {federation.name} does not register keys: {error}"
        raise ClusterError(message) from None
    finally:
        await client.close()
