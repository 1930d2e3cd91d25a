"""Talks to a running SuperLink over its Control API."""

import httpx

from ..flower.control import ONLINE, list_nodes, read_nodes
from ..flower.dialects import Dialect


class Unreachable(RuntimeError):
    """The SuperLink did not answer, or not sensibly."""


class ControlClient:
    """One SuperLink's Control API, in its release's dialect."""

    def __init__(self, dialect: Dialect, address: str, timeout: float = 5.0) -> None:
        self._dialect = dialect
        grpc = dialect.control.transport == "gRPC"
        # gRPC is HTTP/2 from the first byte, without an upgrade. The SuperLink is near:
        # proxies of the environment are not for it.
        self._client = httpx.AsyncClient(
            base_url=f"http://{address}",
            http1=not grpc,
            http2=grpc,
            timeout=timeout,
            trust_env=False,
        )

    async def connected(self) -> int:
        """How many SuperNodes are online by the SuperLink's own account."""
        call = list_nodes(self._dialect)
        try:
            answer = await self._client.post(call.path, headers=call.headers, content=call.body)
            answer.raise_for_status()
            return read_nodes(self._dialect, answer.content).count(ONLINE)
        except (httpx.HTTPError, ValueError) as error:
            raise Unreachable(str(error) or type(error).__name__) from None

    async def close(self) -> None:
        await self._client.aclose()
