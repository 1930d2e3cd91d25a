"""Secrets and ConfigMaps with certificates or keys."""

import msgspec
from msgspec import Struct

from .metadata import Metadata, unversioned


class TrustForm(Struct):
    """A Secret, or a ConfigMap, with certificates or keys."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    data: msgspec.Raw = msgspec.Raw(b"{}")


class Trust(Struct):
    metadata: Metadata
    data: bytes


def trust_of(form: TrustForm) -> Trust:
    return Trust(unversioned(form.metadata), bytes(form.data))
