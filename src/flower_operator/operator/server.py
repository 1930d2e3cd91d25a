"""What others may ask the operator: is it well (HTTP), and how much does it do (HTTPS)."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from ..kube.client import Client
from ..kube.errors import ApiError, Unreachable
from ..kube.resources import ACCESS_REVIEW, TOKEN_REVIEW
from ..kube.reviews import access_review, allowed, token_review, user_of
from .certificate import load_new_certificate

PATH = "/metrics"


@asynccontextmanager
async def health_server(address: str, ready: Callable[[], bool]) -> AsyncIterator[None]:
    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(request: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="not everything has been read from the API server yet")

    async with _served(address, {"/healthz": healthz, "/readyz": readyz}, None):
        yield


@asynccontextmanager
async def metrics_server(
    address: str, client: Client, text: Callable[[], bytes]
) -> AsyncIterator[None]:
    async def metrics(request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            return web.Response(status=401, text="a bearer token is needed")
        try:
            code, reason = await _judge(client, token)
        except (ApiError, Unreachable) as error:
            return web.Response(status=503, text=f"the caller cannot be checked: {error}")
        if code != 200:
            return web.Response(status=code, text=reason)
        return web.Response(body=text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    await load_new_certificate(tls)
    async with _served(address, {PATH: metrics}, tls):
        yield


async def _judge(client: Client, token: str) -> tuple[int, str]:
    review = await client.create(TOKEN_REVIEW, None, token_review(token))
    user = user_of(msgspec.json.decode(review))
    if user is None:
        return 401, "this token is not known to the cluster"
    review = await client.create(ACCESS_REVIEW, None, access_review(user, "get", PATH))
    if not allowed(msgspec.json.decode(review)):
        return 403, f"{user.get('username')} may not get {PATH}"
    return 200, ""


Handler = Callable[[web.Request], "web.Response | object"]


@asynccontextmanager
async def _served(
    address: str, handlers: dict[str, Handler], tls: ssl.SSLContext | None
) -> AsyncIterator[None]:
    host, _, port = address.rpartition(":")
    application = web.Application()
    for path, handler in handlers.items():
        application.router.add_get(path, handler)  # type: ignore[arg-type]
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host.strip("[]") or None, int(port), ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            raise OSError(f"cannot listen on {address}: {error.strerror or error}") from None
        yield
    finally:
        await runner.cleanup()
