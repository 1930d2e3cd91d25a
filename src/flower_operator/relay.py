"""A way with TLS to an API that has none: one end beside the API, the other beside who asks for it.

    accept  LISTEN TARGET SECRET CERTIFICATE KEY
    connect LISTEN TARGET SECRET AUTHORITIES

It runs in pods, from Flower's own images, whose Python may be 3.10: the standard library alone. The
secret proves who connects; it and the authorities are read for each connection, for they change.
"""

import asyncio
import hmac
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

# Seconds for a peer to answer or to say who it is, and until one that just vanished is given up: as
# soon as Flower gives a ServerApp up, for one that is just slow must not be taken for it.
PATIENCE, GONE = 5, 60
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Reach = Callable[[Stream], Awaitable[Stream]]


async def accept(near: Stream, target: str, secret: str) -> Stream:
    """The API, for a peer that knows the secret."""
    expected = Path(secret).read_bytes()
    given = await asyncio.wait_for(near[0].readexactly(len(expected)), PATIENCE)
    if not expected or not hmac.compare_digest(given, expected):
        raise PermissionError("a peer does not know the secret")
    return await asyncio.open_connection(*address(target))


async def connect(target: str, secret: str, authorities: str) -> Stream:
    """The other end, if it is who its certificate has to say."""
    context = secured(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authorities)
    opening = asyncio.open_connection(*address(target), ssl=context)
    reader, writer = await asyncio.wait_for(opening, PATIENCE)
    writer.write(Path(secret).read_bytes())
    return reader, writer


async def serve(listen: str, reach: Reach, context: ssl.SSLContext | None = None) -> None:
    """Until SIGTERM. Then who asks has its say until its own end; but from an API that ends too it
    is cut off: that would call off what is under way, and Flower tries again only what was lost."""
    under_way: set[asyncio.Task[None]] = set()
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(relay((reader, writer), reach))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    patience = PATIENCE if context else None
    server = await asyncio.start_server(
        take, *address(listen), ssl=context, ssl_handshake_timeout=patience
    )
    await told.wait()
    server.close()
    if under_way and not context:
        await asyncio.wait(under_way)


async def relay(near: Stream, reach: Reach) -> None:
    """Pass on both ways until either is over: TLS here knows no half of a connection."""
    writers = [near[1]]
    try:
        far = await reach(near)
        writers.append(far[1])
        watch(near[1], far[1])
        ways = [asyncio.ensure_future(pass_on(near[0], far[1]))]
        ways += [asyncio.ensure_future(pass_on(far[0], near[1]))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
    except (OSError, EOFError, asyncio.TimeoutError) as error:  # noqa: UP041 (two before 3.11)
        print(repr(error), file=sys.stderr, flush=True)
    finally:
        for writer in writers:
            writer.close()  # having sent what it still has
        for writer in writers:
            with suppress(OSError):
                await writer.wait_closed()


async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """No faster than the target takes it."""
    with suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()


def watch(*writers: asyncio.StreamWriter) -> None:
    """Notice peers that vanish without a word, with their node, say."""
    for writer in writers if sys.platform == "linux" else ():
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, GONE // 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, GONE // 4)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE * 1000)


def secured(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(role: str, listen: str, target: str, secret: str, *files: str) -> None:
    if role == "connect":
        asyncio.run(serve(listen, lambda _: connect(target, secret, *files)))
    else:
        context = secured(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)  # once, as the API's own process does it
        asyncio.run(serve(listen, lambda near: accept(near, target, secret), context))


if __name__ == "__main__":
    main(*sys.argv[1:])
