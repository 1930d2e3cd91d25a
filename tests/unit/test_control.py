"""The Control API's bytes, as flwr writes them.

control_answers.json holds answers of real SuperLinks, in base64: one SuperNode was registered
as north-0, another was registered and unregistered, and a run submitted.
"""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from flower_operator.control import (
    AlreadyRegistered,
    ControlClient,
    InvalidKey,
    KeyRetired,
    Refused,
    UnknownNode,
    Unreachable,
)
from flower_operator.flower.control import (
    ONE_ENTRY,
    Refusal,
    Run,
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
from flower_operator.flower.dialects import dialect_of
from flower_operator.flower.releases import Release

GRPC, HTTP = (dialect_of(Release(1, minor)) for minor in (25, 41))
ANSWERS = {
    int(minor): {question: b64decode(text) for question, text in answers.items()}
    for minor, answers in json.loads(
        Path(__file__).with_name("control_answers.json").read_text()
    ).items()
}
CAPTURED = {
    23: (16502839950120180662, 7014283893483949534, Run(9105375710916611741, "pending", "")),
    25: (
        6628112050649652061,
        11443893327649417300,
        Run(3515045514436479864, "finished", "completed"),
    ),
    41: (
        18368418534266366292,
        1409007708313710925,
        Run(4190846213184548731, "finished", "completed"),
    ),
}
IN_USE, INVALID = "Public key already in use", "The provided public key is not valid"
T = TypeVar("T")


@pytest.mark.parametrize("minor", CAPTURED)
def test_the_answers_of_real_superlinks(minor: int) -> None:
    dialect, answers = dialect_of(Release(1, minor)), ANSWERS[minor]
    first, second, run = CAPTURED[minor]
    there, gone = read_nodes(dialect, answers["nodes"], node_limit(2))
    assert (there.id, there.status, gone.id, gone.status) == (
        *(first, "registered"),
        *(second, "unregistered"),
    )
    assert (there.name, gone.name) == ("north-0" if minor == 41 else None, None)
    for node in (there, gone):
        assert node.public_key
        assert node.public_key.startswith(b"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYI")
        assert node.public_key.endswith(b"==\n-----END PUBLIC KEY-----\n")
        assert not node.online
    assert read_registered(dialect, answers["registered"], ONE_ENTRY) == second
    assert read_runs(dialect, answers["runs"], run_limit()) == [run]
    assert run.active is (run.status == "pending")
    read_nothing(dialect, answers["unregistered"], ONE_ENTRY)


def test_the_requests_of_each_transport() -> None:
    assert list_nodes(GRPC).path == "/flwr.proto.Control/ListNodes"
    assert list_nodes(GRPC).body == b"\0\0\0\0\0"
    assert list_nodes(HTTP).headers == {"content-type": "application/protobuf"}
    registration = register_node(HTTP, b"k" * 200, "north")
    assert registration.path == "/v1/control/register-node"
    assert registration.body == b"\x0a\xc8\x01" + b"k" * 200 + b"\x1a\x05north"
    assert register_node(GRPC, b"k").body == b"\0\0\0\0\3\x0a\x01k"
    assert unregister_node(HTTP, 2**64 - 1).body == b"\x08" + b"\xff" * 9 + b"\x01"
    assert list_runs(HTTP).body == b"\x10\xe8\x07"


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ({}, None),
        ({"grpc-status": "0", "grpc-message": ""}, None),
        ({"grpc-status": "9", "grpc-message": IN_USE}, Refusal("key in use", IN_USE)),
        (
            {
                "grpc-status": "9",
                "grpc-message": f'{{"code": 22, "public_message": "{INVALID}.", '
                '"public_details": null}',
            },
            Refusal("key invalid", INVALID),
        ),
        ({"grpc-status": "7", "grpc-message": "%E2%9B%94 no"}, Refusal(None, "⛔ no")),
        ({"grpc-status": "14"}, Refusal(None, "gRPC status 14")),
    ],
)
def test_what_grpc_says_against_it(headers: dict[str, str], refusal: Refusal | None) -> None:
    assert read_refusal(200, headers, b"") == refusal


@pytest.mark.parametrize(
    ("status", "body", "refusal"),
    [
        (412, '{"code":23,"detail":"Public key already in use."}', Refusal("key in use", IN_USE)),
        (404, '{"detail":"Not Found"}', Refusal(None, "Not Found")),
        (500, '{"code":[],"detail":{"a":1}}', Refusal(None, "{'a': 1}")),
        (502, "x" * 1000, Refusal(None, "HTTP status 502")),
        (301, "", Refusal(None, "HTTP status 301")),
    ],
)
def test_what_http_says_against_it(status: int, body: str, refusal: Refusal) -> None:
    assert read_refusal(status, {}, body.encode()) == refusal


@pytest.mark.parametrize(
    "body",
    [b"", b"\0\0\0\0\5ab", b"\1\0\0\0\0", b"\0\0\0\0\1\xff", b"\0\0\0\0\2\x0a\7"],
)
def test_a_mangled_answer_is_an_error_that_says_so(body: bytes) -> None:
    with pytest.raises(ValueError, match="answer"):
        read_nodes(GRPC, body, node_limit(2))


def unread(answer: httpx.Response) -> httpx.Response:
    """As it comes from a connection; one that is made of bytes counts as read."""
    return httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)


def ask(
    respond: Callable[[httpx.Request], httpx.Response],
    question: Callable[[ControlClient], Coroutine[Any, Any, T]],
) -> T:
    """What the client makes of a SuperLink that answers so."""

    async def answer() -> T:
        client = ControlClient(HTTP, "127.0.0.1:1", timeout=0.2)
        client._client._transport = httpx.MockTransport(lambda request: unread(respond(request)))
        try:
            return await question(client)
        finally:
            await client.close()

    return asyncio.run(answer())


def stubborn(request: httpx.Request) -> httpx.Response:
    """Lists the SuperNodes that were captured, and refuses everything else."""
    match request.url.path.rpartition("/")[2]:
        case "list-nodes":
            return httpx.Response(200, content=ANSWERS[41]["nodes"])
        case "unregister-node":
            return httpx.Response(404, json={"code": 24, "detail": "Node ID not found."})
        case "register-node" if b"no key" in request.content:
            return httpx.Response(412, json={"code": 22, "detail": INVALID})
        case "register-node":
            return httpx.Response(412, json={"code": 23, "detail": IN_USE})
        case _:
            return httpx.Response(403, json={"code": 29, "detail": "Log in."})


def test_a_key_in_use_is_told_from_one_that_was() -> None:
    there, gone = read_nodes(HTTP, ANSWERS[41]["nodes"], node_limit(2))
    with pytest.raises(AlreadyRegistered, match=f"SuperNode {there.id}") as caught:
        ask(stubborn, lambda client: client.register(there.public_key or b""))
    assert caught.value.node_id == there.id
    with pytest.raises(KeyRetired, match="make a new one"):
        ask(stubborn, lambda client: client.register(gone.public_key or b""))


def test_other_refusals_are_told_apart() -> None:
    with pytest.raises(InvalidKey, match=INVALID):
        ask(stubborn, lambda client: client.register(b"no key"))
    with pytest.raises(UnknownNode, match="SuperNode 7 is not registered"):
        ask(stubborn, lambda client: client.unregister(7))
    with pytest.raises(Refused, match="Log in"):
        ask(stubborn, lambda client: client.runs())


def test_roots_that_are_none_are_an_error_that_says_so() -> None:
    for text in ("", "no certificate"):
        with pytest.raises(Unreachable, match="PEM"):
            ControlClient(HTTP, "127.0.0.1:1", root_certificates=text)


def connected(stream: Callable[[], AsyncIterator[bytes]]) -> int:
    return ask(lambda _: httpx.Response(200, content=stream()), lambda client: client.connected())


def test_an_answer_in_pieces_is_put_together() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        online = b"\x06online\x32\x02at"  # as long as what it stands for
        answer = ANSWERS[41]["nodes"].replace(b"\x0aregistered", online)
        yield answer[:7]
        yield answer[7:]

    assert connected(pieces) == 1


def test_an_answer_without_end_is_given_up() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    with pytest.raises(Unreachable, match="longer than"):
        connected(endless)


def test_root_certificates_that_are_none_never_mean_no_tls() -> None:
    for text in ("", "garbage", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"):
        with pytest.raises(Unreachable, match="root certificates are not"):
            ControlClient(HTTP, "127.0.0.1:1", root_certificates=text)


def test_an_answer_that_trickles_is_given_up() -> None:
    async def trickle() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.02)
            yield b"x"

    with pytest.raises(Unreachable):
        connected(trickle)
