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
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.forward import HOST, forward
from ..kube.resources import SERVICE
from ..render.joining import Joining, check_joining, fleet_address
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
        service = msgspec.json.decode(await client.get(SERVICE.path(namespace, name)))
    except ApiError as error:
        if error.code != 404:
            raise
        raise ClusterError(f"{federation.name} has no Service {name} yet") from None
    if address := fleet_address(whole, service):
        return address
    if whole.spec.superlink.service.type == "LoadBalancer":
        raise ClusterError(f"the load balancer of Service {name} has no address yet")
    raise ClusterError(
        f"no other cluster reaches {federation.name}: set spec.superlink.service.type to NodePort "
        "or LoadBalancer, and externalAddress beside it to the name or address that they know"
    )


async def _keys(federation: Federation, address: str, joining: Joining) -> Files:
    client = ControlClient(federation.dialect, address, root_certificates=joining.authority)
    try:
        return await make_keys(client, joining.cluster, joining.replicas)
    except ControlError as error:
        message = f"the SuperLink of {federation.name} does not register keys: {error}"
        raise ClusterError(message) from None
    finally:
        await client.close()
