"""Requests and answers byte by byte, as a server on this machine gives them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flower_operator.kube import exchange as module
from flower_operator.kube.exchange import Answer, Ended, Exchange

FEW_SECONDS = 10.0
FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
END = None
"""In place of an answer: the server ends the connection."""

Script = list[bytes | None]


class Server:
    """Answers the requests on its connections by scripts, one for each connection."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self.scripts[self.connections]
        self.connections += 1
        try:
            for answer in script:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _length(head)
                self.requests.append(head + await reader.readexactly(length))
                if answer is END:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        writer.close()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


@asynccontextmanager
async def serving(
    *scripts: Script, prefix: str = "", user: str = ""
) -> AsyncIterator[tuple[Server, Exchange]]:
    own = Server(*scripts)
    server = await asyncio.start_server(own.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    exchange = Exchange(f"http://{user}127.0.0.1:{port}{prefix}", None, {"Accept": "*/*"})
    try:
        yield own, exchange
    finally:
        exchange.close()
        server.close()


def get(exchange: Exchange, path: str = "/things") -> Coroutine[Any, Any, Answer]:
    return exchange.send("GET", path, {}, {}, None)


def post(exchange: Exchange) -> Coroutine[Any, Any, Answer]:
    return exchange.send("POST", "/things", {}, {"Content-Type": "application/json"}, b"{}")


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(FEW_SECONDS):
            await scenario()

    asyncio.run(limited())


def answer_to(*script: bytes | None) -> Answer:
    """To a GET."""
    found: list[Answer] = []

    async def scenario() -> None:
        async with serving(list(script)) as (_, exchange):
            found.append(await get(exchange))

    run(scenario)
    return found[0]


def test_a_request_as_it_is_sent() -> None:
    async def scenario() -> None:
        async with serving([FINE], prefix="/k8s/clusters/c-1/") as (server, exchange):
            query, headers = {"force": "true", "labelSelector": "a=b,c!=d e"}, {"X-Own": "1"}
            await exchange.send("PATCH", "/things/one", query, headers, b"{}")
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        target = "/k8s/clusters/c-1/things/one?force=true&labelSelector=a%3Db%2Cc%21%3Dd+e"
        assert first == f"PATCH {target} HTTP/1.1"
        sent = dict(line.split(": ", 1) for line in lines)
        assert sent.pop("Host").startswith("127.0.0.1:")
        assert sent == {"Accept": "*/*", "X-Own": "1", "Content-Length": "2"}
        assert body == b"{}"

    run(scenario)


def test_a_password_in_the_address_is_not_sent() -> None:
    async def scenario() -> None:
        async with serving([FINE], user="me:secret@") as (server, exchange):
            await get(exchange)
        assert b"secret" not in server.requests[0]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/a b", b"/a%20b"),
        ("/a\r\nX-Evil: 1", b"/a%0D%0AX-Evil:%201"),
        ("/a?b#c", b"/a%3Fb%23c"),
        ("/föderation", b"/f%C3%B6deration"),
        ("/roles/system:node", b"/roles/system:node"),
    ],
)
def test_a_name_stays_a_name_whatever_is_in_it(path: str, sent: bytes) -> None:
    async def scenario() -> None:
        async with serving([FINE]) as (server, exchange):
            await get(exchange, path)
        assert server.requests[0].startswith(b"GET " + sent + b" HTTP/1.1\r\n")

    run(scenario)


def test_a_line_break_in_a_header_is_not_sent() -> None:
    async def scenario() -> None:
        async with serving([FINE]) as (server, exchange):
            with pytest.raises(ConnectionError, match="line break"):
                await exchange.send(
                    "GET", "/", {}, {"Authorization": "Bearer a\r\nX-Evil: 1"}, None
                )
            assert server.requests == []

    run(scenario)


CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "code", "body"),
    [
        (FINE, 200, b"fine"),
        (CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 201, b"abcde"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.0 200 OK\r\n\r\nto the end", 200, b"to the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + FINE, 200, b"fine"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + FINE, 200, b"fine"),
    ],
    ids=["of a length", "in chunks", "empty", "to the end", "continue", "hints"],
)
def test_an_answer_has_one_of_many_forms(text: bytes, code: int, body: bytes) -> None:
    answer = answer_to(text)
    assert (answer.code, answer.body) == (code, body)


def test_headers_are_found_however_they_are_written() -> None:
    answer = answer_to(b"HTTP/1.1 429 Slow\r\nRETRY-After: 7\r\nContent-Length: 0\r\n\r\n")
    assert answer.headers[b"retry-after"] == b"7"


def test_a_server_that_does_not_shake_hands_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.05)

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(never, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        exchange = Exchange(f"https://127.0.0.1:{port}", ssl.create_default_context(), {})
        with pytest.raises(TimeoutError, match=r"no connection within 0\.05 s"):
            await get(exchange)
        server.close()

    run(scenario)


def test_a_connection_is_used_again() -> None:
    async def scenario() -> None:
        async with serving([FINE, FINE, FINE]) as (server, exchange):
            for _ in range(3):
                assert (await post(exchange)).body == b"fine"
            assert server.connections == 1

    run(scenario)


def test_two_requests_at_once_have_a_connection_each() -> None:
    async def scenario() -> None:
        async with serving([FINE], [FINE]) as (server, exchange):
            await asyncio.gather(get(exchange), get(exchange))
            assert server.connections == 2

    run(scenario)


@pytest.mark.parametrize(
    "last",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast",
        b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nlast",
    ],
)
def test_a_server_may_want_no_further_request(last: bytes) -> None:
    async def scenario() -> None:
        async with serving([last, FINE], [FINE]) as (server, exchange):
            assert (await get(exchange)).body == b"last"
            assert (await get(exchange)).body == b"fine"
            assert server.connections == 2

    run(scenario)


def test_a_connection_that_was_kept_for_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.0)

    async def scenario() -> None:
        async with serving([FINE, FINE], [FINE]) as (server, exchange):
            await post(exchange)
            await post(exchange)
            assert server.connections == 2

    run(scenario)


def test_a_read_is_repeated_if_a_kept_connection_has_ended() -> None:
    async def scenario() -> None:
        async with serving([FINE, END], [FINE]) as (server, exchange):
            await get(exchange)
            assert (await get(exchange)).body == b"fine"
            assert server.connections == 2

    run(scenario)


def test_a_creation_is_not_repeated() -> None:
    """The server may have done it before it went away."""

    async def scenario() -> None:
        async with serving([FINE, END], [FINE]) as (server, exchange):
            await get(exchange)
            with pytest.raises(Ended):
                await post(exchange)
            assert server.connections == 1

    run(scenario)


def test_nothing_is_repeated_on_a_new_connection() -> None:
    async def scenario() -> None:
        async with serving([END], [FINE]) as (server, exchange):
            with pytest.raises(Ended):
                await get(exchange)
            assert server.connections == 1

    run(scenario)


@pytest.mark.parametrize(
    "half",
    [
        FINE[:-1],
        CHUNKED + b"3\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids=["of a length", "in chunks", "a header", "the promise of one"],
)
def test_half_an_answer_is_none(half: bytes) -> None:
    async def scenario() -> None:
        async with serving([FINE, half, END], [FINE]) as (server, exchange):
            await get(exchange)
            asking = asyncio.create_task(get(exchange))
            while len(server.requests) < 2:
                await asyncio.sleep(0.001)
            # The server waits for a request that never comes; it is the client that gives up.
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert (await get(exchange)).body == b"fine"
            assert server.connections == 2
        async with serving([half]) as (_, exchange):
            with pytest.raises(ConnectionError, match="within its answer"):
                await get(exchange)

    run(scenario)


def test_an_answer_that_is_no_http_is_told_as_such() -> None:
    with pytest.raises(ConnectionError, match="makes no sense"):
        answer_to(b"SSH-2.0-OpenSSH_9.6\r\n")


def test_what_nobody_asked_for_ends_the_connection() -> None:
    """Else it would be taken for the answer to the next request."""

    async def scenario() -> None:
        twice = FINE + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
        async with serving([twice, FINE], [FINE]) as (server, exchange):
            assert (await get(exchange)).body == b"fine"
            assert (await get(exchange)).body == b"fine"
            assert server.connections == 2

    run(scenario)


def test_an_answer_may_be_large_and_come_in_pieces() -> None:
    async def scenario() -> None:
        body = b"x" * 3_000_000
        text = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        async with serving([text]) as (_, exchange):
            assert (await get(exchange)).body == body

    run(scenario)
