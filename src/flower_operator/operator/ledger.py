"""What must be written down before anyone is told: who has which partition, and which key.

Each is a ConfigMap of the Federation. It is written only in place of what was read: of two
operators that would give out a number at the same time, one is refused and reads again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ..kube.applied import owned
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP
from ..render.metadata import trust_labels
from ..status.observation import Fault
from ..status.observed import Federation, Metadata
from .desired import owner_of
from .safe import TrustFault, name_taken

Entries = TypeVar("Entries")


class Ledger(Generic[Entries]):
    """`kind`: what is in it, the end of its name; `read` raises ValueError."""

    def __init__(
        self,
        client: Client,
        kind: str,
        read: Callable[[Mapping[str, str]], Entries],
        write: Callable[[Entries], dict[str, str]],
    ) -> None:
        self._client = client
        self._kind = kind
        self._read = read
        self._write = write
        self._known: dict[str, tuple[str, Entries]] = {}

    async def read(self, federation: Federation) -> Entries | None:
        """None: nothing was ever written. Raises TrustFault."""
        uid = federation.metadata.uid
        if uid not in self._known:
            path = CONFIG_MAP.path(federation.metadata.namespace, self._name(federation))
            try:
                answer = await self._client.get(path)
            except ApiError as error:
                if error.code != 404:
                    raise
                return None
            self._take(federation, answer)
        return self._known[uid][1]

    async def write(self, federation: Federation, entries: Entries) -> None:
        """In place of what was read; raises ApiError (409) if that has changed."""
        metadata = federation.metadata
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": CONFIG_MAP.kind,
            "metadata": {
                "name": self._name(federation),
                "namespace": metadata.namespace,
                "labels": trust_labels(metadata.name),
            },
            "data": self._write(entries),
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
        name = f"ConfigMap {self._name(federation)}"
        if owner is None or owner.uid != federation.metadata.uid:
            raise name_taken(name)
        try:
            entries = self._read(found.data or {})
        except ValueError as error:
            message = f"{name} cannot be read: {error}; mend or delete it"
            raise TrustFault(Fault("LedgerUnreadable", message)) from None
        self._known[federation.metadata.uid] = found.metadata.resource_version, entries

    def _name(self, federation: Federation) -> str:
        return f"{federation.metadata.name}-{self._kind}"


class _ConfigMap(msgspec.Struct):
    metadata: Metadata
    data: dict[str, str] | None = None
