"""flwr's Control API, as bytes: what to send for a question and how to read the answer.

Few calls and few fields are used of it, so its protobuf messages are written and read by
hand; their generated classes differ by release and would drag grpcio in.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from .dialects import Dialect, Transport

ONLINE = "online"
UNREGISTERED = "unregistered"
FINISHED = "finished"

MOST_RUNS = 1000
"""The newest runs are asked for, for a SuperLink keeps them all; 1.40 lists 20 unless told."""
PAST_ENTRIES = 5000
"""A SuperLink with a database also lists SuperNodes that were unregistered long ago, and before
1.27 all runs that it ever had."""
ENTRIES_PER_SUPERNODE = 8
"""Another one each time that a SuperNode gets another key."""
FIELDS_PER_ENTRY = 32
"""NodeInfo has 13 in 1.41, Run 19."""
REFUSAL_BYTES = 64 << 10

_Fields = Mapping[int, int | bytes]
Question = Literal["ListNodes", "RegisterNode", "UnregisterNode", "ListRuns"]
Reason = Literal["key in use", "key invalid", "node unknown"]

# flwr says it by number since 1.33, in these words always, later with a full stop.
_REASON_OF_CODE: dict[int, Reason] = {22: "key invalid", 23: "key in use", 24: "node unknown"}
_REASON_OF_WORDS: dict[str, Reason] = {
    "The provided public key is not valid": "key invalid",
    "Public key already in use": "key in use",
    "Node ID not found for account": "node unknown",
}


@dataclass(frozen=True)
class Call:
    """A request to the Control API of one dialect."""

    transport: Transport
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Limit:
    """How much of an answer is read. A SuperLink's image is the user's: it may answer anything."""

    entries: int
    entry_bytes: int

    @property
    def bytes(self) -> int:
        return self.entries * self.entry_bytes

    @property
    def fields(self) -> int:
        return self.entries * FIELDS_PER_ENTRY


@dataclass(frozen=True)
class Node:
    """A SuperNode by the SuperLink's account, be it there or not."""

    id: int
    status: str
    public_key: bytes | None
    """In PEM, as it was registered. A SuperNode that was given no key makes one up."""
    name: str | None
    """Known from 1.38 on."""

    @property
    def online(self) -> bool:
        return self.status == ONLINE


@dataclass(frozen=True)
class Run:
    """A run by the SuperLink's account."""

    id: int
    status: str
    sub_status: str

    @property
    def active(self) -> bool:
        """Whether it would be lost if the SuperLink ended now; waiting to start counts."""
        return self.status != FINISHED


@dataclass(frozen=True)
class Refusal:
    """The SuperLink said no. `reason`: None if it is not one of those that are known."""

    reason: Reason | None
    message: str


def list_nodes(dialect: Dialect) -> Call:
    """Ask which SuperNodes are known, the unregistered among them."""
    return _call(dialect, "ListNodes", b"")


def register_node(dialect: Dialect, public_key: bytes, name: str = "") -> Call:
    """Ask to let the SuperNode in that has the key to this PEM. Before 1.38 it has no name."""
    message = _field(1, public_key) + (_field(3, name.encode()) if name else b"")
    return _call(dialect, "RegisterNode", message)


def unregister_node(dialect: Dialect, node_id: int) -> Call:
    """Ask to shut a SuperNode out, for ever."""
    return _call(dialect, "UnregisterNode", _field(1, node_id))


def list_runs(dialect: Dialect) -> Call:
    """Ask for the newest runs. Before 1.27 the limit is passed over and all are told."""
    return _call(dialect, "ListRuns", _field(2, MOST_RUNS))


def node_limit(supernodes: int) -> Limit:
    """For the list of SuperNodes where so many are expected. An entry has 300 bytes or so."""
    return Limit(PAST_ENTRIES + ENTRIES_PER_SUPERNODE * supernodes, entry_bytes=512)


def run_limit() -> Limit:
    """For the list of runs, each with what its configuration overrides."""
    return Limit(PAST_ENTRIES, entry_bytes=1024)


ONE_ENTRY = Limit(1, entry_bytes=1024)


def read_nodes(dialect: Dialect, body: bytes, limit: Limit) -> list[Node]:
    """The SuperNodes that the SuperLink knows."""
    reader = _Reader(limit)
    entries = reader.entries(_message(dialect, body), "SuperNodes")
    return [_read_node(dialect, reader.fields(entry)) for entry in entries]


def read_registered(dialect: Dialect, body: bytes, limit: Limit) -> int:
    """The id of the SuperNode that was registered."""
    return _number(_Reader(limit).fields(_message(dialect, body)), 1)


def read_runs(dialect: Dialect, body: bytes, limit: Limit) -> list[Run]:
    """The runs that the SuperLink knows."""
    reader = _Reader(limit)
    entries = reader.entries(_message(dialect, body), "runs")
    return [_read_run(reader, reader.fields(entry)) for entry in entries]


def read_nothing(dialect: Dialect, body: bytes, limit: Limit) -> None:
    """An answer that says no more than that it was done."""
    _message(dialect, body)


def check_encoding(headers: Mapping[str, str]) -> None:
    """Refuse an answer that is not sent as it is: a few bytes may stand for any number."""
    for name in ("content-encoding", "grpc-encoding"):
        if (encoding := headers.get(name, "identity")) != "identity":
            raise ValueError(f"the SuperLink's answer is encoded ({name}: {encoding[:40]!r})")


def read_refusal(status: int, headers: Mapping[str, str], body: bytes) -> Refusal | None:
    """What the SuperLink says against the question; None if it answers.

    gRPC answers 200 always. Where there is nothing but an error to send, what would be its
    trailers comes as its headers; so they are read here, and trailers need not be.
    """
    if status != 200:
        return _explain(body.decode(errors="replace"), f"HTTP status {status}")
    if (grpc_status := headers.get("grpc-status", "0")) != "0":
        return _explain(_unquote(headers.get("grpc-message", "")), f"gRPC status {grpc_status}")
    return None


def _explain(text: str, otherwise: str) -> Refusal:
    """1.33 and newer explain in JSON, those before in plain words."""
    code, message = None, text
    try:
        explanation = json.loads(text)
    except (ValueError, RecursionError):
        explanation = None
    if isinstance(explanation, dict):
        code = explanation.get("code")
        message = str(explanation.get("detail") or explanation.get("public_message") or "")
    message = message.strip().rstrip(".")
    # A list or an object for a code would not do as a key.
    reason = _REASON_OF_CODE.get(code) if isinstance(code, int) else _REASON_OF_WORDS.get(message)
    return Refusal(reason, message if message and len(message) < 500 else otherwise)


def _unquote(text: str) -> str:
    """gRPC writes bytes that are not printable ASCII as in a URL."""
    raw = re.sub(
        rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode()
    )
    return raw.decode(errors="replace")


def _call(dialect: Dialect, question: Question, message: bytes) -> Call:
    if dialect.control.transport == "gRPC":
        headers = {"content-type": "application/grpc", "te": "trailers"}
        return Call("gRPC", f"/flwr.proto.Control/{question}", headers, _frame(message))
    headers = {"content-type": "application/protobuf"}
    path = "".join(f"-{each.lower()}" if each.isupper() else each for each in question)
    return Call("HTTP", f"/v1/control/{path[1:]}", headers, message)


def _read_node(dialect: Dialect, fields: _Fields) -> Node:
    return Node(
        _number(fields, 1),
        _text(fields, dialect.node_status_field),
        _bytes(fields, dialect.node_key_field) or None,
        _text(fields, 13) or None,
    )


def _read_run(reader: "_Reader", fields: _Fields) -> Run:
    """An entry of a map is a message of key and value."""
    status = reader.fields(_bytes(reader.fields(_bytes(fields, 2)), 10))
    return Run(_number(fields, 1), _text(status, 1), _text(status, 2))


def _message(dialect: Dialect, body: bytes) -> bytes:
    return _unframe(body) if dialect.control.transport == "gRPC" else body


def _frame(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def _unframe(body: bytes) -> bytes:
    length = int.from_bytes(body[1:5], "big")
    if body[:1] not in (b"", b"\0"):
        raise ValueError("the SuperLink's answer is compressed")
    if len(body) < 5 or len(body) < 5 + length:
        raise ValueError("the SuperLink's answer is cut short")
    return body[5 : 5 + length]


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _write_varint(number << 3) + _write_varint(value)
    return _write_varint(number << 3 | 2) + _write_varint(len(value)) + value


def _write_varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _text(fields: _Fields, number: int) -> str:
    return _bytes(fields, number).decode()


def _bytes(fields: _Fields, number: int) -> bytes:
    value = fields.get(number)
    return value if isinstance(value, bytes) else b""


def _number(fields: _Fields, number: int) -> int:
    value = fields.get(number)
    return value if isinstance(value, int) else 0


class _Reader:
    """Reads the protobuf messages of one answer, and gives up at its limit."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._fields = 0

    def entries(self, message: bytes, title: str) -> Iterator[bytes]:
        """What a list of `title` consists of; it is field 1 wherever there is one."""
        count = 0
        for number, value in self._read(message):
            if number == 1 and isinstance(value, bytes):
                count += 1
                if count > self._limit.entries:
                    raise ValueError(f"the SuperLink lists more than {self._limit.entries} {title}")
                yield value

    def fields(self, message: bytes) -> _Fields:
        """By number; of several with one number the first."""
        found: dict[int, int | bytes] = {}
        for number, value in self._read(message):
            found.setdefault(number, value)
        return found

    def _read(self, message: bytes) -> Iterator[tuple[int, int | bytes]]:
        """Number and value of each field, texts and messages as bytes."""
        at = 0
        while at < len(message):
            self._fields += 1
            if self._fields > self._limit.fields:
                raise ValueError(
                    f"the SuperLink's answer has more fields than {self._limit.fields}"
                )
            key, at = _varint(message, at)
            match key & 7:
                case 0:
                    value, at = _varint(message, at)
                    yield key >> 3, value
                case 2:
                    length, at = _varint(message, at)
                    if at + length > len(message):
                        raise ValueError("the SuperLink's answer is cut short")
                    yield key >> 3, message[at : at + length]
                    at += length
                case 1 | 5 as wire:
                    at += 8 if wire == 1 else 4
                case wire:
                    raise ValueError(f"the SuperLink's answer has a field of unknown kind {wire}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("the SuperLink's answer is cut short")
