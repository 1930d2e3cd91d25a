"""Ports for servers of the tests."""

import random

from flower_operator.local.ports import is_free, reservations

# Below those that systems give to outgoing connections, and apart from those of local Federations.
_ports = list(range(10000, 20000))
random.shuffle(_ports)


def free_port() -> int:
    """A port that nothing listens on and that no other test process has been given."""
    while not (is_free(port := _ports.pop()) and reservations.reserve(port)):
        pass
    return port
