"""A Federation as the API server tells it."""

import msgspec
from msgspec import Struct

from .metadata import Metadata, unversioned


class FederationForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class Federation(Struct):
    """A Federation as it came; its spec is read when that is called for."""

    metadata: Metadata
    spec: bytes
    status: bytes


def federation_of(form: FederationForm) -> Federation:
    return Federation(unversioned(form.metadata), bytes(form.spec), bytes(form.status))
