"""A small HTTPS client for servers on this machine."""

import http.client
import json
import select
import ssl
import threading
from collections.abc import Mapping
from typing import Any, Self

LOOPBACK = "127.0.0.1"


class HttpsClient:
    """Sends requests over one kept-alive connection; threads take turns.

    The given PEM certificates are the only ones trusted.
    """

    def __init__(
        self, port: int, certificates: str, token: str, timeout: float, host: str = LOOPBACK
    ) -> None:
        self._connection = http.client.HTTPSConnection(
            host,
            port,
            context=ssl.create_default_context(cadata=certificates),
            timeout=timeout,
        )
        self._token = token
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._connection.close()

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send body as JSON; return the status and the answer, decoded if it is JSON, else text."""
        payload = None if body is None else json.dumps(body).encode()
        with self._turn:
            self._close_if_stale()
            try:
                self._connection.request(method, path, payload, self._headers(method, headers))
                response = self._connection.getresponse()
                answer = response.read().decode()
            except BaseException:
                # A connection left in the middle of an exchange cannot be used again.
                self._connection.close()
                raise
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(answer) if is_json else answer

    def _headers(self, method: str, headers: Mapping[str, str] | None) -> dict[str, str]:
        content_type = "merge-patch+json" if method == "PATCH" else "json"
        return {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": f"application/{content_type}",
            **(headers or {}),
        }

    def _close_if_stale(self) -> None:
        # Nothing is to be read between two exchanges unless the server has closed its end.
        if self._connection.sock is not None:
            poll = select.poll()
            poll.register(self._connection.sock, select.POLLIN)
            if poll.poll(0):
                self._connection.close()
