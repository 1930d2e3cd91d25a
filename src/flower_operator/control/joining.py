"""Keys for SuperNodes of another cluster: made here, and made known to the SuperLink."""

from contextlib import suppress
from datetime import UTC, datetime

from ..trust.keys import changed_keyring, decide_keys, read_keyring
from ..trust.layout import Files
from . import ControlClient, ControlError


async def make_keys(client: ControlClient, cluster: str, replicas: int) -> Files:
    """A new keyring, all of whose keys are registered. Raises ControlError, and then none is."""
    from ..trust.certificates import make_key_pair

    now = datetime.now(UTC)
    decision = decide_keys({}, [str(each) for each in range(replicas)], now)
    pairs = {name: make_key_pair() for name in decision.make}
    files = changed_keyring({}, decision, pairs, now)
    ring = read_keyring(files)
    assert ring
    registered: list[int] = []
    try:
        for name, public in ring.keys.items():
            registered.append(await client.register(public.encode(), f"{cluster}-{name}"))
    except ControlError:
        for node_id in registered:
            with suppress(ControlError):
                await client.unregister(node_id)
        raise
    return files
