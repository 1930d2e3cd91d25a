"""Talks to a running SuperLink over its Control API."""

import asyncio
import ssl

import httpx

from ..flower.control import ONLINE, Call, list_nodes, read_nodes
from ..flower.dialects import Dialect

MOST_BYTES = 8 << 20


class Unreachable(RuntimeError):
    """The SuperLink did not answer, or not sensibly."""


class ControlClient:
    """One SuperLink's Control API, in its release's dialect."""

    def __init__(
        self,
        dialect: Dialect,
        address: str,
        timeout: float = 5.0,
        root_certificates: str | None = None,
    ) -> None:
        """`root_certificates`: the PEM text of all that is trusted; None for no TLS. Raises
        Unreachable if it is no such text."""
        if root_certificates is None:
            # Given one, httpx does not load every CA of the world for nothing.
            scheme, verify = "http", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            scheme, verify = "https", _trusting(root_certificates)
        self._dialect = dialect
        self._timeout = timeout
        grpc = dialect.control.transport == "gRPC"
        # gRPC is HTTP/2 from the first byte, without an upgrade. The SuperLink is near:
        # proxies of the environment are not for it.
        self._client = httpx.AsyncClient(
            base_url=f"{scheme}://{address}",
            verify=verify,
            http1=not grpc,
            http2=grpc,
            timeout=timeout,
            trust_env=False,
        )

    async def connected(self) -> int:
        """How many SuperNodes are online by the SuperLink's own account."""
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._ask(list_nodes(self._dialect))
            return read_nodes(self._dialect, answer).count(ONLINE)
        except (httpx.HTTPError, TimeoutError, ValueError) as error:
            raise Unreachable(str(error) or type(error).__name__) from None

    async def _ask(self, call: Call) -> bytes:
        """The answer, if it has an end: whose image the SuperLink runs is not known here."""
        stream = self._client.stream("POST", call.path, headers=call.headers, content=call.body)
        body = b""
        async with stream as answer:
            answer.raise_for_status()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ValueError("the SuperLink's answer does not end")
        return body

    async def close(self) -> None:
        await self._client.aclose()


def _trusting(root_certificates: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=root_certificates)
    except (ssl.SSLError, ValueError):
        raise Unreachable("its root certificates are not PEM") from None
    return context
