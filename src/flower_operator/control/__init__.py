"""Talks to a running SuperLink over its Control API."""

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

import httpx

from ..flower.control import (
    ONE_ENTRY,
    REFUSAL_BYTES,
    UNREGISTERED,
    Call,
    Limit,
    Node,
    Refusal,
    Run,
    check_encoding,
    list_nodes,
    list_runs,
    node_limit,
    read_nodes,
    read_nothing,
    read_refusal,
    read_registered,
    read_runs,
    register_node,
    run_limit,
    unregister_node,
)
from ..flower.dialects import Dialect
from .errors import (
    AlreadyRegistered,
    BadAnswer,
    ControlError,
    InvalidKey,
    KeyRetired,
    Refused,
    UnknownNode,
    Unreachable,
)

T = TypeVar("T")


class ControlClient:
    """One SuperLink's Control API, in its release's dialect. What fails is a ControlError.

    With `root_certificates`, PEM text, it speaks TLS, and only to who has a certificate from
    one of those for the host in the address. How much of an answer is read follows the number of
    `supernodes` that are expected.
    """

    def __init__(
        self,
        dialect: Dialect,
        address: str,
        timeout: float = 5.0,
        root_certificates: str | None = None,
        supernodes: int = 0,
    ) -> None:
        self._dialect = dialect
        self._node_limit = node_limit(supernodes)
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
            headers={"accept-encoding": "identity"},
        )

    async def connected(self) -> int:
        """How many SuperNodes are online by the SuperLink's own account."""
        return sum(node.online for node in await self.nodes())

    async def nodes(self) -> list[Node]:
        """Every SuperNode that the SuperLink knows, those that were unregistered too."""
        return await self._ask(list_nodes(self._dialect), read_nodes, self._node_limit)

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
        return await self._ask(list_runs(self._dialect), read_runs, run_limit())

    async def close(self) -> None:
        await self._client.aclose()

    async def _find_why_in_use(self, public_key: bytes, refusal: Refusal) -> Refused:
        """flwr says the same of a key that is registered and of one that once was."""
        for node in await self.nodes():
            if node.public_key == public_key and node.status != UNREGISTERED:
                return AlreadyRegistered(refusal, node.id)
        message = "the key was unregistered before, and flwr takes no key twice: make a new one"
        return KeyRetired(refusal, message)

    async def _ask(
        self,
        call: Call,
        read: Callable[[Dialect, bytes, Limit], T],
        limit: Limit = ONE_ENTRY,
    ) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return read(self._dialect, await self._exchange(call, limit), limit)
        except ValueError as error:
            raise BadAnswer(str(error)) from None
        except (httpx.HTTPError, TimeoutError) as error:
            raise Unreachable(str(error) or type(error).__name__) from None

    async def _exchange(self, call: Call, limit: Limit) -> bytes:
        """The answer, as it was sent and no further than the limit."""
        stream = self._client.stream("POST", call.path, headers=call.headers, content=call.body)
        body = bytearray()
        async with stream as answer:
            check_encoding(answer.headers)
            most = limit.bytes if answer.status_code == 200 else REFUSAL_BYTES
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > most:
                    raise ValueError(f"the SuperLink's answer is longer than {most} bytes")
        refusal = read_refusal(answer.status_code, answer.headers, bytes(body))
        if refusal:
            raise Refused(refusal)
        return bytes(body)


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
    "BadAnswer",
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
