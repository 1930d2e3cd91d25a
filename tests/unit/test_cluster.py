"""The pure parts of the commands for Federations on a cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from flower_operator.cli.cluster_table import federation_table, list_table
from flower_operator.cli.live import LiveTable
from flower_operator.cli.places import Where, here
from flower_operator.cluster import logs
from flower_operator.cluster.errors import ClusterError, explain
from flower_operator.cluster.federations import Federation, in_order
from flower_operator.cluster.pods import Pod, matching, superlink_pod
from flower_operator.cluster.runs import forwarded
from flower_operator.kube.client import Client
from flower_operator.kube.connection import Connection
from flower_operator.kube.errors import ApiError, Unreachable, error_of
from flower_operator.kube.logs import MAX_LINE_BYTES, read_log
from flower_operator.local import state
from flower_operator.local.federations import LocalError
from tests.unit import virtual_time
from tests.unit.federations import Document
from tests.unit.test_client import serve
from tests.unit.test_examination import LINK, NOT_READY, NOW, READY, WELL, federation, pod
from tests.unit.test_forward import nobody
from tests.unit.test_troubles import BACK_OFF, RUNNING, terminated, with_container

SERVER = "https://cluster"
BAD = pod(status=with_container(BACK_OFF, terminated(1, message="bad flag")))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Unreachable("no route"), "the cluster at https://cluster cannot be reached: no route"),
        (ApiError(401, "Unauthorized", "Unauthorized"), "does not know the kubeconfig's user"),
        (error_of(404, b"404 page not found\n"), "their CustomResourceDefinition is missing"),
        (ApiError(404, "NotFound", "pods x not found"), "the cluster says: pods x not found"),
        (ApiError(403, "Forbidden", 'User "me" cannot'), 'the cluster says: User "me" cannot'),
    ],
)
def test_an_error_is_one_line_that_names_the_fault(error: Any, words: str) -> None:
    said = explain(error, SERVER)
    assert words in said
    assert "\n" not in said


PODS = [LINK, pod(), pod("lab-supernode-north-1"), pod("lab-supernode-east-x7f2p")]
PODS += [pod("lab-serverapp-6c-y", component="superexec-serverapp")]


@pytest.mark.parametrize(
    ("component", "titles"),
    [
        (None, ["superlink", "north-0", "north-1", "east-x7f2p", "serverapp"]),
        ("superlink", ["superlink"]),
        ("serverapp", ["serverapp"]),
        ("lab-superlink-5d-x", ["superlink"]),
        ("north", ["north-0", "north-1", "east-x7f2p"]),  # all are of pool north by their label
        ("north-1", ["north-1"]),
        ("lab-supernode-north-1", ["north-1"]),
        ("north-1/supernode", ["north-1"]),
        ("lab-supernode-north-1/supernode", ["north-1"]),
    ],
)
def test_the_words_for_components(component: str | None, titles: list[str]) -> None:
    assert [found.title for found, _ in matching(PODS, component)] == titles


def test_pods_are_told_in_order() -> None:
    titles = [each.title for each in in_order(PODS[::-1])]
    assert titles == ["superlink", "serverapp", "east-x7f2p", "north-0", "north-1"]


@pytest.mark.parametrize("component", ["west", "north-2", "north-1/superlink", "north/supernode"])
def test_a_word_that_means_nothing_names_those_that_do(component: str) -> None:
    with pytest.raises(ClusterError, match="there are east-x7f2p, north-0, north-1, serverapp"):
        matching(PODS, component)


def test_the_pod_to_forward_to_is_a_superlink_that_is_ready_and_stays() -> None:
    leaving = pod(
        "lab-superlink-5d-a", component="superlink", deletionTimestamp="2027-01-15T08:00:00Z"
    )
    starting = pod("lab-superlink-5d-b", {"phase": "Pending"}, component="superlink")
    assert superlink_pod("lab", [leaving, starting, LINK, pod()]) == "lab-superlink-5d-x"
    with pytest.raises(ClusterError, match="the SuperLink of lab is not ready"):
        superlink_pod("lab", [leaving, starting, pod()])
    with pytest.raises(ClusterError, match="the SuperLink of lab has no pod"):
        superlink_pod("lab", [pod()])


@pytest.mark.parametrize(
    ("release", "section"),
    [("1.25.0", ("tool", "flwr", "federations", "lab")), ("1.41.0", ("superlink", "lab"))],
)
def test_a_connection_by_hand_is_in_the_form_of_the_release(
    release: str, section: tuple[str, ...]
) -> None:
    endpoints = {"superlinkService": "lab-superlink.team.svc:7777"}
    found = federation({**WELL, "release": release, "endpoints": endpoints})
    target, arguments = forwarded(found)
    assert (target.address, target.section) == ("127.0.0.1:7777", section)
    assert arguments == "port-forward -n team service/lab-superlink 7777"


def test_no_connection_where_it_would_not_work() -> None:
    with pytest.raises(ClusterError, match="not said yet which Flower release lab runs"):
        forwarded(federation({"conditions": []}))


def table(status: Document, pods: list[Pod], width: int | None = None) -> list[str]:
    return federation_table(federation({**WELL, **status}), pods, NOW, width)


def test_a_table_tells_each_trouble_once() -> None:
    said = "pod lab-supernode-north-0: container supernode ended with exit code 1: bad flag"
    conditions = [
        {"type": "Ready", "status": "False", "reason": "CrashLoop", "message": said},
        {"type": "Degraded", "status": "True", "reason": "CrashLoop", "message": said},
        {"type": "Reconciling", "status": "False", "reason": "CrashLoop", "message": "waiting"},
        {"type": "SuperLinkAvailable", "status": "True", "reason": "Available", "message": "yes"},
    ]
    pools = [{"name": "north", "kind": "StatefulSet", "ready": 0, "desired": 1}]
    lines = table({"conditions": conditions, "pools": pools}, [LINK, BAD])
    assert lines[0] == "lab: not ready, 1/1 SuperNodes ready, 1 connected"
    assert lines[2].split() == ["POOL", "KIND", "READY", "FLOWER", "REASON"]
    assert lines[3].split() == ["north", "StatefulSet", "0/1"]
    assert lines[4:] == [f"  Ready False, Degraded True: CrashLoop: {said}"]


def test_a_table_tells_where_a_fleet_is() -> None:
    clusters = [
        {"name": "paris", "desired": 2, "ready": 2, "addon": "Available", "partitions": "0-1"},
        {"name": "rome", "desired": 2, "addon": "Lost", "partitions": "2,5", "lastSeen": "monday"},
    ]
    pool = {"name": "edge", "kind": "StatefulSet", "ready": 2, "desired": 4, "clusters": clusters}
    lines = table({"pools": [pool]}, [LINK])
    assert [line.split() for line in lines[5:]] == [
        ["CLUSTER", "POOL", "READY", "CONNECTED", "PARTITIONS", "ADDON", "LAST", "SEEN"],
        ["paris", "edge", "2/2", "?", "0-1", "Available", "now"],
        ["rome", "edge", "0/2", "?", "2,5", "Lost", "monday"],
    ]


def test_a_table_tells_how_far_another_release_has_come() -> None:
    words = {"reason": "UpgradingPools", "message": "1 of 2 pools done"}
    states = {"Ready": "False", "Reconciling": "True", "Upgrading": "True"}
    conditions = [{"type": each, "status": said, **words} for each, said in states.items()]
    assert table({"conditions": conditions}, [LINK])[2:] == [
        "  Ready False, Reconciling True, Upgrading True: UpgradingPools: 1 of 2 pools done"
    ]
    done = {"type": "Upgrading", "status": "False", "reason": "Done", "message": "yes"}
    assert table({"conditions": [*WELL["conditions"], done]}, [LINK])[2:] == []


def test_a_pod_is_told_of_where_the_conditions_are_silent() -> None:
    lines = table({}, [LINK, BAD])
    assert lines[2:] == [
        "  pod lab-supernode-north-0: CrashLoop: "
        "container supernode ended with exit code 1: bad flag"
    ]


def test_a_status_of_another_generation_says_so() -> None:
    lines = table({"observedGeneration": 0}, [LINK])
    assert lines[0].startswith("lab: not ready, ")
    assert "has not seen generation 1 yet" in lines[2]


def test_in_a_terminal_long_messages_are_broken_and_nothing_is_wider() -> None:
    conditions = [{**NOT_READY[0], "message": "many words " * 20}]
    lines = table({"conditions": conditions}, [LINK], width=50)
    assert " ".join("".join(lines).split()).count("many words") == 20
    assert max(map(len, lines)) < 50


def test_the_list_is_that_of_kubectl() -> None:
    found = federation(mode="StatefulSet", isolationMode="process")
    found.metadata.creation_timestamp = datetime(2027, 1, 15, 7, tzinfo=UTC)
    assert [line.split() for line in list_table([found], NOW, namespaces=True)] == [
        ["NAMESPACE", "NAME", "MODE", "ISOLATION", "SUPERNODES", "READY", "AGE"],
        ["team", "lab", "StatefulSet", "process", "1/1", "True", "1h"],
    ]


def test_without_a_terminal_each_change_is_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["one"]
    live = LiveTable(lambda: lines, each=True)
    live.refresh()
    live.refresh()
    lines = ["two"]
    live.refresh()
    assert capsys.readouterr().out == "one\n\ntwo\n"


class _Running(state.Record):
    def is_running(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("where", "name", "local"),
    [
        (Where(None, None, False), "lab", True),
        (Where(None, None, False), "other", False),
        (Where("team", None, False), "lab", False),
        (Where(None, "cluster", False), "lab", False),
        (Where(None, None, True), "lab", False),
        (Where(None, None, False), None, True),
        (Where(None, None, True), None, False),
    ],
)
def test_a_federation_of_this_machine_comes_first_unless_a_cluster_is_named(
    monkeypatch: pytest.MonkeyPatch, where: Where, name: str | None, local: bool
) -> None:
    found = [_Running(Path("/state/lab"))]
    monkeypatch.setattr(state, "records", lambda: found)
    monkeypatch.setattr("flower_operator.local.federations.records", lambda: found)
    assert (here(name, where) is found[0]) is local


def test_one_of_several_on_this_machine_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [_Running(Path("/state/lab")), _Running(Path("/state/other"))]
    monkeypatch.setattr(state, "records", lambda: found)
    monkeypatch.setattr("flower_operator.local.federations.records", lambda: found)
    with pytest.raises(LocalError, match="say which Federation; running: lab, other"):
        here(None, Where(None, None, False))


def test_a_log_is_read_on_from_where_it_was() -> None:
    text = b"2027-01-15T08:00:00.1Z one\n2027-01-15T08:00:00.2Z \n2027-01-15T08:00:00.3Z last"

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=text)

    async def scenario() -> list[tuple[str, bytes]]:
        async with serve(answer) as server, Client(server.connection, "test") as client:
            log = read_log(client, "team", "link", "superlink", after="2027-01-15T08:00:00.1Z")
            found = [line async for line in log]
        query = server.request.query
        assert query["sinceTime"] == "2027-01-15T08:00:00.1Z"
        assert "follow" not in query
        return found

    times = ("2027-01-15T08:00:00.2Z", "2027-01-15T08:00:00.3Z")
    assert asyncio.run(scenario()) == [(times[0], b""), (times[1], b"last")]


def test_a_line_without_end_is_cut() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(
            body=b"2027-01-15T08:00:00.1Z " + b"x" * 3 * MAX_LINE_BYTES + b"\nZ end"
        )

    async def scenario() -> list[tuple[str, bytes]]:
        async with serve(answer) as server, Client(server.connection, "test") as client:
            return [line async for line in read_log(client, "team", "link", "superlink")]

    (first, second) = asyncio.run(scenario())
    assert len(first[1]) < MAX_LINE_BYTES
    assert second == ("Z", b"end")


def test_a_container_that_starts_again_is_read_again_and_one_that_rests_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    said: list[bytes] = []

    async def read(*_: Any, after: str, **__: Any) -> AsyncIterator[tuple[str, bytes]]:
        asked.append(after)
        yield f"time {len(asked)}", b"line %d" % len(asked)

    async def scenario() -> None:
        monkeypatch.setattr(logs, "read_log", read)
        async with asyncio.TaskGroup() as group:
            follower = logs._Follower(
                Client(Connection("", None, nobody), ""),
                None,
                lambda _, line: said.append(line),
                group,
            )
            resting = with_container(BACK_OFF, restarts=1)
            follower.look([pod(status=resting)])
            await asyncio.sleep(100)
            assert len(asked) == 1
            follower.look([pod(status=resting)])
            await asyncio.sleep(100)
            assert len(asked) == 1
            follower.look([pod(status=with_container(BACK_OFF, restarts=2))])
            await asyncio.sleep(100)
            assert asked == ["", "time 1"]
            follower.look([pod(status=with_container(RUNNING, restarts=3))])
            await asyncio.sleep(3.5)
            assert len(asked) > 3, "one that runs has more to say"
            follower.look([])  # and that is the end of it

    virtual_time.run(scenario())
    assert said[:2] == [b"line 1", b"line 2"]


def test_a_log_that_may_not_be_read_ends_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(*_: Any, **__: Any) -> AsyncIterator[tuple[str, bytes]]:
        raise ApiError(403, "Forbidden", "you cannot get pods/log")
        yield "", b""

    class Found:
        async def views(self) -> AsyncIterator[tuple[Federation, list[Pod]]]:
            yield federation(), [pod(status=READY)]
            await asyncio.Event().wait()

    @asynccontextmanager
    async def follow(*_: Any) -> AsyncIterator[Found]:
        yield Found()

    monkeypatch.setattr(logs, "read_log", read)
    monkeypatch.setattr(logs, "following", follow)
    client = Client(Connection("", None, nobody), "")
    with pytest.raises(ApiError, match="you cannot get"):
        virtual_time.run(logs.follow_logs(client, federation(), None, lambda _, line: None))
