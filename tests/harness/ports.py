"""Ports for servers of the tests."""

import random

from flower_operator.local.ports import is_free

# Below those that systems give to outgoing connections, and beside those of local Federations.
_FIRST, _LAST = 10000, 19999


def free_port() -> int:
    while not is_free(port := random.randint(_FIRST, _LAST)):
        pass
    return port
