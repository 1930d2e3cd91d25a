"""Where a Federation's certificates and keys are kept: Secrets and ConfigMaps of its own."""

from typing import Any

import msgspec

from ..kube.applied import owned
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP, SECRET
from ..render.metadata import trust_labels
from ..status.observation import Fault
from ..status.observed import Federation
from ..trust.layout import Files, decode_secret, encode_secret
from .caches import Caches
from .desired import owner_of


class TrustFault(Exception):
    """Something that only a person can mend."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def name_taken(title: str) -> TrustFault:
    message = f"{title} already exists and is not owned by this Federation; left unchanged"
    return TrustFault(Fault("NameTaken", message))


class Safe:
    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches

    def files(self, federation: Federation, name: str, *, secret: bool) -> Files:
        """What is stored in it; nothing, where that is not this Federation's."""
        metadata = federation.metadata
        found = self._caches.trust(_kind(secret), metadata.namespace, name)
        if found is None or found.metadata.owner is None:
            return {}
        if found.metadata.owner.uid != metadata.uid or found.metadata.deletion_timestamp:
            return {}
        try:
            data = msgspec.json.decode(found.data or b"{}", type=dict[str, str])
        except msgspec.DecodeError:
            return {}
        return decode_secret(data) if secret else data

    def names(self, federation: Federation) -> list[str]:
        """Of all its Secrets."""
        return self._caches.secrets((federation.metadata.namespace, federation.metadata.name))

    async def remove(self, federation: Federation, name: str) -> None:
        """Delete a Secret that is this Federation's, if it is there."""
        namespace = federation.metadata.namespace
        known = self._caches.trust(SECRET.kind, namespace, name)
        if known and self.files(federation, name, secret=True):
            uid = known.metadata.uid
            await self._client.delete(SECRET, namespace, name, uid, "Background")

    async def write(self, federation: Federation, name: str, files: Files, *, secret: bool) -> None:
        """In place of all that it had. Raises TrustFault."""
        metadata, kind = federation.metadata, _kind(secret)
        resource = SECRET if secret else CONFIG_MAP
        body = _body(federation, name, files, secret=secret)
        known = self._caches.trust(kind, metadata.namespace, name)
        try:
            if known and known.metadata.owner and known.metadata.owner.uid == metadata.uid:
                body["metadata"]["uid"] = known.metadata.uid
                answer = await self._client.apply(resource, body)
            else:
                answer = await self._client.apply_new(resource, body)
        except ApiError as error:
            if error.code == 409 and "uid" not in body["metadata"]:
                raise name_taken(f"{kind} {name}") from None
            if error.final:
                raise TrustFault(Fault("Refused", f"{kind} {name}: {error.message}")) from None
            raise
        self._caches.put_trust(kind, answer)


def _kind(secret: bool) -> str:
    return SECRET.kind if secret else CONFIG_MAP.kind


def _body(federation: Federation, name: str, files: Files, *, secret: bool) -> dict[str, Any]:
    metadata = federation.metadata
    body = {
        "apiVersion": "v1",
        "kind": _kind(secret),
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "labels": trust_labels(metadata.name),
        },
        "data": encode_secret(files) if secret else dict(files),
    }
    return owned(body, owner_of(federation))
