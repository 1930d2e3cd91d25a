"""What kind of cluster this is."""

import asyncio
import logging

import msgspec

from ..kube.client import Client
from ..kube.errors import ApiError, Unreachable

log = logging.getLogger(__name__)

# What gives pods their users on OpenShift is in it, and nothing else brings it along.
OPENSHIFT_GROUP = "security.openshift.io"
PAUSE = 1.0


async def api_groups(client: Client) -> set[str]:
    """What the server can do, by name; asked again until it answers."""
    while True:
        try:
            answer = await client.get("/apis")
        except (ApiError, Unreachable) as error:
            log.warning("cannot list API groups", extra={"error": str(error)})
            await asyncio.sleep(PAUSE)
        else:
            return {group.name for group in msgspec.json.decode(answer, type=_Groups).groups}


class _Group(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    groups: list[_Group]
