"""A Client whose requests reach a MemoryApiServer, and no network."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import msgspec

from flower_operator.kube.client import REQUEST_SECONDS, Client, Observe
from flower_operator.kube.connection import Connection
from flower_operator.kube.errors import NotLeader, Unreachable, error_of

from .requests import Fault, Refused, Request
from .server import MemoryApiServer


async def _no_token() -> None:
    return None


class MemoryClient(Client):
    """The real Client's methods, over a function call instead of HTTP."""

    def __init__(
        self,
        server: MemoryApiServer,
        manager: str,
        fence: Callable[[], float] = lambda: REQUEST_SECONDS,
        observe: Observe = lambda method, code: None,
    ) -> None:
        super().__init__(Connection("memory:", None, _no_token), manager, fence, observe)
        self._server = server
        self.cut_off = False
        """Whether nothing reaches the server any more: the process was killed."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    async def _send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        data: bytes | None = None,
        content: str | None = None,
    ) -> bytes:
        if method != "GET" and self._fence() <= 0:
            raise NotLeader
        body = msgspec.json.decode(data) if data else None
        request = self._request(method, path, parameters, body, content or "")
        fault = await self._travel(request)
        code, answer = self._server.handle(request)
        await asyncio.sleep(self._server.latency())
        if fault.lost:
            raise Unreachable("the answer was lost")
        request.code = code
        self._observe(method, code)
        encoded = msgspec.json.encode(answer)
        if code >= 400:
            raise error_of(code, encoded)
        return encoded

    @asynccontextmanager
    async def watch(
        self, path: str, calm: float = 0.0, **parameters: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        request = self._request("GET", path, parameters, None, "")
        await self._travel(request)
        try:
            yield self._server.watch(path, parameters)
        except Refused as refused:
            raise error_of(refused.code, msgspec.json.encode(refused.status)) from None

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        body: object,
        content: str,
    ) -> Request:
        if self.cut_off:
            raise Unreachable("this process was killed")
        time = asyncio.get_running_loop().time()
        request = Request(method, path, self._manager, parameters, body, content, time)
        self._server.requests.append(request)
        return request

    async def _travel(self, request: Request) -> Fault:
        """On the way to the server. Raises the error that a fault answers with."""
        fault = self._server.fault(request) or Fault()
        await asyncio.sleep(self._server.latency() + fault.seconds)
        if fault.code:
            request.code = fault.code
            self._observe(request.method, fault.code)
            message = f"a fault of the test: {fault.code}"
            raise error_of(fault.code, msgspec.json.encode({"message": message}))
        return fault
