"""Talks to a running SuperLink over its Control API."""

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

import httpx

from ..flower.control import (
    UNREGISTERED,
    Call,
    Node,
    Refusal,
    Run,
    list_nodes,
    list_runs,
    read_nodes,
    read_nothing,
    read_refusal,
    read_registered,
    read_runs,
    register_node,
    unregister_node,
)
from ..flower.dialects import Dialect
from .errors import (
    AlreadyRegistered,
    ControlError,
    InvalidKey,
    KeyRetired,
    Refused,
    UnknownNode,
    Unreachable,
)

MOST_BYTES = 8 << 20

T = TypeVar("T")


class ControlClient:
    """One SuperLink's Control API, in its release's dialect. What fails is a ControlError.

    With `root_certificates`, PEM text, it speaks TLS, and only to who has a certificate from
    one of those for the host in the address.
    """

    def __init__(
        self,
        dialect: Dialect,
        address: str,
        timeout: float = 5.0,
        root_certificates: str | None = None,
    ) -> None:
        self._dialect = dialect
        self._timeout = timeout
        grpc = dialect.control.transport == "gRPC"
        # gRPC is HTTP/2 from the first byte, without an upgrade. The SuperLink is near:
        # proxies of the environment are not for it.
        self._client = httpx.AsyncClient(
            base_url=f"{'http' if root_certificates is None else 'https'}://{address}",
            verify=_trust(root_certificates),
            http1=not grpc,
            http2=grpc,
            timeout=timeout,
            trust_env=False,
        )

    async def connected(self) -> int:
        """How many SuperNodes are online by the SuperLink's own account."""
        return sum(node.online for node in await self.nodes())

    async def nodes(self) -> list[Node]:
        """Every SuperNode that the SuperLink knows, those that were unregistered too."""
        return await self._ask(list_nodes(self._dialect), read_nodes)

    async def register(self, public_key: bytes, name: str = "") -> int:
        """Let the SuperNode in that has the private key to this one; returns its id.

        `public_key` is SPKI in PEM, byte for byte as `cryptography` writes it: a SuperNode sends
        its own like that, and flwr compares bytes. Raises InvalidKey, AlreadyRegistered or
        KeyRetired. A SuperLink that asks no SuperNode for a key registers one all the same.
        """
        try:
            call = register_node(self._dialect, public_key, name)
            return await self._ask(call, read_registered)
        except Refused as refused:
            refusal = refused.refusal
        if refusal.reason == "key invalid":
            raise InvalidKey(refusal)
        if refusal.reason == "key in use":
            raise await self._find_why_in_use(public_key, refusal)
        raise Refused(refusal)

    async def unregister(self, node_id: int) -> None:
        """Shut a SuperNode out, with its key and for ever. Raises UnknownNode."""
        try:
            await self._ask(unregister_node(self._dialect, node_id), read_nothing)
        except Refused as refused:
            if refused.refusal.reason != "node unknown":
                raise
            message = f"SuperNode {node_id} is not registered"
            raise UnknownNode(refused.refusal, message) from None

    async def runs(self) -> list[Run]:
        """The newest runs, whatever has become of them."""
        return await self._ask(list_runs(self._dialect), read_runs)

    async def close(self) -> None:
        await self._client.aclose()

    async def _find_why_in_use(self, public_key: bytes, refusal: Refusal) -> Refused:
        """flwr says the same of a key that is registered and of one that once was."""
        for node in await self.nodes():
            if node.public_key == public_key and node.status != UNREGISTERED:
                return AlreadyRegistered(refusal, node.id)
        message = "the key was unregistered before, and flwr takes no key twice: make a new one"
        return KeyRetired(refusal, message)

    async def _ask(self, call: Call, read: Callable[[Dialect, bytes], T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return read(self._dialect, await self._exchange(call))
        except (httpx.HTTPError, TimeoutError, ValueError) as error:
            raise Unreachable(str(error) or type(error).__name__) from None

    async def _exchange(self, call: Call) -> bytes:
        """The answer, if it has an end: whose image the SuperLink runs is not known here."""
        stream = self._client.stream("POST", call.path, headers=call.headers, content=call.body)
        body = b""
        async with stream as answer:
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ValueError("the SuperLink's answer does not end")
        refusal = read_refusal(answer.status_code, answer.headers, body)
        if refusal:
            raise Refused(refusal)
        return body


def _trust(root_certificates: str | None) -> ssl.SSLContext:
    """These roots and no others: those of the system issue certificates to strangers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if root_certificates is not None:
        try:
            context.load_verify_locations(cadata=root_certificates)
        except (ssl.SSLError, ValueError):
            raise Unreachable("its root certificates are not certificates in PEM") from None
    return context


__all__ = [
    "AlreadyRegistered",
    "ControlClient",
    "ControlError",
    "InvalidKey",
    "KeyRetired",
    "Node",
    "Refused",
    "Run",
    "UnknownNode",
    "Unreachable",
]
