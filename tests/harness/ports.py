"""Ports for servers of the tests."""

import random

from flower_operator.local.ports import is_free

# Below those that systems give to outgoing connections, and beside those of local Federations.
_ports = list(range(10000, 20000))
random.shuffle(_ports)


def free_port() -> int:
    """One that nothing listens on, and that was not given to anyone else before."""
    while not is_free(port := _ports.pop()):
        pass
    return port
