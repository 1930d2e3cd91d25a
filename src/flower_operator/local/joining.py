"""Other machines join a Federation that runs here."""

import asyncio
from dataclasses import replace
from pathlib import Path

from ..api.manifest import parse
from ..api.problems import InvalidFederation
from ..api.types import Federation
from ..control import ControlError
from ..control.joining import make_keys
from ..render.joining import Joining, check_joining
from ..trust.layout import Files
from .federations import LocalError
from .state import Desired
from .superlink import connect


def join(desired: Desired, cluster: str, replicas: int) -> tuple[Federation, Joining]:
    """What is joined, and as what; keys of it are registered."""
    federation, trusted = parse(desired.manifest), desired.root_certificates
    authority = Path(trusted).read_text() if trusted else None
    joining = Joining(cluster, replicas, desired.fleet, authority)
    try:
        check_joining(federation, joining)
        if federation.spec.supernode_auth.enabled:
            joining = replace(joining, keys=asyncio.run(_keys(desired, joining)))
    except InvalidFederation as error:
        raise LocalError(f"it could not join so: {error}") from None
    except ControlError as error:
        message = f"the SuperLink of {desired.name} does not register keys: {error}"
        raise LocalError(message) from None
    return federation, joining


async def _keys(desired: Desired, joining: Joining) -> Files:
    client = connect(desired)
    try:
        return await make_keys(client, joining.cluster, joining.replicas)
    finally:
        await client.close()
