"""A kubelet for what people reach through the API server: the logs and the ports of pods.

It runs nothing: a log is what a test writes, and a pod's port leads to one of this machine.
"""

import asyncio
import ssl
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from aiohttp import WSMsgType, web

from .certificates import self_signed_certificate
from .https_client import LOOPBACK
from .ports import free_port

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_START_SECONDS = 10.0


class Kubelet:
    """Serves on a port of its own, from entering a with-block until leaving it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.ports: dict[int, int] = {}
        """Where the ports of pods lead."""
        self.requests: list[str] = []
        self._logs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._started = threading.Event()
        self._cuts = 0

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise RuntimeError("the kubelet does not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def node(self, name: str) -> dict[str, Any]:
        """The Node that leads here, for pods that tolerate its taint `test/kubelet`."""
        capacity = {"cpu": "100", "memory": "1Ti", "pods": "100"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"taints": [{"key": "test/kubelet", "effect": "NoSchedule"}]},
            "status": {
                "addresses": [{"type": "InternalIP", "address": LOOPBACK}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
                "allocatable": capacity,
                "capacity": capacity,
            },
        }

    def write(self, container: str, line: str) -> None:
        """Let a container, named POD/CONTAINER, write a line."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
        # Two lines never have the same time.
        self._logs[container].append((f"{now}{time.monotonic_ns() % 1000:03d}Z", line))

    def cut(self) -> None:
        """End every log that is being followed, as a lost connection does."""
        self._cuts += 1

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._log)
        application.router.add_get("/portForward/{namespace}/{pod}", self._forward)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, self.port, ssl_context=_tls()).start()
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _log(self, request: web.Request) -> web.StreamResponse:
        if "*/*" not in request.headers.get("Accept", "*/*"):  # a log is no JSON
            raise web.HTTPNotAcceptable
        self.requests.append(str(request.rel_url))
        own = self._logs["{pod}/{container}".format_map(request.match_info)]
        since = request.query.get("sinceTime", "")[:19]
        response = web.StreamResponse()
        await response.prepare(request)
        told, cuts = 0, self._cuts
        while True:
            for at, line in own[told:]:
                told += 1
                if at[:19] >= since:
                    await response.write(f"{at} {line}\n".encode())
            if "follow" not in request.query or self._cuts != cuts or self._stop.is_set():
                return response
            await asyncio.sleep(0.01)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(str(request.rel_url))
        return await forward_port(request, int(request.query["port"]), self.ports)


async def forward_port(
    request: web.Request, port: int, ports: Mapping[int, int]
) -> web.WebSocketResponse:
    """A container runtime's side of a forwarded port."""
    socket = web.WebSocketResponse(protocols=[_PROTOCOL])
    await socket.prepare(request)
    number = port.to_bytes(2, "little")
    await socket.send_bytes(bytes([_DATA]) + number)
    await socket.send_bytes(bytes([_ERROR]) + number)
    try:
        reader, writer = await asyncio.open_connection(LOOPBACK, ports.get(port, 1))
    except OSError as error:
        await socket.send_bytes(bytes([_ERROR]) + f"error forwarding port {port}: {error}".encode())
        return socket
    sending = asyncio.create_task(_send(reader, socket))
    with suppress(OSError):
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[0] == _DATA:
                writer.write(message.data[1:])
                await writer.drain()
    sending.cancel()
    writer.close()
    return socket


async def _send(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 15):
            await socket.send_bytes(bytes([_DATA]) + data)
    await socket.close()


def _tls() -> ssl.SSLContext:
    key, certificate = self_signed_certificate("kubelet")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pair.pem")
        file.write_bytes(certificate + key)
        tls.load_cert_chain(file)
    return tls
