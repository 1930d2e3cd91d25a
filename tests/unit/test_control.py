"""The Control API's bytes, as flwr writes them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import httpx
import pytest

from flower_operator import control
from flower_operator.control import ControlClient, Unreachable
from flower_operator.flower.control import list_nodes, read_nodes
from flower_operator.flower.dialects import dialect_of
from flower_operator.flower.releases import Release

OLDEST, GRPC, HTTP = (dialect_of(Release(1, minor)) for minor in (23, 25, 41))


HTTP_CALL = replace(list_nodes(HTTP), path="http://127.0.0.1:1/v1/control/list-nodes")


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def node(status_field: int, status: str) -> bytes:
    content = field(1, 5) + field(2, b"owner") + field(status_field, status.encode())
    return field(1, content + bytes([9 << 3 | 1]) + bytes(8))


def test_nodes_are_counted_by_status_on_every_dialect() -> None:
    answer = node(4, "online") + node(4, "offline") + field(2, b"now")
    assert read_nodes(HTTP, answer) == ["online", "offline"]
    framed = b"\0" + len(answer).to_bytes(4, "big") + answer
    assert read_nodes(GRPC, framed) == ["online", "offline"]
    old = node(3, "online")
    assert read_nodes(OLDEST, b"\0" + len(old).to_bytes(4, "big") + old) == ["online"]


def test_the_request_of_each_transport() -> None:
    assert list_nodes(GRPC).path == "/flwr.proto.Control/ListNodes"
    assert list_nodes(GRPC).body == b"\0\0\0\0\0"
    assert list_nodes(HTTP).headers == {"content-type": "application/protobuf"}


@pytest.mark.parametrize("body", [b"", b"\0\0\0\0\5ab", b"\1\0\0\0\0", b"\0\0\0\0\1\xff"])
def test_a_mangled_answer_is_an_error_that_says_so(body: bytes) -> None:
    with pytest.raises(ValueError, match="answer"):
        read_nodes(GRPC, body)


def ask(stream: Callable[[], AsyncIterator[bytes]], monkeypatch: pytest.MonkeyPatch) -> int:
    """What the client makes of a SuperLink that answers so."""
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=stream()))

    async def connected() -> int:
        client = ControlClient(HTTP, "127.0.0.1:1", timeout=0.2)
        monkeypatch.setattr(client, "_client", httpx.AsyncClient(transport=transport))
        try:
            return await client.connected()
        finally:
            await client.close()

    return asyncio.run(connected())


def test_an_answer_in_pieces_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        answer = node(4, "online") + node(4, "online")
        yield answer[:7]
        yield answer[7:]

    monkeypatch.setattr(control, "list_nodes", lambda dialect: HTTP_CALL)
    assert ask(pieces, monkeypatch) == 2


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    monkeypatch.setattr(control, "list_nodes", lambda dialect: HTTP_CALL)
    with pytest.raises(Unreachable, match="does not end"):
        ask(endless, monkeypatch)


def test_root_certificates_that_are_none_never_mean_no_tls() -> None:
    for text in ("", "garbage", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"):
        with pytest.raises(Unreachable, match="root certificates are not PEM"):
            ControlClient(HTTP, "127.0.0.1:1", root_certificates=text)


def test_an_answer_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def trickle() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.02)
            yield b"x"

    monkeypatch.setattr(control, "list_nodes", lambda dialect: HTTP_CALL)
    with pytest.raises(Unreachable):
        ask(trickle, monkeypatch)
