"""Requests to the API server, as a server on this machine sees them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse, web

from flower_operator.kube import client as module
from flower_operator.kube.client import Client
from flower_operator.kube.connection import Connection, ConnectionFault
from flower_operator.kube.errors import ApiError, NotLeader, Unreachable
from flower_operator.kube.resources import DEPLOYMENT, LEASE, SERVICE, TOKEN_REVIEW
from tests.unit.federations import Document

MANAGER = "flower-operator"
SERVICES = "/api/v1/namespaces/team/services"
FEW_SECONDS = 10.0
"""Long before any timeout of the client's own that a test has not made shorter."""

CHILD: Document = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "fed-superlink", "namespace": "team", "uid": "uid-1"},
    "spec": {"ports": [{"port": 9092}]},
}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return msgspec.json.decode(self.body)


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def fine(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b'{"fine":true}')


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport
    request.transport.abort()
    return web.Response()


def refusal(code: int, body: bytes = b"", **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, body=body, headers=named)

    return answer


def stream(*chunks: bytes, then: Answer | None = None) -> Answer:
    """A body in pieces that arrive one by one."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.001)
        if then:
            await then(request)
        return response

    return answer


@dataclass
class Server:
    """Notes every request and answers as it was told to."""

    answer: Answer = fine
    requests: list[Request] = field(default_factory=list)
    connection: Connection = field(init=False)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query, headers = dict(request.query), dict(request.headers)
        body = await request.read()
        self.requests.append(Request(request.method, request.path, query, headers, body))
        return await self.answer(request)

    @property
    def request(self) -> Request:
        (only,) = self.requests
        return only


def says(token: str | None) -> Callable[[], Awaitable[str | None]]:
    async def read() -> str | None:
        return token

    return read


@asynccontextmanager
async def serve(answer: Answer = fine) -> AsyncIterator[Server]:
    server = Server(answer)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(
        application, access_log=None, handler_cancellation=True, shutdown_timeout=0.01
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        server.connection = Connection(f"http://127.0.0.1:{port}", None, says("secret"))
        yield server
    finally:
        await runner.cleanup()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(FEW_SECONDS):
            await scenario

    asyncio.run(limited())


def sent(write: Callable[[Client], Awaitable[bytes]], **options: Any) -> Request:
    """The one request that this leads to."""
    made: list[Request] = []

    async def scenario() -> None:
        async with serve() as server, Client(server.connection, MANAGER, **options) as client:
            assert await write(client) == b'{"fine":true}'
            made.append(server.request)

    run(scenario())
    return made[0]


def failure(answer: Answer) -> Exception:
    """What a read meets with."""
    met: list[Exception] = []

    async def scenario() -> None:
        async with serve(answer) as server, Client(server.connection, MANAGER) as client:
            with pytest.raises((ApiError, Unreachable)) as caught:
                await client.get(SERVICES)
            met.append(caught.value)

    run(scenario())
    return met[0]


def refused(answer: Answer) -> ApiError:
    error = failure(answer)
    assert isinstance(error, ApiError)
    return error


def test_a_read_names_its_parameters_and_has_no_body() -> None:
    request = sent(lambda client: client.get(SERVICES, limit="500", labelSelector="a=b,c in (d)"))
    assert (request.method, request.path) == ("GET", SERVICES)
    assert request.query == {"limit": "500", "labelSelector": "a=b,c in (d)"}
    assert request.body == b""
    assert "Content-Type" not in request.headers
    assert request.headers["Accept"] == "application/json, */*"
    assert request.headers["User-Agent"] == MANAGER


def test_an_apply_takes_what_others_had_set() -> None:
    request = sent(lambda client: client.apply(SERVICE, CHILD))
    assert (request.method, request.path) == ("PATCH", f"{SERVICES}/fed-superlink")
    assert request.query == {
        "fieldManager": MANAGER,
        "force": "true",
        "fieldValidation": "Ignore",
    }
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.content == CHILD


def test_an_apply_of_something_new_names_a_version_that_nothing_has() -> None:
    body = {**CHILD, "metadata": {"name": "x", "namespace": "team"}}
    request = sent(lambda client: client.apply_new(DEPLOYMENT, body))
    assert (request.method, request.path) == (
        "PATCH",
        "/apis/apps/v1/namespaces/team/deployments/x",
    )
    assert request.query == {
        "fieldManager": MANAGER,
        "force": "true",
        "fieldValidation": "Ignore",
    }
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    metadata = {"name": "x", "namespace": "team", "resourceVersion": "1"}
    assert request.content == {**CHILD, "metadata": metadata}
    assert "resourceVersion" not in body["metadata"]


def test_managers_are_told_anew_of_one_version_of_an_object() -> None:
    entries = [{"manager": MANAGER}]
    path = DEPLOYMENT.path("team", "x")
    request = sent(lambda client: client.patch_managers(path, "7", entries))
    assert (request.method, request.path) == ("PATCH", path)
    assert request.headers["Content-Type"] == "application/json-patch+json"
    assert request.content == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
    ]


def test_a_status_is_replaced_on_exactly_one_object() -> None:
    status = {"supernodes": "1/2"}
    request = sent(lambda client: client.patch_status(DEPLOYMENT, "team", "x", "uid-1", status))
    assert (request.method, request.path) == (
        "PATCH",
        "/apis/apps/v1/namespaces/team/deployments/x/status",
    )
    assert request.query == {"fieldManager": MANAGER}
    assert request.headers["Content-Type"] == "application/json-patch+json"
    assert request.content == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "add", "path": "/status", "value": status},
    ]


def test_a_deletion_is_of_exactly_one_object() -> None:
    request = sent(lambda client: client.delete(SERVICE, "team", "x", "uid-1", "Orphan"))
    assert (request.method, request.path) == ("DELETE", f"{SERVICES}/x")
    assert request.query == {}
    assert request.headers["Content-Type"] == "application/json"
    assert request.content == {
        "propagationPolicy": "Orphan",
        "preconditions": {"uid": "uid-1"},
    }


@pytest.mark.parametrize(
    ("namespace", "path"),
    [
        ("team", "/apis/authentication.k8s.io/v1/namespaces/team/tokenreviews"),
        (None, "/apis/authentication.k8s.io/v1/tokenreviews"),
    ],
)
def test_a_creation_goes_to_where_all_of_a_kind_are(namespace: str | None, path: str) -> None:
    request = sent(lambda client: client.create(TOKEN_REVIEW, namespace, {"spec": {}}))
    assert (request.method, request.path) == ("POST", path)
    assert request.query == {"fieldManager": MANAGER}
    assert request.headers["Content-Type"] == "application/json"
    assert request.content == {"spec": {}}


def test_a_replacement_goes_to_the_object_itself() -> None:
    lease = {"metadata": {"name": "x", "namespace": "system", "resourceVersion": "7"}}
    request = sent(lambda client: client.replace(LEASE, lease))
    assert (request.method, request.path) == (
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/system/leases/x",
    )
    assert request.query == {"fieldManager": MANAGER}
    assert request.headers["Content-Type"] == "application/json"
    assert request.content == lease


def test_every_request_has_the_token_of_its_moment() -> None:
    async def scenario() -> None:
        async with serve() as server:
            tokens = iter(["first", "second", "third"])

            async def read() -> str:
                return next(tokens)

            async with Client(replace(server.connection, token=read), MANAGER) as client:
                await client.get(SERVICES)
                await client.apply(SERVICE, CHILD)
                async with client.watch(SERVICES):
                    pass
            said = [each.headers["Authorization"] for each in server.requests]
            assert said == ["Bearer first", "Bearer second", "Bearer third"]

    run(scenario())


def test_without_a_token_nothing_is_said_of_who_asks() -> None:
    async def scenario() -> None:
        async with serve() as server:
            nobody = replace(server.connection, token=says(None))
            async with Client(nobody, MANAGER) as client:
                await client.get(SERVICES)
            assert "Authorization" not in server.request.headers

    run(scenario())


def test_a_proxy_is_asked_for_the_server() -> None:
    async def scenario() -> None:
        async with serve() as proxy:
            there = replace(
                proxy.connection, server="http://api.invalid:6443", proxy=proxy.connection.server
            )
            async with Client(there, MANAGER) as client:
                await client.get(SERVICES)
            assert proxy.request.headers["Host"] == "api.invalid:6443"

    run(scenario())


def status_of(code: int, reason: str, message: str, **details: Any) -> bytes:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return msgspec.json.encode({**body, "message": message, "details": details})


def test_a_refusal_is_told_in_the_server_s_own_words() -> None:
    body = status_of(409, "Conflict", "the object has been modified", kind="services")
    error = refused(refusal(409, body))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == str(error) == "the object has been modified"
    assert error.retry_after == 0.0


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        ("7", {}, 7.0),
        ("", {"retryAfterSeconds": 5}, 5.0),
        ("2", {"retryAfterSeconds": 5}, 5.0),
        ("9", {"retryAfterSeconds": 5}, 9.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, 0.0),
        ("-3", {}, 0.0),
    ],
)
def test_the_server_may_say_when_to_come_again(
    header: str, details: Document, seconds: float
) -> None:
    body = status_of(429, "TooManyRequests", "busy", **details)
    error = refused(refusal(429, body, Retry_After=header))
    assert (error.code, error.reason, error.message) == (429, "TooManyRequests", "busy")
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>bad gateway</html>", "<html>bad gateway</html>"),
        (b"  upstream connect error\n", "upstream connect error"),
        (b"", "the API server answered 502"),
        (b"{}", "the API server answered 502"),
        (b'["odd"]', '["odd"]'),
        (b'{"message": 5}', '{"message": 5}'),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2),
        (b"x" * 5000, "x" * 200),
    ],
)
def test_a_refusal_by_someone_on_the_way_is_told_too(body: bytes, message: str) -> None:
    error = refused(refusal(502, body, Retry_After="3"))
    assert (error.code, error.reason, error.message) == (502, "", message)
    assert error.retry_after == 3.0


@pytest.mark.parametrize(
    ("code", "final"),
    [
        *((code, True) for code in (400, 403, 404, 413, 422)),
        *((code, False) for code in (401, 408, 409, 410, 429, 500, 503)),
    ],
)
def test_what_is_a_matter_of_time_is_not_final(code: int, final: bool) -> None:
    assert ApiError(code, "", "no").final == final


def test_writes_and_watches_are_refused_in_the_same_way() -> None:
    async def scenario() -> None:
        body = status_of(403, "Forbidden", "may not")
        answer = refusal(403, body)
        async with serve(answer) as server, Client(server.connection, MANAGER) as client:
            with pytest.raises(ApiError, match="may not"):
                await client.apply(SERVICE, CHILD)
            with pytest.raises(ApiError, match="may not"):
                async with client.watch(SERVICES):
                    pytest.fail("there is nothing to follow")

    run(scenario())


@pytest.mark.parametrize(
    "answer",
    [hang_up, stream(b'{"half":', then=hang_up)],
    ids=["before it answered", "in the middle of its answer"],
)
def test_a_server_that_hangs_up_is_unreachable(answer: Answer) -> None:
    error = failure(answer)
    assert isinstance(error, Unreachable)
    assert str(error)


def test_a_server_that_is_not_there_is_unreachable() -> None:
    async def scenario() -> None:
        with socket.socket() as held:  # taken, so that nobody else listens there
            held.bind(("127.0.0.1", 0))
            nowhere = f"http://127.0.0.1:{held.getsockname()[1]}"
            async with Client(Connection(nowhere, None, says(None)), MANAGER) as client:
                with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
                    await client.get(SERVICES)
                with pytest.raises(Unreachable):
                    await client.apply(SERVICE, CHILD)
                with pytest.raises(Unreachable):
                    async with client.watch(SERVICES):
                        pytest.fail("there is nothing to follow")

    run(scenario())


@pytest.mark.parametrize("answer", [hang, stream(b"{", then=hang)], ids=["at all", "to the end"])
def test_a_server_that_does_not_answer_is_unreachable_after_a_while(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)
    error = failure(answer)
    assert isinstance(error, Unreachable)
    assert str(error) == "no answer within 0.05 s"


async def hear(client: Client, heard: list[bytes], calm: float = 0.0) -> None:
    async with client.watch(SERVICES, calm, watch="1", resourceVersion="5") as lines:
        async for line in lines:
            heard.append(line)


def follow(answer: Answer, calm: float = 0.0) -> list[bytes]:
    heard: list[bytes] = []

    async def scenario() -> None:
        async with serve(answer) as server, Client(server.connection, MANAGER) as client:
            await hear(client, heard, calm)
            assert (server.request.method, server.request.path) == ("GET", SERVICES)
            assert server.request.query == {"watch": "1", "resourceVersion": "5"}

    run(scenario())
    return heard


def test_a_watch_may_last_longer_than_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.01)
    chunks = [b"%d\n" % number for number in range(40)]
    assert follow(stream(*chunks)) == [each.strip() for each in chunks]


def test_a_watch_that_is_silent_for_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)

    async def scenario() -> None:
        answer = stream(b"first\n", then=hang)
        async with serve(answer) as server, Client(server.connection, MANAGER) as client:
            with pytest.raises(Unreachable):
                await hear(client, [])

    run(scenario())


LINES = [b'{"type":"ADDED"}', b'{"type":"BOOKMARK"}', '{"name":"bär"}'.encode()]


@pytest.mark.parametrize("calm", [0.0, 0.01])
@pytest.mark.parametrize("size", [1, 2, 5, 17, 1000])
def test_a_watch_gives_whole_lines_however_they_come(size: int, calm: float) -> None:
    text = b"\n".join([LINES[0], LINES[1], b"", LINES[2], b""])
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    assert follow(stream(*chunks), calm) == LINES


def count_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    keep_calm = module._keep_calm

    async def counted(answer: ClientResponse, seconds: float) -> None:
        pauses.append(seconds)
        await keep_calm(answer, seconds)

    monkeypatch.setattr(module, "_keep_calm", counted)
    return pauses


def test_a_calm_watch_takes_what_gathers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = count_pauses(monkeypatch)
    assert follow(stream(*[b"line\n"] * 50), calm=0.2) == [b"line"] * 50
    assert 0 < len(pauses) < 10


def test_a_calm_watch_waits_little_after_a_line_that_comes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = count_pauses(monkeypatch)
    assert follow(stream(b"alone\n"), calm=0.05) == [b"alone"]
    assert pauses == [pytest.approx(0.05 / module.MANY)]


@pytest.mark.parametrize(
    ("lines", "size", "expected"),
    [
        (0, 100, 0.0),
        (1, 100, 1 / module.MANY),
        (module.MANY, 100, 1.0),
        (1000, module.MUCH, 1.0),
        (1000, 4 * module.MUCH, 0.25),
    ],
    ids=["a part of one", "one", "some", "many", "too many"],
)
def test_a_watch_is_calm_where_lines_come_often(lines: int, size: int, expected: float) -> None:
    assert module.calmness(lines, size) == expected


def test_a_calm_watch_does_not_fall_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads 128 KB at a time, and does not pause while there are more."""
    pauses = count_pauses(monkeypatch)
    line = b"x" * 4 * module.MUCH
    assert follow(stream(*[line + b"\n"] * 20), calm=0.05) == [line] * 20
    assert len(pauses) < 20


def test_a_line_of_a_watch_may_be_long() -> None:
    long = b"x" * 1_500_000
    assert follow(stream(b"short\n", long + b"\nshort\n")) == [b"short", long, b"short"]


def test_the_rest_of_a_line_is_no_line() -> None:
    assert follow(stream(b'{"type":"ADDED"}\n{"type":"MOD')) == [b'{"type":"ADDED"}']


def test_a_line_is_given_as_soon_as_it_is_there() -> None:
    async def scenario() -> None:
        heard = asyncio.Event()

        async def until_heard(request: web.Request) -> web.StreamResponse:
            await heard.wait()
            return web.Response()

        answer = stream(b"first\n", then=until_heard)
        async with (
            serve(answer) as server,
            Client(server.connection, MANAGER) as client,
            client.watch(SERVICES) as lines,
        ):
            async for line in lines:
                assert line == b"first"
                heard.set()
        assert heard.is_set()

    run(scenario())


def test_a_watch_that_is_cut_off_gives_what_came_before() -> None:
    async def scenario() -> None:
        answer = stream(b"first\nsec", then=hang_up)
        async with serve(answer) as server, Client(server.connection, MANAGER) as client:
            heard: list[bytes] = []
            with pytest.raises(Unreachable):
                await hear(client, heard)
            assert heard == [b"first"]

    run(scenario())


def test_many_watches_are_open_at_once() -> None:
    """A dozen kinds in each of many namespaces."""

    async def scenario() -> None:
        answer = stream(b"first\n", then=hang)
        async with (
            serve(answer) as server,
            Client(server.connection, MANAGER) as client,
            AsyncExitStack() as stack,
        ):
            for _ in range(150):
                lines = await stack.enter_async_context(client.watch(SERVICES))
                assert await anext(lines) == b"first"
            server.answer = fine
            assert await client.get(SERVICES) == b'{"fine":true}'

    run(scenario())


async def stumble(client: Client) -> None:
    async with client.watch(SERVICES) as lines:
        async for _ in lines:
            raise ZeroDivisionError


def test_what_a_follower_meets_with_is_its_own() -> None:
    async def scenario() -> None:
        answer = stream(b"first\n", then=hang)
        async with serve(answer) as server, Client(server.connection, MANAGER) as client:
            with pytest.raises(ZeroDivisionError):
                await stumble(client)

    run(scenario())


WRITES: dict[str, Callable[[Client], Awaitable[bytes]]] = {
    "create": lambda client: client.create(SERVICE, "team", CHILD),
    "replace": lambda client: client.replace(SERVICE, CHILD),
    "apply": lambda client: client.apply(SERVICE, CHILD),
    "apply_new": lambda client: client.apply_new(SERVICE, CHILD),
    "patch_status": lambda client: client.patch_status(SERVICE, "team", "x", "uid-1", {}),
    "delete": lambda client: client.delete(SERVICE, "team", "x", "uid-1", "Background"),
}
write_of_each_kind = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


@write_of_each_kind
@pytest.mark.parametrize("left", [0.0, -1.0, float("-inf")])
def test_a_write_is_held_back_when_another_may_lead(
    write: Callable[[Client], Awaitable[bytes]], left: float
) -> None:
    async def scenario() -> None:
        async with (
            serve() as server,
            Client(server.connection, MANAGER, fence=lambda: left) as client,
        ):
            with pytest.raises(NotLeader):
                await write(client)
            assert server.requests == []

    run(scenario())


@write_of_each_kind
def test_a_write_goes_out_while_there_is_time(
    write: Callable[[Client], Awaitable[bytes]],
) -> None:
    assert sent(write, fence=lambda: 5.0).method != "GET"


def test_reads_do_not_ask_who_leads() -> None:
    async def scenario() -> None:
        answer = stream(b"first\n")
        async with (
            serve(answer) as server,
            Client(server.connection, MANAGER, fence=lambda: -1.0) as client,
        ):
            assert await client.get(SERVICES) == b"first\n"
            async with client.watch(SERVICES) as lines:
                assert [line async for line in lines] == [b"first"]

    run(scenario())


@write_of_each_kind
def test_a_write_takes_no_longer_than_it_is_allowed_to(
    write: Callable[[Client], Awaitable[bytes]],
) -> None:
    async def scenario() -> None:
        async with (
            serve(hang) as server,
            Client(server.connection, MANAGER, fence=lambda: 0.05) as client,
        ):
            with pytest.raises(Unreachable):
                await write(client)

    run(scenario())


def test_a_write_takes_no_longer_than_a_request_however_long_it_is_allowed_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)

    async def scenario() -> None:
        async with (
            serve(hang) as server,
            Client(server.connection, MANAGER, fence=lambda: 1000.0) as client,
        ):
            with pytest.raises(Unreachable):
                await client.apply(SERVICE, CHILD)

    run(scenario())


def test_who_leads_is_asked_when_the_token_is_there() -> None:
    async def scenario() -> None:
        async with serve() as server:
            left = 5.0

            async def slow() -> str:
                nonlocal left
                left = 0.0
                return "late"

            connection = replace(server.connection, token=slow)
            async with Client(connection, MANAGER, fence=lambda: left) as client:
                with pytest.raises(NotLeader):
                    await client.apply(SERVICE, CHILD)
            assert server.requests == []

    run(scenario())


@pytest.mark.parametrize(
    "fault",
    [ConnectionFault("log in first"), FileNotFoundError("log in first")],
    ids=["plugin", "file"],
)
def test_without_credentials_nothing_can_be_reached(fault: Exception) -> None:
    async def scenario() -> None:
        async def fail() -> str:
            raise fault

        async with serve() as server:
            async with Client(replace(server.connection, token=fail), MANAGER) as client:
                with pytest.raises(Unreachable, match="no credentials: log in first"):
                    await client.get(SERVICES)
                with pytest.raises(Unreachable, match="no credentials: log in first"):
                    await client.apply(SERVICE, CHILD)
                with pytest.raises(Unreachable, match="no credentials: log in first"):
                    async with client.watch(SERVICES):
                        pytest.fail("there is nothing to follow")
            assert server.requests == []

    run(scenario())


def test_a_merge_patch_names_what_changes_and_who_changes_it() -> None:
    async def scenario() -> None:
        async with serve() as server, Client(server.connection, MANAGER) as client:
            await client.patch(SERVICE, "team", "fed-superlink", {"spec": {"type": "NodePort"}})
        request = server.request
        assert (request.method, request.path) == ("PATCH", f"{SERVICES}/fed-superlink")
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        assert request.query == {"fieldManager": MANAGER}
        assert request.content == {"spec": {"type": "NodePort"}}

    run(scenario())


def test_a_stream_may_be_silent_for_longer_than_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.01)

    async def pause(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.Response()

    async def scenario() -> None:
        async with (
            serve(stream(b"first ", then=pause)) as server,
            Client(server.connection, MANAGER) as client,
            client.stream(SERVICES) as chunks,
        ):
            assert b"".join([chunk async for chunk in chunks]) == b"first "

    run(scenario())


def test_every_request_is_counted_with_its_answer() -> None:
    async def scenario() -> None:
        counted: list[tuple[str, int]] = []

        def observe(method: str, code: int) -> None:
            counted.append((method, code))

        async with (
            serve() as server,
            Client(server.connection, MANAGER, observe=observe) as client,
        ):
            await client.get(SERVICES)
            await client.apply(SERVICE, CHILD)
            async with client.watch(SERVICES):
                pass
            server.answer = refusal(404)
            with pytest.raises(ApiError):
                await client.delete(SERVICE, "team", "x", "uid-1", "Orphan")
            server.answer = hang_up
            with pytest.raises(Unreachable):
                await client.create(SERVICE, "team", CHILD)
        # Without an answer there is no code.
        assert counted == [("GET", 200), ("PATCH", 200), ("GET", 200), ("DELETE", 404), ("POST", 0)]

    run(scenario())
