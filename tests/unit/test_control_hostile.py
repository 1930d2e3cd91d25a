"""A SuperLink that lies: what its answers may cost who asks it.

Whose image a SuperLink runs is not known, so every answer is taken to be made to do harm. Work is
counted, in bytes and in objects; nothing here depends on how fast the machine is.
"""

import asyncio
import gzip
import tracemalloc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import httpx
import pytest

from flower_operator.control import BadAnswer, ControlClient, Refused
from flower_operator.flower.control import node_limit, read_nodes, read_runs, run_limit
from flower_operator.flower.dialects import dialect_of
from flower_operator.flower.releases import Release

GRPC, HTTP = (dialect_of(Release(1, minor)) for minor in (25, 41))
MIB = 1 << 20
CHUNK = 1 << 16
EMPTY_NODE = b"\x0a\x00"
UNKNOWN_FIELD = b"\x78\x00"
T = TypeVar("T")


def peak(work: Callable[[], object]) -> int:
    """The most bytes that the work held at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def ask(
    answer: bytes,
    question: Callable[[ControlClient], Coroutine[Any, Any, T]],
    requests: list[bytes] | None = None,
) -> T:
    """What the client makes of a server on loopback that answers so, byte for byte."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if requests is not None:
            requests.append(request)
        with suppress(OSError):  # the client may hang up
            for at in range(0, len(answer), CHUNK):
                writer.write(answer[at : at + CHUNK])
                await writer.drain()
        writer.close()

    async def run() -> T:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            client = ControlClient(HTTP, f"127.0.0.1:{port}", timeout=60.0, supernodes=2)
            try:
                return await question(client)
            finally:
                await client.close()

    return asyncio.run(run())


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "deflate", "br", "x-unknown"])
def test_an_encoded_answer_is_refused_before_it_is_decoded(encoding: str) -> None:
    body = gzip.compress(gzip.compress(bytes(64 * MIB), 1))
    answer = http(body, "200 OK", f"Content-Encoding: {encoding}")

    def refused() -> None:
        with pytest.raises(BadAnswer, match="encoded"):
            ask(answer, ControlClient.nodes)

    refused()  # what is imported and cached is not the answer's
    assert peak(refused) < 2 * MIB


def test_no_encoding_is_asked_for() -> None:
    requests: list[bytes] = []
    assert ask(http(b""), ControlClient.nodes, requests) == []
    assert b"accept-encoding: identity\r\n" in requests[0].lower()


@pytest.mark.parametrize(
    "headers", [{"grpc-encoding": "gzip"}, {"content-encoding": "gzip"}], ids=str
)
def test_a_grpc_answer_in_another_encoding_is_refused(headers: dict[str, str]) -> None:
    async def nodes() -> None:
        client = ControlClient(GRPC, "127.0.0.1:1")
        body = httpx.ByteStream(b"\0\0\0\0\0")
        client._client._transport = httpx.MockTransport(
            lambda _: httpx.Response(200, headers=headers, stream=body)
        )
        try:
            await client.nodes()
        finally:
            await client.close()

    with pytest.raises(BadAnswer, match="encoded"):
        asyncio.run(nodes())


def test_a_compressed_grpc_message_is_refused() -> None:
    message = gzip.compress(bytes(MIB))
    with pytest.raises(ValueError, match="compressed"):
        read_nodes(GRPC, b"\1" + len(message).to_bytes(4, "big") + message, node_limit(2))


def test_an_answer_is_read_as_far_as_the_supernodes_that_are_expected_go() -> None:
    limit = node_limit(2)
    assert limit.bytes < node_limit(1000).bytes < 8 * MIB

    answer = http(bytes(32 * MIB))

    def refused() -> None:
        with pytest.raises(BadAnswer, match=f"longer than {limit.bytes} bytes"):
            ask(answer, ControlClient.nodes)

    refused()
    assert peak(refused) < 8 * MIB


def test_so_many_supernodes_are_read_and_no_more() -> None:
    limit = node_limit(2)
    assert len(read_nodes(HTTP, EMPTY_NODE * limit.entries, limit)) == limit.entries

    def refused() -> None:
        with pytest.raises(ValueError, match=f"more than {limit.entries} SuperNodes"):
            read_nodes(HTTP, EMPTY_NODE * 500_000, limit)

    assert peak(refused) < 4 * MIB


def test_so_many_runs_are_read_and_no_more() -> None:
    limit = run_limit()
    assert len(read_runs(HTTP, EMPTY_NODE * limit.entries, limit)) == limit.entries
    with pytest.raises(ValueError, match=f"more than {limit.entries} runs"):
        read_runs(HTTP, EMPTY_NODE * 500_000, limit)


@pytest.mark.parametrize("where", ["beside the entries", "in an entry"])
def test_fields_that_nobody_knows_end_the_reading(where: str) -> None:
    limit = node_limit(2)
    body = UNKNOWN_FIELD * 500_000
    if where == "in an entry":
        body = b"\x0a\xc0\x84\x3d" + body  # 1,000,000 bytes
    with pytest.raises(ValueError, match="more fields"):
        read_nodes(HTTP, body, limit)
    with pytest.raises(ValueError, match="more fields"):
        read_runs(HTTP, b"\x0a\xc4\x84\x3d\x12\xc0\x84\x3d" + UNKNOWN_FIELD * 500_000, run_limit())


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"code":' * 10_000, b'{"code":' + b"9" * 5000 + b"}", b"\xff" * 99]
)
def test_a_refusal_that_cannot_be_read_is_still_a_refusal(body: bytes) -> None:
    for status in ("412 Precondition Failed", "500 Internal Server Error"):
        with pytest.raises(Refused):
            ask(http(body[: 60 << 10], status), ControlClient.nodes)


def test_a_refusal_is_not_read_for_ever() -> None:
    with pytest.raises(BadAnswer, match="longer than"):
        ask(http(b"x" * MIB, "500 Internal Server Error"), ControlClient.nodes)
