"""Tells a SuperLink which SuperNodes to let in."""

from contextlib import suppress

from ..trust.keys import Registrations, Roster, registrations
from . import AlreadyRegistered, ControlClient, InvalidKey, KeyRetired, Node, UnknownNode


async def enrol(client: ControlClient, roster: Roster) -> list[Node]:
    """Register the keys that are missing and unregister those that are retired; every SuperNode
    that is then known."""
    nodes = await client.nodes()
    plan = registrations(roster, nodes)
    if plan == Registrations():
        return nodes
    # What someone else has done in between is done: the list that follows tells. A key that is none
    # keeps its own SuperNode waiting, nobody else's.
    for key, name in plan.register:
        with suppress(AlreadyRegistered, KeyRetired, InvalidKey):
            await client.register(key.encode(), name)
    for node_id in plan.unregister:
        with suppress(UnknownNode):
            await client.unregister(node_id)
    return await client.nodes()
