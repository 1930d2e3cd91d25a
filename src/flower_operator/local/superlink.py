"""The SuperLink of a Federation that runs here: asked what it knows, told whom to let in."""

import asyncio
import contextlib
from pathlib import Path

from ..control import (
    AlreadyRegistered,
    ControlClient,
    ControlError,
    KeyRetired,
    UnknownNode,
)
from ..trust.keys import Enrolment, Registrations, enrolment_of, registrations
from .keys import Known
from .state import Desired


def connect(desired: Desired) -> ControlClient:
    trusted = desired.root_certificates
    return ControlClient(
        desired.dialect,
        desired.control,
        root_certificates=Path(trusted).read_text() if trusted else None,
    )


async def enrol(desired: Desired, client: ControlClient) -> Enrolment:
    """Register the keys that are missing and unregister those that are retired; what is then
    known. Nobody runs any more who was started with a retired key."""
    nodes = await client.nodes()
    rings = tuple((pool, ring, True) for pool, ring in desired.keyrings.items())
    plan = registrations(rings, nodes)
    if plan != Registrations():
        await _carry_out(plan, client)
        nodes = await client.nodes()
    return enrolment_of(nodes)


def ask(desired: Desired) -> Known:
    """What the SuperLink knows, if it answers."""

    async def both() -> Known:
        client = connect(desired)
        try:
            enrolment = enrolment_of(await client.nodes())
            return Known(enrolment, any(run.active for run in await client.runs()))
        finally:
            await client.close()

    try:
        return asyncio.run(both())
    except (ControlError, OSError):
        return Known()


async def _carry_out(plan: Registrations, client: ControlClient) -> None:
    # Someone else may have been faster: the next look tells.
    for key, name in plan.register:
        with contextlib.suppress(AlreadyRegistered, KeyRetired):
            await client.register(key.encode(), name)
    for node_id in plan.unregister:
        with contextlib.suppress(UnknownNode):
            await client.unregister(node_id)
