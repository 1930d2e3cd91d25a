"""Requests to the API server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from .connection import Connection, ConnectionFault
from .errors import ApiError, NotLeader, Unreachable, error_of
from .exchange import CONNECT_SECONDS, Exchange
from .resources import Resource

REQUEST_SECONDS = 30.0
# The server sends a bookmark a minute on most watches that have nothing else to say, and the others
# end before that.
IDLE_SECONDS = 150.0

APPLY = "application/apply-patch+yaml"  # JSON is YAML, and quicker to write
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
# A kubelet, which answers for logs, speaks no JSON there.
ACCEPT = f"{JSON}, */*"
MERGE_PATCH = "application/merge-patch+json"

# A calm watch waits for so many lines, and for no more bytes than fit into the buffer of a socket:
# behind a full one the server waits, and it ends a watch that falls behind.
MANY = 5
MUCH = 1 << 17

# Of an object that exists no version is this old, so an apply that names it can only create.
NEVER = "1"

Observe = Callable[[str, int], None]


class Client:
    """One API server. Writes pass `fence`, which says for how many seconds they are allowed."""

    def __init__(
        self,
        connection: Connection,
        manager: str,
        fence: Callable[[], float] = lambda: REQUEST_SECONDS,
        observe: Observe = lambda method, code: None,
    ) -> None:
        self._connection = connection
        self._manager = manager
        self._fence = fence
        self._observe = observe

    async def __aenter__(self) -> Self:
        # Packing and unpacking lists costs both sides more than the wire does.
        headers = {"Accept": ACCEPT, "Accept-Encoding": "identity", "User-Agent": self._manager}
        self._exchange = Exchange(self._connection.server, self._connection.tls, headers)
        self._session = aiohttp.ClientSession(
            # Each watch of each namespace has a connection: however many there are.
            connector=aiohttp.TCPConnector(ssl=self._connection.tls or False, limit=0),
            headers=headers,
            skip_auto_headers=["Content-Type"],
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exchange.close()
        await self._session.close()

    async def get(self, path: str, **parameters: str) -> bytes:
        return await self._send("GET", path, parameters)

    async def create(self, resource: Resource, namespace: str | None, body: object) -> bytes:
        return await self._write("POST", resource.path(namespace), body, JSON)

    async def replace(self, resource: Resource, body: Mapping[str, Any]) -> bytes:
        """Put an object in place of the version that it names, unless that has changed."""
        metadata = body["metadata"]
        path = resource.path(metadata["namespace"], metadata["name"])
        return await self._write("PUT", path, body, JSON)

    async def apply(self, resource: Resource, body: Mapping[str, Any]) -> bytes:
        """Server-side apply. With `uid` in its metadata no other object can be meant."""
        metadata = body["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"])
        # To look for unknown fields the server would parse it all a second time, and tell nobody.
        return await self._write("PATCH", path, body, APPLY, force="true", fieldValidation="Ignore")

    async def apply_new(self, resource: Resource, body: Mapping[str, Any]) -> bytes:
        """Server-side apply that creates, and is refused (409) if the name is taken."""
        new = {**body, "metadata": {**body["metadata"], "resourceVersion": NEVER}}
        return await self.apply(resource, new)

    async def patch(
        self, resource: Resource, namespace: str, name: str, changes: Mapping[str, Any]
    ) -> bytes:
        """Change the fields that are named, and no others."""
        return await self._write("PATCH", resource.path(namespace, name), changes, MERGE_PATCH)

    async def patch_status(
        self, resource: Resource, namespace: str, name: str, uid: str, status: object
    ) -> bytes:
        """Replace the status of exactly this object, not of a namesake that came after it."""
        path = f"{resource.path(namespace, name)}/status"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        return await self._write("PATCH", path, patch, JSON_PATCH)

    async def patch_managers(self, path: str, version: str, entries: object) -> bytes:
        """Say anew who owns the fields of an object, unless that has changed."""
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        ]
        return await self._write("PATCH", path, patch, JSON_PATCH)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        uid: str | None,
        propagation: str,
    ) -> bytes:
        """Delete exactly this object; without a uid, whichever has the name."""
        body: dict[str, Any] = {"propagationPolicy": propagation}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        return await self._write("DELETE", resource.path(namespace, name), body, JSON)

    @asynccontextmanager
    async def watch(
        self, path: str, calm: float = 0.0, **parameters: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of a watch, for as long as the server keeps it open; with `calm`, those of
        up to so many seconds at a time, which costs a fraction of reading each as it comes."""
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS)
        token = await self._token()
        async with self._answer("GET", path, parameters, _headers(token), timeout) as answer:
            yield _lines(answer, calm)

    @asynccontextmanager
    async def stream(self, path: str, **parameters: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """An answer in the pieces in which it comes; it may be silent for as long as it likes."""
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)
        token = await self._token()
        async with self._answer("GET", path, parameters, _headers(token), timeout) as answer:
            yield answer.content.iter_any()

    @asynccontextmanager
    async def websocket(
        self, path: str, protocol: str, **parameters: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        token = await self._token()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                socket = await self._session.ws_connect(
                    self._connection.server + path,
                    params=parameters,
                    protocols=[protocol],
                    headers=_headers(token),
                    proxy=self._connection.proxy,
                    max_msg_size=0,
                )
        except aiohttp.WSServerHandshakeError as error:
            raise await self._refusal(path, parameters, error.status) from None
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        async with socket:
            yield socket

    async def _refusal(self, path: str, parameters: Mapping[str, str], code: int) -> ApiError:
        """Why there was no WebSocket: what a handshake is answered with is lost, so ask plainly."""
        try:
            await self._send("GET", path, parameters)
        except ApiError as error:
            if error.code == code:
                return error
        except Unreachable:
            pass
        return error_of(code, b"")

    async def _token(self) -> str | None:
        try:
            return await self._connection.token()
        except (ConnectionFault, OSError) as error:
            raise Unreachable(f"no credentials: {error}") from error

    async def _write(
        self, method: str, path: str, body: object, content: str, **parameters: str
    ) -> bytes:
        parameters = {"fieldManager": self._manager, **parameters} if method != "DELETE" else {}
        data = msgspec.json.encode(body)
        if content == APPLY:  # a parser of YAML keeps the line that it is in at hand: short ones
            data = msgspec.json.format(data, indent=1)
        return await self._send(method, path, parameters, data, content)

    async def _send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        data: bytes | None = None,
        content: str | None = None,
    ) -> bytes:
        token = await self._token()
        seconds = REQUEST_SECONDS
        if method != "GET":  # asked at the last moment: a token may have taken its time
            seconds = min(self._fence(), REQUEST_SECONDS)
            if seconds <= 0:
                raise NotLeader
        headers = _headers(token, content)
        if self._connection.proxy:
            timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
            async with self._answer(method, path, parameters, headers, timeout, data) as proxied:
                return await proxied.read()
        code = 0
        try:
            async with asyncio.timeout(seconds):
                answer = await self._exchange.send(method, path, parameters, headers, data)
            code = answer.code
        except OSError as error:  # a TimeoutError is one
            raise Unreachable(str(error) or f"no answer within {seconds:.2g} s") from error
        finally:
            self._observe(method, code)
        if code >= 400:
            raise error_of(code, answer.body, answer.headers.get(b"retry-after", b"").decode())
        return answer.body

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The server's answer if it is a good one; its error, or Unreachable, if not."""
        code = 0
        try:
            async with self._session.request(
                method,
                self._connection.server + path,
                params=parameters,
                data=data,
                headers=headers,
                timeout=timeout,
                proxy=self._connection.proxy,
            ) as answer:
                code = answer.status
                if code >= 400:
                    retry = answer.headers.get("Retry-After", "")
                    raise error_of(code, await answer.read(), retry)
                yield answer
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        finally:
            self._observe(method, code)


def _headers(token: str | None, content: str | None = None) -> dict[str, str]:
    headers = {"Content-Type": content} if content else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


async def _lines(answer: aiohttp.ClientResponse, calm: float) -> AsyncIterator[bytes]:
    """Whole lines of whatever length."""
    rest, came, count = b"", 0, 0
    async for chunk in answer.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        for line in lines:
            if line:
                yield line
        came, count = came + len(chunk), count + len(lines)
        if calm and len(chunk) < MUCH:
            await _keep_calm(answer, calm * calmness(count, came))
            came = count = 0


def calmness(lines: int, size: int) -> float:
    """How much of its calm a watch may have after so many lines of this size: little for the
    few, which somebody waits for, and little for very many, which have piled up."""
    return min(lines / MANY, MUCH / size, 1.0)


async def _keep_calm(answer: aiohttp.ClientResponse, seconds: float) -> None:
    """Let what comes gather where it costs nothing: before it is decrypted."""
    connection = answer.connection
    if connection and connection.transport:
        connection.transport.pause_reading()
        await asyncio.sleep(seconds)
        if connection.transport:
            connection.transport.resume_reading()
