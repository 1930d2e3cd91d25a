"""One request, one answer, over connections that are kept. Answers without end are aiohttp's."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

from httptools import HttpParserError, HttpResponseParser

CONNECT_SECONDS = 10.0
# A server ends a connection that nobody uses; one that is about to be ended is better not used.
KEEP_SECONDS = 15.0
# Sent once more if a connection that was kept turns out to have ended; others might be done twice.
REPEATABLE = {"GET", "PUT", "DELETE"}

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    headers: Mapping[bytes, bytes]
    """By names in lower case."""
    body: bytes


class Ended(ConnectionError):
    """The server ended the connection, and had not begun to answer."""


class Exchange:
    """All requests to one server."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        url = urlsplit(server)
        self._host = url.hostname or ""
        self._port = url.port or DEFAULT_PORTS[url.scheme]
        self._tls = tls
        self._prefix = url.path.rstrip("/")
        host = url.netloc.rpartition("@")[2]  # a name and password before it are nobody's business
        self._headers = _lines({"Host": host, **headers})
        self._idle: list[_Connection] = []

    async def send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Answer:
        """Raises OSError if there is no answer."""
        target = quote(self._prefix + path, safe="/:@!$&'()*+,;=~")
        if parameters:
            target += _query(tuple(parameters.items()))
        if body is not None:
            headers = {**headers, "Content-Length": str(len(body))}
        head = f"{method} {target} HTTP/1.1\r\n{self._headers}{_lines(headers)}\r\n"
        request = head.encode() + (body or b"")
        while kept := self._take():
            try:
                return await self._ask(kept, request)
            except Ended:
                if method not in REPEATABLE:
                    raise
        return await self._ask(await self._connect(), request)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> "_Connection | None":
        """The connection that was used last, if that was just now."""
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh:
                return connection
            connection.close()
        return None

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    _Connection, self._host, self._port, ssl=self._tls
                )
        except TimeoutError:
            raise TimeoutError(f"no connection within {CONNECT_SECONDS:.2g} s") from None
        return connection

    async def _ask(self, connection: "_Connection", request: bytes) -> Answer:
        try:
            answer = await connection.ask(request)
        except BaseException:  # also of whoever waits no longer: the answer may come yet
            connection.close()
            raise
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()
        return answer


class _Connection(asyncio.Protocol):
    """The parser tells it what is in an answer by its on_... methods."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Answer] | None = None
        self.reusable = False

    @property
    def fresh(self) -> bool:
        return self.reusable and self._loop.time() - self._used < KEEP_SECONDS

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        self._parser = HttpResponseParser(self)
        self._begun = self._unbounded = self.reusable = False
        self._answer = self._loop.create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # nobody has asked
            self.reusable = False
            self.close()
            return
        self._begun = True
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(ConnectionError(f"the server's answer makes no sense: {error}"))
            self.close()

    def on_message_begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        if self._answer is None:  # more than was asked for
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        given = self._headers
        self._unbounded = b"content-length" not in given and b"transfer-encoding" not in given

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        code = self._parser.get_status_code()
        if code < 200 or self._answer is None:  # not yet the answer, or not to a question
            self._unbounded = False
            return
        self.reusable = self._parser.should_keep_alive()
        self._used = self._loop.time()
        self._succeed(code)

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        if self._answer is None:
            return
        if self._unbounded and error is None:
            self._succeed(self._parser.get_status_code())
        elif self._begun:
            self._fail(ConnectionError("the server ended the connection within its answer"))
        else:
            self._fail(Ended("the server ended the connection without an answer"))

    def _succeed(self, code: int) -> None:
        answer, self._answer = self._answer, None
        body, self._body = b"".join(self._body), []  # kept no longer than by who asked
        if answer and not answer.done():
            answer.set_result(Answer(code, self._headers, body))

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer and not answer.done():
            answer.set_exception(error)


def _lines(headers: Mapping[str, str]) -> str:
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise ConnectionError("a line break in a header, perhaps in the token")
    return "".join(f"{line}\r\n" for line in lines)


@lru_cache(maxsize=64)  # most requests have the same few
def _query(parameters: tuple[tuple[str, str], ...]) -> str:
    return "?" + urlencode(parameters)
