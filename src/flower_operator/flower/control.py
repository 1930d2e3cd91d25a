"""flwr's Control API, as bytes: what to send for a question and how to read the answer.

Two calls and three fields are used of it, so its protobuf messages are read by hand; their
generated classes differ by release and would drag grpcio in.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .dialects import Dialect, Transport

ONLINE = "online"


@dataclass(frozen=True)
class Call:
    """A request to the Control API of one dialect."""

    transport: Transport
    path: str
    headers: dict[str, str]
    body: bytes


def list_nodes(dialect: Dialect) -> Call:
    """Ask which SuperNodes are known."""
    if dialect.control.transport == "gRPC":
        headers = {"content-type": "application/grpc", "te": "trailers"}
        return Call("gRPC", "/flwr.proto.Control/ListNodes", headers, _frame(b""))
    headers = {"content-type": "application/protobuf"}
    return Call("HTTP", "/v1/control/list-nodes", headers, b"")


def read_nodes(dialect: Dialect, body: bytes) -> list[str]:
    """The status of every SuperNode that the SuperLink knows."""
    message = _unframe(body) if dialect.control.transport == "gRPC" else body
    return [
        _text(node, dialect.node_status_field)
        for number, node in _fields(message)
        if number == 1 and isinstance(node, bytes)
    ]


def _frame(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def _unframe(body: bytes) -> bytes:
    length = int.from_bytes(body[1:5], "big")
    if len(body) < 5 or body[0] != 0 or len(body) < 5 + length:
        raise ValueError("the SuperLink's answer is cut short")
    return body[5 : 5 + length]


def _text(message: bytes, field: int) -> str:
    for number, value in _fields(message):
        if number == field and isinstance(value, bytes):
            return value.decode()
    return ""


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: number and value, texts and messages as bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                value, at = _varint(message, at)
                yield key >> 3, value
            case 2:
                length, at = _varint(message, at)
                yield key >> 3, message[at : at + length]
                at += length
            case 1 | 5 as wire:
                at += 8 if wire == 1 else 4
            case wire:
                raise ValueError(f"the SuperLink's answer has a field of unknown kind {wire}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("the SuperLink's answer is cut short")
