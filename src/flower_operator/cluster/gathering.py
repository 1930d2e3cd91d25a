"""The evidence for an examination, gathered from the cluster."""

import time
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from ..api.crd import PLURAL, custom_resource_definition
from ..api.types import GROUP
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    LEASE,
    NETWORK_POLICY,
    OWN_ACCESS_REVIEW,
    SERVICE,
    Resource,
)
from ..kube.reviews import allowed, own_access_review
from ..render.metadata import MANAGER
from .errors import is_unknown_kind
from .evidence import (
    RIGHTS,
    Deployment,
    Event,
    Evidence,
    FederationEvidence,
    Hidden,
    Lease,
    Policy,
    Right,
)
from .federations import find, list_federations, list_pods

Struct = msgspec.Struct
Found = TypeVar("Found")

OPERATOR = f"app.kubernetes.io/name={MANAGER},app.kubernetes.io/component=controller-manager"
DNS = ("kube-system", "kube-dns")


class _Conditions(Struct):
    ready: bool | None = None


class _Endpoint(Struct):
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)


class _Slice(Struct):
    endpoints: tuple[_Endpoint, ...] | None = None


class _Version(Struct, rename="camel"):
    git_version: str = ""


async def gather(client: Client, server: str, namespace: str, name: str | None) -> Evidence:
    """Everything, of all Federations of the namespace or of one. Raises if nobody answers."""
    version = msgspec.json.decode(await client.get("/version"), type=_Version).git_version
    return Evidence(
        server=server,
        version=version,
        definition=await _seen(_definition(client)),
        expected=custom_resource_definition(),
        deployments=await _seen(
            _items(client, DEPLOYMENT, None, Deployment, labelSelector=OPERATOR)
        ),
        leases=await _seen(
            _items(client, LEASE, None, Lease, fieldSelector=f"metadata.name={MANAGER}")
        ),
        missing=[each for each in RIGHTS if not await _may(client, each, namespace)],
        dns_endpoints=await _seen(_dns_endpoints(client)),
        federations=await _federations(client, namespace, name),
        namespace=namespace,
        now=time.time(),
    )


async def _seen(looking: Awaitable[Found]) -> Found | Hidden:
    try:
        return await looking
    except ApiError as error:
        if error.code == 403:
            return Hidden(str(error))
        raise


async def _items(
    client: Client, resource: Resource, namespace: str | None, form: type[Found], **select: str
) -> list[Found]:
    answer = msgspec.json.decode(await client.get(resource.path(namespace), **select))
    return msgspec.convert(answer.get("items") or [], type=list[form])  # type: ignore[valid-type]


async def _object(client: Client, resource: Resource, *key: str | None) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = msgspec.json.decode(await client.get(resource.path(*key)))
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    return found


async def _definition(client: Client) -> dict[str, Any] | None:
    return await _object(client, CUSTOM_RESOURCE_DEFINITION, None, f"{PLURAL}.{GROUP}")


async def _may(client: Client, right: Right, namespace: str) -> bool:
    review = own_access_review(
        right.verb, right.group, right.resource, right.subresource, namespace
    )
    return allowed(msgspec.json.decode(await client.create(OWN_ACCESS_REVIEW, None, review)))


async def _dns_endpoints(client: Client) -> int | None:
    namespace, name = DNS
    if await _object(client, SERVICE, namespace, name) is None:
        return None
    select = {"labelSelector": f"kubernetes.io/service-name={name}"}
    slices = await _items(client, ENDPOINT_SLICE, namespace, _Slice, **select)
    own = [endpoint for each in slices for endpoint in each.endpoints or ()]
    return sum(endpoint.conditions.ready is not False for endpoint in own)


async def _federations(
    client: Client, namespace: str, name: str | None
) -> list[FederationEvidence] | Hidden:
    try:
        if name is None:
            found = await list_federations(client, namespace)
        else:
            found = [await find(client, namespace, name)]
    except ApiError as error:
        if is_unknown_kind(error):
            return []  # the finding about the CRD says why
        if error.code != 403:
            raise
        return Hidden(str(error))
    if not found:
        return []
    policies = await _seen(_items(client, NETWORK_POLICY, namespace, Policy))
    warnings = await _seen(_items(client, EVENT, namespace, Event, fieldSelector="type=Warning"))
    return [
        FederationEvidence(
            federation, await _seen(list_pods(client, federation)), policies, warnings
        )
        for federation in found
    ]
