"""What the API server has, kept at hand: against a server that follows a script."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from flower_operator.kube import cache as module
from flower_operator.kube import client
from flower_operator.kube.cache import Cache, Key
from flower_operator.kube.client import Client
from flower_operator.kube.errors import ApiError, Unreachable
from flower_operator.kube.resources import SERVICE, Resource
from flower_operator.status.observed import Child, ServiceForm, service_of
from tests.unit.federations import Document
from tests.unit.virtual_time import run

WIDGETS = Resource("example.org", "v1", "Widget", "widgets")
ALL = "/apis/example.org/v1/widgets"
IN_TEAM = "/apis/example.org/v1/namespaces/team/widgets"
IN_LAB = "/apis/example.org/v1/namespaces/lab/widgets"


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Form(msgspec.Struct):
    metadata: Metadata
    colour: str = ""


def colour(form: Form) -> str | None:
    """Widgets without a colour are of no interest."""
    return form.colour or None


def widget(name: str, version: int, colour: str = "red", namespace: str = "team") -> Document:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(version)}
    return {"metadata": metadata, "colour": colour}


def page(version: int, *items: Document, more: str = "") -> bytes:
    metadata = {"resourceVersion": str(version), "continue": more}
    return msgspec.json.encode({"metadata": metadata, "items": list(items) or None})


def line(kind: str, body: Document) -> bytes:
    return msgspec.json.encode({"type": kind, "object": body})


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


EXPIRED: Document = {
    "kind": "Status",
    "status": "Failure",
    "message": "too old resource version: 5 (90)",
    "reason": "Expired",
    "code": 410,
}
GONE = ApiError(410, "Expired", "too old resource version: 5 (90)")


@dataclass
class Server:
    """Answers each path from its script: pages for lists, lists of lines for watches."""

    scripts: dict[str, list[Any]]
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    async def get(self, path: str, **parameters: str) -> bytes:
        self.asked.append((path, parameters))
        answer = self.scripts[path].pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, bytes), "a watch was expected"
        return answer

    @asynccontextmanager
    async def watch(
        self, path: str, calm: float, **parameters: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((path, parameters))
        script = self.scripts[path]
        if not script:
            if not any(self.scripts.values()):
                self.idle.set()
            await asyncio.Event().wait()
        answer = script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, list), "a list was expected"
        yield _each(answer)

    @property
    def positions(self) -> list[str]:
        """From where each watch was asked for."""
        return [each["resourceVersion"] for _, each in self.asked if "watch" in each]


async def _each(lines: list[bytes | Exception]) -> AsyncIterator[bytes]:
    for each in lines:
        if isinstance(each, Exception):
            raise each
        yield each


Told = list[tuple[str, Any, Any]]


class Followed:
    """A cache, its server and what the cache has told."""

    def __init__(
        self, *script: Any, scripts: dict[str, list[Any]] | None = None, **options: Any
    ) -> None:
        self.server = Server(scripts or {ALL: list(script)})
        self.told: Told = []
        client = cast("Client", self.server)
        self.cache = Cache(client, WIDGETS, Form, colour, changed=self._changed, **options)

    def _changed(self, key: Key, old: str | None, new: str | None) -> None:
        self.told.append((key[1], old, new))

    @property
    def content(self) -> dict[str, str]:
        return {name: str(self.cache.get((space, name))) for space, name in self.cache.keys()}  # noqa: SIM118

    async def until_idle(self) -> None:
        """Follow the script to its end."""
        following = asyncio.create_task(self.cache.run())
        waiting = asyncio.create_task(self.server.idle.wait())
        await asyncio.wait({following, waiting}, return_when=asyncio.FIRST_COMPLETED)
        ended = following.done()
        following.cancel()
        waiting.cancel()
        await asyncio.gather(following, waiting, return_exceptions=True)
        if ended:
            following.result()


def follow(*script: Any, **options: Any) -> Followed:
    followed = Followed(*script, **options)
    run(followed.until_idle())
    return followed


def test_a_list_comes_page_by_page_and_every_object_is_told_once() -> None:
    followed = follow(
        page(9, widget("a", 1), more="next"),
        page(9, widget("b", 2, "blue"), more="last"),
        page(9),
    )
    assert followed.content == {"a": "red", "b": "blue"}
    assert followed.told == [("a", None, "red"), ("b", None, "blue")]
    pages = [each for _, each in followed.server.asked if "limit" in each]
    assert [each.get("continue") for each in pages] == [None, "next", "last"]
    assert followed.server.positions == ["9"]
    assert len(followed.cache) == 2
    assert list(followed.cache.values()) == ["red", "blue"]


def test_it_is_synced_when_the_last_page_is_read_and_not_before() -> None:
    followed = Followed(page(9, widget("a", 1), more="next"), page(9, widget("b", 2)))
    synced = []
    followed.cache.changed = lambda key, old, new: synced.append(followed.cache.synced)

    async def scenario() -> None:
        waiting = asyncio.create_task(followed.cache.wait_until_synced())
        await asyncio.sleep(1)
        assert not waiting.done()
        await followed.until_idle()
        await waiting

    run(scenario())
    assert synced == [False, False]
    assert followed.cache.synced


def test_a_selector_goes_along_with_lists_and_watches() -> None:
    followed = follow(page(9), [], select={"labelSelector": "ours=yes"})
    assert {each.get("labelSelector") for _, each in followed.server.asked} == {"ours=yes"}


def test_a_watch_adds_changes_and_removes() -> None:
    followed = follow(
        page(9, widget("a", 1), widget("b", 2)),
        [
            line("ADDED", widget("c", 10)),
            line("MODIFIED", widget("a", 11, "blue")),
            bookmark(20),
            line("DELETED", widget("b", 21)),
        ],
    )
    assert followed.content == {"a": "blue", "c": "red"}
    assert followed.told[2:] == [("c", None, "red"), ("a", "red", "blue"), ("b", "red", None)]
    assert followed.server.positions == ["9", "21"]


def test_a_watch_asks_for_bookmarks_and_ends_before_it_is_taken_for_dead() -> None:
    """One of Events has nothing to say for as long as all is well, not even bookmarks."""
    followed = follow(page(9))
    (watch,) = (each for _, each in followed.server.asked if "watch" in each)
    assert watch["allowWatchBookmarks"] == "true"
    assert int(watch["timeoutSeconds"]) > 60
    assert max(module.WATCH_SECONDS) < client.IDLE_SECONDS


def test_a_change_that_says_nothing_new_is_not_told() -> None:
    followed = follow(page(9, widget("a", 1)), [line("MODIFIED", widget("a", 12))])
    assert followed.told == [("a", None, "red")]


@pytest.mark.parametrize("cut", [Unreachable("reset by peer"), ApiError(500, "", "overloaded")])
def test_a_watch_that_breaks_goes_on_from_where_it_was(cut: Exception) -> None:
    followed = follow(
        page(9, widget("a", 1)),
        [line("ADDED", widget("b", 10)), cut],
        cut,
        [bookmark(30)],
        [line("DELETED", widget("a", 31))],
    )
    assert followed.server.positions == ["9", "10", "10", "30", "31"]
    assert followed.content == {"b": "red"}


@pytest.mark.parametrize("garbage", [b"<html>", b'{"type":"ADDED","object":{"metadata":5}}'])
def test_a_line_that_is_no_event_is_complained_about_and_survived(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        followed = follow(page(9), [garbage], [line("ADDED", widget("b", 10))])
    assert followed.content == {"b": "red"}
    assert followed.server.positions[:2] == ["9", "9"]
    assert "cannot follow" in caplog.text


@pytest.mark.parametrize(
    "end",
    [[GONE], GONE, [line("ERROR", EXPIRED)], [line("ERROR", {**EXPIRED, "metadata": {}})]],
    ids=["while it is read", "at once", "as an event", "as an event that looks like an object"],
)
def test_a_version_that_is_too_old_leads_to_a_new_list_and_the_difference_is_told(
    end: Any,
) -> None:
    followed = follow(
        page(9, widget("same", 1), widget("gone", 2), widget("changed", 3)),
        end,
        page(90, widget("same", 1), widget("changed", 80, "blue"), widget("new", 81)),
    )
    assert followed.content == {"same": "red", "changed": "blue", "new": "red"}
    assert sorted(followed.told[3:]) == [
        ("changed", "red", "blue"),
        ("gone", "red", None),
        ("new", None, "red"),
    ]
    assert followed.server.positions == ["9", "90"]


@pytest.mark.parametrize("more", [{}, {"metadata": {}}], ids=["a Status", "like an object"])
def test_another_error_of_a_watch_is_complained_about_and_leads_to_no_new_list(
    more: Document, caplog: pytest.LogCaptureFixture
) -> None:
    error = {"kind": "Status", "message": "etcd has no leader", "code": 500, **more}
    with caplog.at_level(logging.WARNING):
        followed = follow(
            page(9, widget("a", 1)),
            [line("ADDED", widget("b", 10)), line("ERROR", error), line("ADDED", widget("x", 11))],
            [line("ADDED", widget("c", 12))],
        )
    # What comes after an error on the same watch is not heard.
    assert followed.content == {"a": "red", "b": "red", "c": "red"}
    assert followed.server.positions == ["9", "10", "12"]
    assert f"cannot follow {ALL}: etcd has no leader" in caplog.text


def odd(name: str, version: int) -> Document:
    return {**widget(name, version), "colour": 5}


def test_one_odd_object_does_not_keep_the_others_from_being_listed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        followed = follow(
            page(9, widget("a", 1), odd("b", 2), widget("c", 3), more="next"),
            page(9, odd("d", 4), widget("e", 5)),
            [line("ADDED", widget("f", 10))],
        )
    assert followed.content == dict.fromkeys("acef", "red")
    assert followed.told == [(each, None, "red") for each in "acef"]
    assert followed.cache.synced
    # It is no reason to list again.
    assert followed.server.positions == ["9", "10"]
    for name in "bd":
        assert f"cannot read {ALL} team/{name}" in caplog.text
    assert "cannot follow" not in caplog.text


def test_one_odd_event_does_not_keep_the_others_from_being_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        followed = follow(
            page(9, widget("a", 1)),
            [
                line("ADDED", odd("b", 10)),
                line("ADDED", widget("c", 11)),
                line("MODIFIED", odd("b", 12)),
            ],
            [line("DELETED", odd("b", 13)), line("DELETED", widget("a", 14))],
        )
    assert followed.content == {"c": "red"}
    assert followed.told == [("a", None, "red"), ("c", None, "red"), ("a", "red", None)]
    assert followed.server.positions == ["9", "12", "14"]
    assert f"cannot read {ALL} team/b" in caplog.text
    assert "cannot follow" not in caplog.text


def test_an_object_that_turns_odd_is_gone_until_it_can_be_read_again() -> None:
    followed = follow(
        page(9, widget("a", 1), widget("b", 2)),
        [line("MODIFIED", odd("a", 10))],
        GONE,
        page(20, widget("a", 15), odd("b", 16)),
        [line("MODIFIED", widget("b", 21, "blue"))],
    )
    assert followed.content == {"a": "red", "b": "blue"}
    assert followed.told[2:] == [
        ("a", "red", None),
        ("a", None, "red"),
        ("b", "red", None),
        ("b", None, "blue"),
    ]


def test_a_list_that_expires_between_its_pages_begins_anew() -> None:
    followed = follow(
        page(9, widget("a", 1), more="next"),
        GONE,
        page(20, widget("b", 15), more="next"),
        page(20, widget("c", 16)),
    )
    assert followed.content == {"b": "red", "c": "red"}
    continues = [each.get("continue") for _, each in followed.server.asked if "limit" in each]
    assert continues == [None, "next", None, "next"]


def test_a_list_that_is_refused_is_tried_again_with_longer_and_longer_pauses() -> None:
    forbidden = ApiError(403, "Forbidden", "may not list")
    followed = Followed(*[forbidden] * 8, page(9, widget("a", 1)))

    async def scenario() -> float:
        await followed.until_idle()
        return asyncio.get_running_loop().time()

    seconds = run(scenario())
    assert followed.content == {"a": "red"}
    pauses = [min(module.FIRST_PAUSE * 2**each, module.LONGEST_PAUSE) for each in range(8)]
    assert sum(pauses) / 2 <= seconds <= sum(pauses)


def test_what_keep_has_no_interest_in_is_not_there() -> None:
    followed = follow(
        page(9, widget("a", 1, colour=""), widget("b", 2)),
        [
            line("MODIFIED", widget("a", 10, colour="")),
            line("MODIFIED", widget("b", 11, colour="")),
            line("MODIFIED", widget("a", 12, colour="blue")),
            line("DELETED", widget("b", 13, colour="")),
        ],
    )
    assert followed.content == {"a": "blue"}
    assert followed.told == [("b", None, "red"), ("b", "red", None), ("a", None, "blue")]


def test_objects_are_found_by_the_value_of_the_index() -> None:
    followed = Followed(
        page(9, widget("a", 1), widget("b", 2, "blue"), widget("c", 3)),
        [
            line("MODIFIED", widget("a", 10, "blue")),
            line("DELETED", widget("c", 11)),
            line("MODIFIED", widget("b", 12, "green")),
        ],
        index=lambda kept: kept[0],
    )
    groups: list[tuple[list[str], list[str]]] = []
    note = followed.cache.changed

    def changed(key: Key, old: str | None, new: str | None) -> None:
        note(key, old, new)
        groups.append((followed.cache.group("r"), followed.cache.group("b")))

    followed.cache.changed = changed
    run(followed.until_idle())
    assert groups == [
        (["red"], []),
        (["red"], ["blue"]),
        (["red", "red"], ["blue"]),
        (["red"], ["blue", "blue"]),
        ([], ["blue", "blue"]),
        ([], ["blue"]),
    ]
    assert followed.cache.group("g") == ["green"]
    assert followed.cache.group("unheard of") == []


def test_several_namespaces_are_followed_each_on_its_own() -> None:
    followed = follow(
        namespaces=["team", "lab"],
        scripts={
            IN_TEAM: [page(9, widget("a", 1)), GONE, page(50)],
            IN_LAB: [page(9, widget("a", 2, "blue", "lab"))],
        },
    )
    # The list of one namespace says nothing about the other.
    assert followed.cache.keys() == [("lab", "a")]
    assert followed.cache.get(("lab", "a")) == "blue"
    assert followed.cache.get(("team", "a")) is None
    assert {path for path, _ in followed.server.asked} == {IN_TEAM, IN_LAB}
    assert followed.cache.synced


def put(followed: Followed, body: Document) -> str | None:
    return followed.cache.put(msgspec.json.encode(body))


def test_an_answer_of_our_own_is_known_at_once_and_told_once() -> None:
    followed = follow(page(9))
    assert put(followed, widget("a", 10)) == "red"
    assert followed.content == {"a": "red"}
    follow_on(followed, [line("ADDED", widget("a", 10))])
    assert followed.told == [("a", None, "red")]


def follow_on(followed: Followed, lines: list[bytes]) -> None:
    """Let the same cache hear more, from where it was."""
    followed.server.scripts[ALL] = [page(9), lines]
    followed.server.idle = asyncio.Event()
    # The list of a new round is as old as the first: it must not drop what is newer.
    run(followed.until_idle())


def test_an_answer_that_the_watch_is_past_is_ignored() -> None:
    followed = follow(page(9), [line("ADDED", widget("a", 12, "blue"))])
    assert put(followed, widget("a", 11)) == "red"
    assert followed.content == {"a": "blue"}


def test_an_answer_about_something_that_was_deleted_since_is_ignored() -> None:
    followed = follow(page(9, widget("a", 1)), [line("DELETED", widget("a", 12))])
    put(followed, widget("a", 11))
    assert followed.content == {}
    # Also where the watch only knows that time has passed.
    followed = follow(page(9), [bookmark(20)])
    put(followed, widget("a", 15))
    assert followed.content == {}


def test_a_deletion_that_is_older_than_what_we_made_since_does_not_drop_it() -> None:
    followed = follow(page(9, widget("a", 1)))
    put(followed, widget("a", 15, "blue"))
    follow_on(followed, [line("DELETED", widget("a", 12))])
    assert followed.content == {"a": "blue"}
    assert followed.told == [("a", None, "red"), ("a", "red", "blue")]


def test_an_odd_event_that_is_older_than_what_we_made_since_does_not_drop_it() -> None:
    followed = follow(page(9, widget("a", 1)))
    put(followed, widget("a", 15, "blue"))
    follow_on(followed, [line("MODIFIED", odd("a", 12))])
    assert followed.content == {"a": "blue"}


def test_a_list_that_is_older_than_what_we_made_since_does_not_drop_it() -> None:
    followed = follow(page(9), [])
    put(followed, widget("a", 15))
    follow_on(followed, [])
    assert followed.content == {"a": "red"}


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    strange: list[Document] = [widget("a", 1), widget("a", 2, "blue")]
    for number, each in enumerate(strange):
        each["metadata"]["resourceVersion"] = f"v{number}"
    followed = follow(page(9, strange[0]), [line("MODIFIED", strange[1])])
    assert followed.content == {"a": "blue"}
    assert followed.server.positions[-1] == "v1"


def of_real_objects(*script: Any, index: Callable[[Child], Hashable]) -> tuple[Server, Any]:
    server = Server({"/api/v1/services": list(script)})
    cache = Cache(cast("Client", server), SERVICE, ServiceForm, service_of, index=index)

    async def scenario() -> None:
        following = asyncio.create_task(cache.run())
        await server.idle.wait()
        following.cancel()

    run(scenario())
    return server, cache


def test_a_watch_of_the_operator_s_own_forms_goes_on_from_where_it_was() -> None:
    def service(name: str, version: int) -> Document:
        labels = {"team": "a"}
        metadata = {"name": name, "namespace": "team", "resourceVersion": str(version)}
        return {"metadata": {**metadata, "labels": labels}, "spec": {"type": "ClusterIP"}}

    server, cache = of_real_objects(
        page(9, service("a", 1)),
        [line("ADDED", service("b", 10))],
        [line("MODIFIED", service("b", 11))],
        index=lambda child: child.metadata.labels["team"],
    )
    assert [each.metadata.name for each in cache.group("a")] == ["a", "b"]
    # Without a version the server would begin with all that is there, and not tell what went.
    assert server.positions == ["9", "10", "11"]
