"""A port of a pod, reached through the API server: no route to the pod is needed."""

import asyncio
import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import aiohttp

from .client import Client
from .errors import ApiError, Unreachable
from .resources import POD

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
# Each channel begins with the number of the pod's port.
PREAMBLE_BYTES = 2
MOST_BYTES = 1 << 16


@asynccontextmanager
async def forward(
    client: Client,
    namespace: str,
    pod: str,
    port: int,
    tell: Callable[[str], None] = log.warning,
) -> AsyncIterator[int]:
    """A free port of this machine that leads to the pod's port until the block ends.

    Raises ApiError or Unreachable if that is not allowed or there is no such pod. `tell` hears
    why a later connection could not be made.
    """
    tunnels = _Tunnels(client, namespace, pod, port, tell)
    async with tunnels.open():  # the first connection would be too late to find out
        pass
    server = await asyncio.start_server(tunnels.serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await tunnels.close()


class _Tunnels:
    """A WebSocket for each connection: the protocol has no way to tell several apart."""

    def __init__(
        self, client: Client, namespace: str, pod: str, port: int, tell: Callable[[str], None]
    ) -> None:
        self._client = client
        self._path = f"{POD.path(namespace, pod)}/portforward"
        self._port = port
        self._what = f"port {port} of pod {pod}"
        self._tell = tell
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with self._client.websocket(self._path, PROTOCOL, ports=str(self._port)) as tunnel:
            yield tunnel

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._serving.add(task)
        try:
            async with self.open() as tunnel:
                await self._carry(reader, writer, tunnel)
        except (ApiError, Unreachable) as error:
            self._tell(f"{self._what}: {error}")
        finally:
            self._serving.discard(task)
            writer.close()

    async def _carry(
        self, reader: StreamReader, writer: StreamWriter, tunnel: aiohttp.ClientWebSocketResponse
    ) -> None:
        """Both ways, until either side ends: the protocol cannot say that only one has."""
        ways = {
            asyncio.create_task(_send(reader, tunnel)),
            asyncio.create_task(self._receive(tunnel, writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _receive(self, tunnel: aiohttp.ClientWebSocketResponse, writer: StreamWriter) -> None:
        due = {DATA: PREAMBLE_BYTES, ERROR: PREAMBLE_BYTES}
        words = b""
        async for message in tunnel:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                break
            channel, data = message.data[0], message.data[1:]
            skipped = min(due.get(channel, 0), len(data))
            if skipped:
                due[channel] -= skipped
            if channel == ERROR:
                words += data[skipped:]
            elif channel == DATA and data[skipped:]:
                writer.write(data[skipped:])
                with suppress(OSError):  # whoever hung up is found out by _send
                    await writer.drain()
        if words:
            self._tell(f"{self._what}: {words.decode(errors='replace')}")


async def _send(reader: StreamReader, tunnel: aiohttp.ClientWebSocketResponse) -> None:
    with suppress(OSError):  # the same as an end
        while data := await reader.read(MOST_BYTES):
            await tunnel.send_bytes(bytes([DATA]) + data)
