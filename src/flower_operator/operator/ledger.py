"""Which cluster has which partitions, written down before anyone is told.

A ConfigMap of the Federation. It is written only in place of what was read: of two operators that
would give out a number at the same time, one is refused and reads again.
"""

from typing import Any

import msgspec

from ..fleet.partitions import Partitions, read, write
from ..kube.applied import owned
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP
from ..render.metadata import trust_labels
from ..status.observed import Federation, Metadata
from ..status.summary import Fault
from .desired import owner_of
from .safe import TrustFault


class Ledger:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, tuple[str, Partitions]] = {}

    async def read(self, federation: Federation) -> Partitions | None:
        """None: nothing was ever written. Raises TrustFault."""
        uid = federation.metadata.uid
        if uid not in self._known:
            path = CONFIG_MAP.path(federation.metadata.namespace, _name(federation))
            try:
                answer = await self._client.get(path)
            except ApiError as error:
                if error.code != 404:
                    raise
                return None
            self._take(federation, answer)
        return self._known[uid][1]

    async def write(self, federation: Federation, partitions: Partitions) -> None:
        """In place of what was read; raises ApiError (409) if that has changed."""
        metadata = federation.metadata
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": CONFIG_MAP.kind,
            "metadata": {
                "name": _name(federation),
                "namespace": metadata.namespace,
                "labels": trust_labels(metadata.name),
            },
            "data": write(partitions),
        }
        body = owned(body, owner_of(federation))
        known = self._known.pop(metadata.uid, None)
        if known is None:
            answer = await self._client.create(CONFIG_MAP, metadata.namespace, body)
        else:
            body["metadata"]["resourceVersion"] = known[0]
            answer = await self._client.replace(CONFIG_MAP, body)
        self._take(federation, answer)

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    def _take(self, federation: Federation, answer: bytes) -> None:
        found = msgspec.json.decode(answer, type=_ConfigMap)
        owner = found.metadata.owner
        name = f"ConfigMap {_name(federation)}"
        if owner is None or owner.uid != federation.metadata.uid:
            message = f"{name} is there already and is not this Federation's; it stays as is"
            raise TrustFault(Fault("NameTaken", message))
        try:
            partitions = read(found.data or {})
        except ValueError as error:
            message = f"{name} does not say who has which partition: {error}; mend or delete it"
            raise TrustFault(Fault("PartitionsUnknown", message)) from None
        self._known[federation.metadata.uid] = found.metadata.resource_version, partitions


class _ConfigMap(msgspec.Struct):
    metadata: Metadata
    data: dict[str, str] | None = None


def _name(federation: Federation) -> str:
    return f"{federation.metadata.name}-partitions"
