"""What a client of a secure Federation of a cluster must trust."""

from typing import Any

import msgspec

from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP
from ..trust.layout import BUNDLE_FILE, Part
from .errors import ClusterError
from .federations import Federation


class _ConfigMap(msgspec.Struct):
    data: dict[str, Any] = {}


async def read_bundle(client: Client, federation: Federation) -> str:
    """The PEM text of its CA's certificate, of both in a rotation."""
    metadata = federation.metadata
    federation.check_superlink()
    if federation.spec.insecure:
        raise ClusterError(f"{federation.name} has insecure: true: it has no certificates")
    name = Part.BUNDLE.object_name(federation.name)
    try:
        answer = await client.get(CONFIG_MAP.path(metadata.namespace, name))
    except ApiError as error:
        if error.code != 404:
            raise
        answer = b"{}"
    text = msgspec.json.decode(answer, type=_ConfigMap).data.get(BUNDLE_FILE)
    if not text:
        raise ClusterError(
            f"{federation.name} has no CA yet: there is no {BUNDLE_FILE} in ConfigMap {name} of "
            f"namespace {metadata.namespace}"
        )
    return str(text)
