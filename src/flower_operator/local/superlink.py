"""The SuperLink of a Federation that runs here: asked what it knows, told whom to let in."""

import asyncio
from pathlib import Path

from ..control import ControlClient, ControlError, enrolling
from ..trust.keys import Enrolment, enrolment_of
from .keys import Known
from .state import Desired


def connect(desired: Desired) -> ControlClient:
    trusted = desired.root_certificates
    return ControlClient(
        desired.dialect,
        desired.control,
        root_certificates=Path(trusted).read_text() if trusted else None,
        supernodes=desired.supernodes,
    )


async def enrol(desired: Desired, client: ControlClient) -> Enrolment:
    """Register the keys that are missing and unregister those that are retired; what is then
    known. Nobody runs any more who was started with a retired key."""
    roster = tuple((pool, ring, True) for pool, ring in desired.keyrings.items())
    return enrolment_of(await enrolling.enrol(client, roster))


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
