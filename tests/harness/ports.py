"""Ports for servers of the tests."""

import random
import socket

from .https_client import LOOPBACK

# Below those that systems give to outgoing connections, which could take one before it is used.
_FIRST, _LAST = 10000, 19999


def free_port() -> int:
    while True:
        port = random.randint(_FIRST, _LAST)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
