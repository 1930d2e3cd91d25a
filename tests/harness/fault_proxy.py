"""A proxy in front of an apiserver that notes all requests and, when told to, spoils some."""

import asyncio
import base64
import json
import random
import ssl
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp
import yaml
import yarl
from aiohttp import web

from .certificates import self_signed_certificate
from .https_client import LOOPBACK

_START_SECONDS = 10.0

# What a request is noted to have met.
LOST_ANSWER = "lost answer"
GONE = "gone"
GONE_EVENT = "gone event"
CUT = "cut"

_REASONS = {
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}

# These are between two neighbours, so the proxy has its own on either side.
_HOP_HEADERS = {"connection", "host", "keep-alive", "transfer-encoding", "upgrade"}


@dataclass(eq=False)
class Request:
    """A request that came to the proxy; started is by time.monotonic()."""

    method: str
    path: str
    query: str
    user_agent: str
    token: str
    started: float
    # As the client got it: None before the answer, and for ever if that was lost.
    status: int | None = None
    # One of the words above, or the status that was made up, such as "503".
    fault: str | None = None

    @property
    def is_watch(self) -> bool:
        return any(word in ("watch=true", "watch=1") for word in self.query.split("&"))


def every_request(_: Request) -> bool:
    return True


@dataclass
class Faults:
    """What to spoil. Change the attributes, or replace the whole, while the proxy runs."""

    # All that follows is for these requests only. It is asked in the thread of the proxy.
    applies_to: Callable[[Request], bool] = every_request
    # How often to answer with 409, 429, 500 or 503 instead of forwarding, such as {409: 0.1}.
    error_fractions: Mapping[int, float] = field(default_factory=dict)
    # How often to forward a request, and then hang up instead of passing on its answer.
    lost_answer_fraction: float = 0.0
    # The same for as many of the next requests that are no watches.
    lost_answers: int = 0
    # How long to hold back every answer after it has come.
    delay_seconds: float = 0.0
    # As many of the next watches are refused with status 410.
    gone_watches: int = 0
    # As many of the next watches begin well, and end with an event of code 410.
    gone_events: int = 0


class FaultProxy:
    """Serves on a port of its own for as long as a with-block lasts.

    Requests go to the server that a kubeconfig names, with the token that they bring. So the
    proxy is for clients with tokens: it cannot pass on a client certificate.
    """

    server: str

    def __init__(self, kubeconfig: Path, *, seed: int = 0) -> None:
        self.faults = Faults()
        self._target = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        self._random = random.Random(seed)
        self._requests: list[Request] = []
        self._watches: dict[Request, web.BaseRequest] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="flower-operator-proxy-")
        started: Future[int] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=[self._run(started)], daemon=True)
        self._thread.start()
        self.server = f"https://{LOOPBACK}:{started.result(_START_SECONDS)}"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._folder.cleanup()

    @property
    def requests(self) -> list[Request]:
        """All requests so far, oldest first."""
        return list(self._requests)

    @property
    def open_watches(self) -> list[Request]:
        """The watches that are being served."""
        return list(self._watches)

    def clear(self) -> None:
        """Forget the requests so far."""
        self._requests = []

    def cut_watches(self) -> int:
        """Hang up on all open watches at once, and return how many that were."""
        return asyncio.run_coroutine_threadsafe(self._cut_watches(), self._loop).result()

    def kubeconfig_from(self, kubeconfig: Path) -> Path:
        """Write a kubeconfig like the given one, but for the way to the server."""
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = {
            "server": self.server,
            "certificate-authority-data": base64.b64encode(self._certificate).decode(),
        }
        content["clusters"] = [each | {"cluster": cluster} for each in content["clusters"]]
        path = Path(self._folder.name, kubeconfig.name)
        path.write_text(json.dumps(content))
        return path

    async def _run(self, started: Future[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        try:
            async with self._serving() as port:
                started.set_result(port)
                await self._end.wait()
                await self._cut_watches()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[int]:
        key, self._certificate = self_signed_certificate("fault proxy")
        pair = Path(self._folder.name, "key-and-certificate.pem")
        pair.write_bytes(key + self._certificate)
        own_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own_context.load_cert_chain(pair)
        authority = base64.b64decode(self._target["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        # A client that hangs up ends its request at the apiserver too.
        server = web.Server(self._answer, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=0.0)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context),
            timeout=aiohttp.ClientTimeout(total=None),
            # What the client or the apiserver says passes as it is, compressed or not.
            auto_decompress=False,
            skip_auto_headers=["Accept", "Accept-Encoding", "Content-Type", "User-Agent"],
        ) as self._session:
            await runner.setup()
            try:
                await web.TCPSite(runner, LOOPBACK, 0, ssl_context=own_context).start()
                yield runner.addresses[0][1]
            finally:
                await runner.cleanup()

    async def _answer(self, incoming: web.BaseRequest) -> web.StreamResponse:
        request = _noted(incoming)
        self._requests.append(request)
        body = await incoming.read()
        delay = 0.0
        if self.faults.applies_to(request):
            request.fault = self._choose_fault(request)
            delay = self.faults.delay_seconds
        if request.fault in (None, LOST_ANSWER):
            return await self._forward(incoming, request, body, delay)
        await asyncio.sleep(delay)
        response = _made_up_answer(request.fault)
        request.status = response.status
        return response

    def _choose_fault(self, request: Request) -> str | None:
        faults = self.faults
        # Always one number, so that what befalls a request depends only on its place in the row.
        number = self._random.random()
        if request.is_watch:
            if faults.gone_watches > 0:
                faults.gone_watches -= 1
                return GONE
            if faults.gone_events > 0:
                faults.gone_events -= 1
                return GONE_EVENT
        elif faults.lost_answers > 0:
            faults.lost_answers -= 1
            return LOST_ANSWER
        for status, fraction in faults.error_fractions.items():
            if number < fraction:
                return str(status)
            number -= fraction
        return LOST_ANSWER if number < faults.lost_answer_fraction else None

    async def _forward(
        self, incoming: web.BaseRequest, request: Request, body: bytes, delay: float
    ) -> web.StreamResponse:
        try:
            async with self._session.request(
                incoming.method,
                yarl.URL(self._target["server"] + incoming.raw_path, encoded=True),
                headers=_end_to_end(incoming.headers.items()),
                data=body or None,
                allow_redirects=False,
            ) as answer:
                await asyncio.sleep(delay)
                if request.fault == LOST_ANSWER:
                    return _hang_up(incoming)
                return await self._pass_on(incoming, request, answer)
        except aiohttp.ClientError:
            # The apiserver is down, or went down; the client is to see no more than that.
            return _hang_up(incoming)

    async def _pass_on(
        self, incoming: web.BaseRequest, request: Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            status=answer.status, headers=_end_to_end(answer.headers.items())
        )
        await response.prepare(incoming)
        request.status = answer.status
        if request.is_watch:
            self._watches[request] = incoming
        try:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        finally:
            self._watches.pop(request, None)
        await response.write_eof()
        return response

    async def _cut_watches(self) -> int:
        watches = dict(self._watches)
        for request, incoming in watches.items():
            request.fault = CUT
            _hang_up(incoming)
        return len(watches)


def _noted(incoming: web.BaseRequest) -> Request:
    return Request(
        method=incoming.method,
        path=incoming.path,
        query=incoming.query_string,
        user_agent=incoming.headers.get("User-Agent", ""),
        token=incoming.headers.get("Authorization", "").removeprefix("Bearer "),
        started=time.monotonic(),
    )


def _end_to_end(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP_HEADERS]


def _hang_up(incoming: web.BaseRequest) -> web.StreamResponse:
    """Close the connection without a word; what is returned goes nowhere."""
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response()


def _made_up_answer(fault: str | None) -> web.Response:
    if fault == GONE_EVENT:
        return web.json_response({"type": "ERROR", "object": _failure(410)})
    code = 410 if fault == GONE else int(fault or 500)
    headers = {"Retry-After": "1"} if code == 429 else None
    return web.json_response(_failure(code), status=code, headers=headers)


def _failure(code: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "the test wants it so",
        "reason": _REASONS[code],
        "code": code,
    }
