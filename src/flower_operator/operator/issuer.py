"""Leaves the SuperLink's certificate to cert-manager: asks for it, and takes that back."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from ..api.types import IssuerRef
from ..kube.applied import includes, owned
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CERTIFICATE, SECRET, Resource
from ..render.metadata import trust_labels
from ..status.observation import Fault
from ..status.observed import Federation, Metadata, Trust, TrustForm
from ..trust.layout import Part
from ..trust.names import address_of
from .desired import owner_of
from .safe import TrustFault, name_taken

ISSUED = "cert-manager.io/certificate-name"
"""On Secrets that cert-manager made: of which Certificate."""


class _Condition(msgspec.Struct):
    type: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Certificate(msgspec.Struct):
    metadata: Metadata
    spec: dict[str, Any] = {}
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True)
class Request:
    """The Certificate that was asked for."""

    uid: str
    message: str = ""
    """cert-manager's, about its progress."""


async def ask(
    client: Client, federation: Federation, issuer: IssuerRef, names: Sequence[str]
) -> Request:
    """Create or update the Certificate. Raises TrustFault."""
    namespace, name = federation.metadata.namespace, certificate_name(federation)
    found = await _get(client, namespace, name)
    if found and not _is_ours(found.metadata, federation):
        raise name_taken(f"Certificate {name}")
    body = certificate(federation, issuer, [*(_names(found.spec) if found else ()), *names])
    if found and includes(found.spec, body["spec"]):
        said = next((each for each in found.status.conditions or () if each.type == "Ready"), None)
        return Request(found.metadata.uid, said.message if said else "")
    try:
        if found:
            body["metadata"]["uid"] = found.metadata.uid
            answer = await client.apply(CERTIFICATE, body)
        else:
            await _look_for_stranger(client, federation)
            answer = await client.apply_new(CERTIFICATE, body)
    except ApiError as error:
        if error.code == 404:
            words = f"this cluster has no Certificates of {CERTIFICATE.api_version}"
            message = f"spec.tls.issuerRef: {words}; install cert-manager"
            raise TrustFault(Fault("CertManagerMissing", message)) from None
        if error.final:
            message = f"Certificate {name}: {error.message}"
            raise TrustFault(Fault("Refused", message)) from None
        raise
    return Request(msgspec.json.decode(answer, type=_Certificate).metadata.uid)


def is_issued(secret: Trust, federation: Federation, certificate_uid: str) -> bool:
    """Whether cert-manager made a Secret for the Federation's Certificate. Its labels prove
    nothing: everyone can write them."""
    owner = secret.metadata.owner
    if owner:  # the Certificate, where cert-manager is told to make it the owner
        return owner.uid in (federation.metadata.uid, certificate_uid)
    return secret.metadata.annotations.get(ISSUED) == certificate_name(federation)


async def adopt(client: Client, federation: Federation, secret: Trust) -> bytes:
    """The Secret that cert-manager made goes with the Federation; returns it."""
    metadata = secret.metadata
    body = {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "labels": trust_labels(federation.metadata.name),
        },
    }
    return await client.apply(SECRET, owned(body, owner_of(federation)))


async def withdraw(client: Client, federation: Federation, secret: Trust) -> None:
    """Delete the Certificate, and the Secret that was issued for it."""
    namespace, name = federation.metadata.namespace, certificate_name(federation)
    found = await _get(client, namespace, name)
    if found and _is_ours(found.metadata, federation):
        if secret.metadata.owner is None and is_issued(secret, federation, found.metadata.uid):
            await adopt(client, federation, secret)  # so that it is known without the Certificate
        await _delete(client, CERTIFICATE, found.metadata)
        if is_issued(secret, federation, found.metadata.uid):
            await _delete(client, SECRET, secret.metadata)
    elif _is_ours(secret.metadata, federation):
        await _delete(client, SECRET, secret.metadata)


def certificate(federation: Federation, issuer: IssuerRef, names: Iterable[str]) -> dict[str, Any]:
    """What cert-manager is asked for."""
    metadata, name = federation.metadata, certificate_name(federation)
    labels = trust_labels(metadata.name)
    every = list(dict.fromkeys(names))
    body = {
        "apiVersion": CERTIFICATE.api_version,
        "kind": CERTIFICATE.kind,
        "metadata": {"name": name, "namespace": metadata.namespace, "labels": labels},
        "spec": {
            "secretName": name,
            # By these the operator hears of it.
            "secretTemplate": {"labels": labels},
            "dnsNames": [each for each in every if not address_of(each)],
            "ipAddresses": [each for each in every if address_of(each)],
            "privateKey": {
                "algorithm": "ECDSA",
                "size": 256,
                "encoding": "PKCS8",
                "rotationPolicy": "Always",
            },
            "usages": ["digital signature", "server auth"],
            "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
        },
    }
    return owned(body, owner_of(federation))


def certificate_name(federation: Federation) -> str:
    return Part.SERVER.object_name(federation.metadata.name)


async def _delete(client: Client, resource: Resource, metadata: Metadata) -> None:
    with suppress(ApiError):  # gone or replaced; the next reconcile sees what is there
        await client.delete(resource, metadata.namespace, metadata.name, metadata.uid, "Background")


async def _get(client: Client, namespace: str, name: str) -> _Certificate | None:
    try:
        answer = await client.get(CERTIFICATE.path(namespace, name))
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    return msgspec.json.decode(answer, type=_Certificate)


async def _look_for_stranger(client: Client, federation: Federation) -> None:
    """A Secret that is not this Federation's would be overwritten by cert-manager."""
    namespace, name = federation.metadata.namespace, certificate_name(federation)
    try:
        answer = await client.get(SECRET.path(namespace, name))
    except ApiError as error:
        if error.code != 404:
            raise
        return
    metadata = msgspec.json.decode(answer, type=TrustForm).metadata
    if not _is_ours(metadata, federation):
        raise name_taken(f"Secret {name}")


def _is_ours(metadata: Metadata, federation: Federation) -> bool:
    return metadata.owner is not None and metadata.owner.uid == federation.metadata.uid


def _names(spec: dict[str, Any]) -> list[str]:
    """What it was asked for before. A name that is not needed any more stays: to take it away
    would take a restart."""
    return [*spec.get("dnsNames", []), *spec.get("ipAddresses", [])]
