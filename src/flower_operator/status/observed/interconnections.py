"""Objects of Skupper's."""

import msgspec
from msgspec import Struct

from ...render.skupper import Grant
from ..troubles import seconds_of
from .children import Child
from .metadata import Metadata, unversioned


class _InterconnectionSpec(Struct, rename="camel"):
    redemptions_allowed: int = 1


class _InterconnectionStatus(Struct, rename="camel"):
    status: str = ""
    message: str = ""
    url: str = ""
    code: str = ""
    ca: str = ""
    redemptions: int = 0
    expiration_time: str = ""


class InterconnectionForm(Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _InterconnectionSpec = msgspec.field(default_factory=_InterconnectionSpec)
    status: _InterconnectionStatus = msgspec.field(default_factory=_InterconnectionStatus)


class Interconnection(Child):
    """An object of Skupper's."""

    kind: str
    state: str
    message: str
    grant: Grant | None = None
    """What lets other clusters link, of an AccessGrant."""
    used_up: bool = False
    """Whether as many have linked by it as may."""
    ends: float | None = None
    """When it lets nobody link any more."""


def interconnection_of(kind: str, form: InterconnectionForm) -> Interconnection:
    status = form.status
    granted = status.url and status.code and status.ca
    grant = Grant(status.url, status.code, status.ca) if granted else None
    return Interconnection(
        unversioned(form.metadata),
        b"",
        kind,
        status.status,
        status.message,
        grant,
        used_up=grant is not None and status.redemptions >= form.spec.redemptions_allowed,
        ends=_moment(status.expiration_time),
    )


def _moment(text: str) -> float | None:
    """None for what is no time: any text may stand there."""
    try:
        return seconds_of(text) or None
    except ValueError:
        return None
