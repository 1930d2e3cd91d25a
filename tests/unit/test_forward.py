"""A forwarded port, with a server on this machine in place of the API server and the pod."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from flower_operator.kube.client import Client
from flower_operator.kube.connection import Connection
from flower_operator.kube.errors import ApiError, Unreachable
from flower_operator.kube.forward import forward
from tests.harness.kubelet import forward_port

POD_PORT = 9093
FEW_SECONDS = 5.0


async def nobody() -> None:
    return None


@asynccontextmanager
async def cluster(
    ports: dict[int, int], refusal: web.Response | None = None
) -> AsyncIterator[Client]:
    """A client of an API server whose pod `link` has these ports."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if refusal:
            return refusal.__class__(status=refusal.status, body=refusal.body)
        assert request.path == "/api/v1/namespaces/team/pods/link/portforward"
        return await forward_port(request, int(request.query["ports"]), ports)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        async with Client(Connection(f"http://127.0.0.1:{port}", None, nobody), "test") as client:
            yield client
    finally:
        await runner.cleanup()


@asynccontextmanager
async def pod(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each line comes back louder."""
    while line := await reader.readline():
        writer.write(line.upper())
    writer.close()


async def ask(port: int, line: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(line)
    answer = await asyncio.wait_for(reader.readline(), FEW_SECONDS)
    writer.close()
    return answer


def test_several_connections_at_once_and_one_after_the_other() -> None:
    async def exchange() -> None:
        async with (
            pod(shout) as target,
            cluster({POD_PORT: target}) as client,
            forward(client, "team", "link", POD_PORT) as port,
        ):
            lines = [b"line %d\n" % number for number in range(5)]
            answers = await asyncio.gather(*(ask(port, line) for line in lines))
            assert answers == [line.upper() for line in lines]
            assert await ask(port, b"again\n") == b"AGAIN\n"

    asyncio.run(exchange())


def test_much_comes_whole_and_the_pods_end_is_passed_on() -> None:
    content = bytes(range(256)) * 8192

    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(content)) == content
        writer.write(content[::-1])
        writer.close()

    async def exchange() -> bytes:
        async with (
            pod(give) as target,
            cluster({POD_PORT: target}) as client,
            forward(client, "team", "link", POD_PORT) as port,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(content)
            return await asyncio.wait_for(reader.read(), FEW_SECONDS)

    assert asyncio.run(exchange()) == content[::-1]


def test_the_end_of_a_connection_reaches_the_pod() -> None:
    ended = asyncio.Event()

    async def wait_for_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read() == b"bye":
            ended.set()
        writer.close()

    async def exchange() -> None:
        async with (
            pod(wait_for_the_end) as target,
            cluster({POD_PORT: target}) as client,
            forward(client, "team", "link", POD_PORT) as port,
        ):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"bye")
            writer.close()
            await asyncio.wait_for(ended.wait(), FEW_SECONDS)

    asyncio.run(exchange())


def test_why_a_connection_fails_is_told_and_the_next_one_works() -> None:
    told: list[str] = []

    async def exchange() -> None:
        ports: dict[int, int] = {}
        async with (
            pod(shout) as target,
            cluster(ports) as client,
            forward(client, "team", "link", POD_PORT, told.append) as port,
        ):
            assert await ask(port, b"hello\n") == b""
            ports[POD_PORT] = target
            assert await ask(port, b"hello\n") == b"HELLO\n"

    asyncio.run(exchange())
    (words,) = told
    assert words.startswith("port 9093 of pod link: error forwarding port 9093")


def test_nothing_listens_after_the_block() -> None:
    async def exchange() -> None:
        async with pod(shout) as target, cluster({POD_PORT: target}) as client:
            async with forward(client, "team", "link", POD_PORT) as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"hello\n")
                assert await asyncio.wait_for(reader.readline(), FEW_SECONDS) == b"HELLO\n"
            assert await asyncio.wait_for(reader.read(), FEW_SECONDS) == b""
            with pytest.raises(OSError, match="Connect call failed"):
                await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(exchange())


def test_a_refusal_comes_before_the_first_connection_in_the_servers_words() -> None:
    words = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"you cannot create"}'

    async def exchange() -> None:
        refusal = web.Response(status=403, body=words)
        async with cluster({}, refusal) as client, forward(client, "team", "link", POD_PORT):
            pass

    with pytest.raises(ApiError, match="you cannot create") as caught:
        asyncio.run(exchange())
    assert caught.value.code == 403


def test_no_api_server_is_told_before_the_first_connection() -> None:
    async def exchange() -> None:
        connection = Connection("http://127.0.0.1:1", None, nobody)
        async with (
            Client(connection, "test") as client,
            forward(client, "team", "link", POD_PORT),
        ):
            pass

    with pytest.raises(Unreachable):
        asyncio.run(exchange())
