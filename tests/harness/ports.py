"""Ports for servers of the tests."""

import os
import random

from flower_operator.local.ports import is_free

# Below those that systems give to outgoing connections, and beside those of local Federations.
# Tests that run side by side have ports of their own.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_ports = list(range(10000 + _worker, 20000, _workers))
random.shuffle(_ports)


def free_port() -> int:
    """One that nothing listens on, and that was not given to anyone else before."""
    while not is_free(port := _ports.pop()):
        pass
    return port
