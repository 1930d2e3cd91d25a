"""How often each SuperLink is asked who is connected, on a clock of the test's own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from flower_operator.control import BadAnswer, Refused, Unreachable
from flower_operator.flower.control import Node, Refusal, Run
from flower_operator.flower.dialects import Dialect, dialect_of
from flower_operator.flower.releases import Release
from flower_operator.operator.connections import (
    AT_ONCE,
    ENOUGH,
    MOST_A_SECOND,
    SELDOM,
    SOON,
    TIMEOUT,
    Connections,
)
from flower_operator.operator.desired import desired_of
from flower_operator.status.observation import Connected
from flower_operator.status.outline import Outline
from flower_operator.trust.keys import Enrolment, Keyring, Roster
from tests.unit.federations import document
from tests.unit.observations import federation
from tests.unit.virtual_time import now, run

KEY = ("team", "fed")


def outline(**fields: Any) -> Outline:
    return desired_of(federation(document(**fields)))[0].outline


OUTLINE = outline()
ADDRESS = OUTLINE.endpoint
ASKING = Connected(asking=True)


@dataclass
class Question:
    address: str
    dialect: Dialect
    timeout: float
    time: float
    roots: str | None
    supernodes: int
    closed: bool = False


@dataclass
class SuperLinks:
    """What each would answer; one that is not here does not."""

    online: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    asked: list[Question] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    """With keys."""
    busy: int = 0
    busiest: int = 0

    def client(
        self, dialect: Dialect, address: str, timeout: float, roots: str | None, supernodes: int
    ) -> "Client":
        self.asked.append(Question(address, dialect, timeout, now(), roots, supernodes))
        if roots == "no certificates":
            raise Unreachable("its root certificates are not certificates in PEM")
        return Client(self, self.asked[-1])

    @property
    def times(self) -> list[float]:
        return [each.time for each in self.asked]


@dataclass
class Client:
    links: SuperLinks
    question: Question

    async def nodes(self) -> list[Node]:
        links = self.links
        links.busy += 1
        links.busiest = max(links.busiest, links.busy)
        try:
            await asyncio.sleep(links.seconds)
        finally:
            links.busy -= 1
        if (count := links.online.get(self.question.address)) is None:
            raise Unreachable("connection refused")
        return [Node(each, "online", None, None) for each in range(count)] + links.nodes

    async def register(self, public_key: bytes, name: str) -> int:
        number = 1000 + len(self.links.nodes)
        self.links.nodes.append(Node(number, "registered", public_key, name))
        return number

    async def unregister(self, node_id: int) -> None:
        self.links.nodes = [
            replace(node, status="unregistered") if node.id == node_id else node
            for node in self.links.nodes
        ]

    async def runs(self) -> list[Run]:
        return self.links.runs

    async def close(self) -> None:
        self.question.closed = True


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> SuperLinks:
    links = SuperLinks()
    monkeypatch.setattr("flower_operator.control.ControlClient", links.client)
    return links


class Running:
    """Connections at work, and whom they told of."""

    def __init__(self, *, outside: bool = False) -> None:
        self.told: list[tuple[str, str]] = []
        self.connections = Connections(None if outside else self.locate, self.told.append)

    def locate(self, address: str) -> str:
        return address

    def follow(self, key: tuple[str, str] = KEY, of: Outline = OUTLINE, wanted: int = 2) -> None:
        self.connections.follow(key, of, wanted, "roots" if of.secure else None)

    def follow_many(self, number: int, wanted: int = 2) -> None:
        for each in range(number):
            self.follow(("team", f"fed{each}"), replace(OUTLINE, endpoint=f"link{each}:1"), wanted)


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Running]:
    made = Running(**options)
    working = asyncio.create_task(made.connections.run())
    yield made
    assert not working.done()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


def about(*times: float) -> Any:
    return pytest.approx(list(times), abs=0.01)


@pytest.mark.parametrize("turns", range(4))
def test_it_ends_also_when_it_is_cancelled_while_it_wakes_up(links: SuperLinks, turns: int) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        its = Running()
        working = asyncio.create_task(its.connections.run())
        its.follow()
        await asyncio.sleep(1)
        its.follow(("team", "other"))
        for _ in range(turns):
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait({working}, timeout=5)
        assert working.cancelled()

    run(scenario())


def test_a_superlink_is_asked_at_once_and_its_answer_is_told(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        async with running() as its:
            await asyncio.sleep(5)
            assert its.connections.get(KEY) == ASKING
            its.follow()
            await asyncio.sleep(0.1)
            assert links.times == about(5)
            assert its.connections.get(KEY) == Connected(2)
            assert its.told == [KEY]
            assert its.connections.get(("team", "other")) == ASKING
        (question,) = links.asked
        assert (question.address, question.timeout) == (ADDRESS, TIMEOUT)
        assert question.dialect == dialect_of(Release(1, 25))

    run(scenario())


def test_a_superlink_is_asked_soon_again_while_nodes_are_missing(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 0
        async with running() as its:
            its.follow(wanted=2)
            await asyncio.sleep(2 * SOON + 1)
            assert links.times == about(0, SOON, 2 * SOON)
            links.online[ADDRESS] = 1
            await asyncio.sleep(SOON)
            assert its.connections.get(KEY) == Connected(1)
            links.online[ADDRESS] = 2
            await asyncio.sleep(SOON)
            assert its.connections.get(KEY) == Connected(2)

    run(scenario())


@pytest.mark.parametrize("count", [2, 3])
def test_a_superlink_is_asked_seldom_when_all_are_there(links: SuperLinks, count: int) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = count
        async with running() as its:
            its.follow(wanted=2)
            await asyncio.sleep(2 * SELDOM + 1)
            assert links.times == about(0, SELDOM, 2 * SELDOM)
            # Some leave: from the next question on it is asked soon again.
            links.online[ADDRESS] = 1
            await asyncio.sleep(SELDOM + SOON)
            assert links.times[3:] == about(3 * SELDOM, 3 * SELDOM + SOON)

    run(scenario())


def test_how_many_are_wanted_counts_as_of_the_last_word(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        async with running() as its:
            its.follow(wanted=4)
            await asyncio.sleep(SOON - 1)
            its.follow(wanted=2)
            await asyncio.sleep(SOON + SELDOM)
            assert links.times == about(0, SOON, SOON + SELDOM)

    run(scenario())


def test_a_superlink_is_asked_soon_when_more_are_wanted(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        async with running() as its:
            its.follow(wanted=2)
            await asyncio.sleep(1)
            its.follow(wanted=4)
            links.online[ADDRESS] = 4
            await asyncio.sleep(SOON + SELDOM + 1)
            # The question that was planned before is not asked beside it.
            assert links.times == about(0, 1 + SOON, 1 + SOON + SELDOM)
            assert its.connections.get(KEY) == Connected(4)

    run(scenario())


def test_only_an_answer_that_is_new_is_told(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 1
        async with running() as its:
            its.follow()
            await asyncio.sleep(20 * SOON)
            assert len(links.asked) > 15
            assert its.told == [KEY]
            links.online[ADDRESS] = 2
            await asyncio.sleep(5 * SELDOM)
            assert its.told == [KEY] * 2
            del links.online[ADDRESS]
            await asyncio.sleep(5 * SELDOM)
            assert its.told == [KEY] * 3

    run(scenario())


def test_an_answer_of_none_is_an_answer(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 0
        async with running() as its:
            its.follow()
            await asyncio.sleep(1)
            assert its.connections.get(KEY) == Connected(0)
            assert its.told == [KEY]

    run(scenario())


def test_a_superlink_that_does_not_answer_is_named_and_asked_seldom(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.seconds = TIMEOUT
        async with running() as its:
            its.follow()
            await asyncio.sleep(TIMEOUT + 0.1)
            answer = its.connections.get(KEY)
            assert answer.count is None
            assert ADDRESS in answer.why_not
            await asyncio.sleep(SELDOM)
            assert links.times == about(0, TIMEOUT + SELDOM)
            assert its.told == [KEY]
            links.online[ADDRESS] = 2
            await asyncio.sleep(SELDOM + TIMEOUT)
            assert its.connections.get(KEY) == Connected(2)
            assert its.told == [KEY] * 2
        assert all(each.closed for each in links.asked)

    run(scenario())


def test_what_a_superlink_says_against_it_is_passed_on(
    links: SuperLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: Client) -> int:
        raise Refused(Refusal(None, "Log in"))

    async def scenario() -> None:
        monkeypatch.setattr(Client, "nodes", refuse)
        async with running() as its:
            its.follow()
            await asyncio.sleep(0.1)
            answer = its.connections.get(KEY)
            assert answer == Connected(why_not=f"{ADDRESS} does not say: Log in")
        assert links.asked[0].closed

    run(scenario())


def test_an_answer_that_is_none_of_a_superlinks_is_named(
    links: SuperLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lie(_: Client) -> int:
        raise BadAnswer("the SuperLink lists more than 5016 SuperNodes")

    async def scenario() -> None:
        monkeypatch.setattr(Client, "nodes", lie)
        async with running() as its:
            its.follow()
            await asyncio.sleep(0.1)
            message = its.connections.get(KEY).why_not
            assert (
                message == f"{ADDRESS} does not say: the SuperLink lists more than 5016 SuperNodes"
            )

    run(scenario())


def test_as_many_supernodes_are_expected_as_are_wanted_or_have_keys(links: SuperLinks) -> None:
    def roster(keys: int) -> Roster:
        ring = Keyring("", {str(number): f"key-{number}" for number in range(keys)}, ("old",))
        return (("edge", ring, True), ("edge@north", ring, True))

    async def scenario() -> None:
        links.online[ADDRESS] = 9
        async with running() as its:
            for wanted, keys in ((9, 0), (9, 10)):
                its.connections.follow(KEY, OUTLINE, wanted, "roots", roster(keys))
                await asyncio.sleep(0.1)
        assert [question.supernodes for question in links.asked] == [9, 22]

    run(scenario())


def test_one_that_is_followed_again_and_again_is_asked_no_more_for_it(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        async with running() as its:
            for _ in range(int(SELDOM * 4) - 1):
                its.follow()
                await asyncio.sleep(1)
            assert links.times == about(0, SELDOM, 2 * SELDOM, 3 * SELDOM)
            assert its.told == [KEY]

    run(scenario())


@pytest.mark.parametrize("seconds", [0.0, 0.3, 2.5], ids=["quick", "slow", "slower"])
@pytest.mark.parametrize("pause", [0.0, 0.01, 0.7], ids=["no pause", "a short one", "a longer one"])
def test_one_that_comes_and_goes_is_not_asked_ever_more_often(
    links: SuperLinks, seconds: float, pause: float
) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        links.seconds = seconds
        async with running() as its:
            for _ in range(50):
                its.follow()
                await asyncio.sleep(pause)
                its.connections.forget(KEY)
                await asyncio.sleep(pause)
            assert len(links.asked) <= 50
            assert its.connections.get(KEY) == ASKING
            its.follow()
            await asyncio.sleep(60)
            links.asked.clear()
            await asyncio.sleep(10 * SELDOM)
            assert its.connections.get(KEY) == Connected(2)
            assert 8 <= len(links.asked) <= 10
            for one, next_one in pairwise(links.times):
                assert next_one - one >= SELDOM

    run(scenario())


def test_one_that_came_and_went_unheard_is_asked_once(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        async with running() as its:
            for _ in range(100):
                its.follow()
                its.connections.forget(KEY)
            its.follow()
            await asyncio.sleep(SELDOM - 1)
            assert links.times == about(0)

    run(scenario())


def test_one_that_is_forgotten_is_asked_no_more(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 1
        async with running() as its:
            its.follow()
            await asyncio.sleep(1)
            its.connections.forget(KEY)
            its.connections.forget(("team", "never seen"))
            assert its.connections.get(KEY) == ASKING
            await asyncio.sleep(10 * SELDOM)
            assert links.times == about(0)

    run(scenario())


def test_an_answer_that_comes_too_late_is_nobody_s(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 1
        links.seconds = 2.0
        async with running() as its:
            its.follow()
            await asyncio.sleep(1)
            its.connections.forget(KEY)
            await asyncio.sleep(10 * SELDOM)
            assert its.connections.get(KEY) == ASKING
            assert its.told == []
            assert links.times == about(0)
            assert links.asked[0].closed

    run(scenario())


def test_an_answer_from_before_is_not_taken_for_one_from_now(links: SuperLinks) -> None:
    async def scenario() -> None:
        elsewhere = replace(OUTLINE, endpoint="elsewhere:1")
        links.online |= {ADDRESS: 1, "elsewhere:1": 2}
        links.seconds = 2.0
        async with running() as its:
            its.follow()
            await asyncio.sleep(1)
            its.follow(of=elsewhere)
            await asyncio.sleep(1.5)
            assert its.connections.get(KEY) == ASKING
            await asyncio.sleep(1)
            assert its.connections.get(KEY) == Connected(2)
            assert its.told == [KEY]

    run(scenario())


@pytest.mark.parametrize(
    "other",
    [
        replace(OUTLINE, endpoint="elsewhere:1"),
        replace(OUTLINE, release="1.41.0"),
    ],
    ids=["at another address", "in another dialect"],
)
def test_another_superlink_is_asked_at_once(links: SuperLinks, other: Outline) -> None:
    async def scenario() -> None:
        links.online |= {ADDRESS: 2, "elsewhere:1": 2}
        async with running() as its:
            its.follow()
            await asyncio.sleep(10)
            its.follow(of=other)
            await asyncio.sleep(SELDOM - 1)
            assert links.times == about(0, 10)
            assert links.asked[1].address == other.endpoint
            assert (links.asked[1].dialect != links.asked[0].dialect) == (
                other.release != OUTLINE.release
            )
            await asyncio.sleep(SELDOM)
            assert links.times == about(0, 10, 10 + SELDOM)

    run(scenario())


def test_one_with_tls_is_known_by_its_cas(links: SuperLinks) -> None:
    async def scenario() -> None:
        async with running() as its:
            its.connections.follow(KEY, outline(insecure=False), 2, "old")
            await asyncio.sleep(1)
            its.connections.follow(KEY, outline(insecure=False), 2, "old and new")
            await asyncio.sleep(1)
            assert [each.roots for each in links.asked] == ["old", "old and new"]

    run(scenario())


def test_one_whose_cas_cannot_be_read_stops_no_other(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online["other:1"] = 2
        async with running() as its:
            its.connections.follow(KEY, outline(insecure=False), 2, "no certificates")
            other = replace(OUTLINE, endpoint="other:1")
            its.connections.follow(("team", "other"), other, 2, None)
            await asyncio.sleep(1)
            assert its.connections.get(KEY).why_not
            assert its.connections.get(("team", "other")) == Connected(2)

    run(scenario())


def test_a_run_on_one_with_tls_is_known_of(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        links.runs = [Run(1, "finished", "completed"), Run(2, "running", "")]
        async with running() as its:
            its.connections.follow(KEY, outline(insecure=False), 2, "roots")
            await asyncio.sleep(1)
            assert its.connections.get(KEY) == Connected(2, busy=True)
            del links.online[ADDRESS]
            await asyncio.sleep(SELDOM)
            assert its.connections.get(KEY).why_not
            assert its.connections.get(KEY).busy, "it may still be under way"
            links.online[ADDRESS] = 2
            await asyncio.sleep(SELDOM)
            links.runs = links.runs[:1]
            await asyncio.sleep(SELDOM)
            assert its.connections.get(KEY) == Connected(2, busy=False)
            assert its.told == [KEY] * 4

    run(scenario())


def test_keys_are_registered_at_once_and_unregistered_when_they_are_retired(
    links: SuperLinks,
) -> None:
    ring = Keyring("2026-01-01T00:00:00+00:00", {"0": "first", "1": "second"})
    fewer = replace(ring, keys={"0": "first"}, retired=("second",))

    async def scenario() -> None:
        links.online[ADDRESS] = 2
        links.nodes.append(Node(7, "registered", b"a stranger's", ""))
        async with running() as its:
            secure = outline(
                insecure=False, supernodeAuth={"enabled": True, "allowSubprocess": True}
            )
            its.connections.follow(KEY, secure, 2, "roots", (("north", ring, True),))
            await asyncio.sleep(1)
            known = its.connections.get(KEY).enrolment
            both = frozenset({"first", "second"})
            assert known == Enrolment(registered=both, asked=frozenset())
            assert [node.name for node in links.nodes] == ["", "north-0", "north-1"]
            its.connections.follow(KEY, secure, 2, "roots", (("north", fewer, True),))
            await asyncio.sleep(1)
            known = its.connections.get(KEY).enrolment
            second = frozenset({"second"})
            assert known == Enrolment(frozenset({"first"}), spent=second, asked=second)
            assert links.nodes[0].status == "registered"

    run(scenario())


def test_a_key_that_is_retired_while_it_is_being_registered_does_not_stay(
    links: SuperLinks,
) -> None:
    ring = Keyring("2026-01-01T00:00:00+00:00", {"0": "lost"})
    anew = Keyring("2026-01-02T00:00:00+00:00", {"0": "new"}, retired=("lost",))

    async def scenario() -> None:
        links.online[ADDRESS] = 0
        links.seconds = 2.0
        async with running() as its:
            secure = outline(
                insecure=False, supernodeAuth={"enabled": True, "allowSubprocess": True}
            )
            its.connections.follow(KEY, secure, 1, "roots", (("north", ring, True),))
            await asyncio.sleep(1)
            assert not links.nodes
            its.connections.follow(KEY, secure, 1, "roots", (("north", anew, True),))
            await asyncio.sleep(20)
            statuses = {node.public_key: node.status for node in links.nodes}
            assert statuses == {b"lost": "unregistered", b"new": "registered"}
            assert links.busiest == 1

    run(scenario())


def test_runs_are_asked_for_anew_and_often_while_someone_waits_for_them(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        links.runs = [Run(1, "running", "")]
        async with running() as its:
            its.follow()
            await asyncio.sleep(10)
            assert its.connections.get(KEY) == Connected(2)
            for _ in range(2):
                its.connections.follow(KEY, OUTLINE, 2, None, closely=True)
            await asyncio.sleep(2 * SOON + 0.1)
            assert links.times == about(0, 10, 10 + SOON, 10 + 2 * SOON)
            assert its.connections.get(KEY) == Connected(2, busy=True)
            its.follow()
            await asyncio.sleep(SOON)
            assert its.connections.get(KEY) == Connected(2)
            its.connections.follow(KEY, outline(insecure=False), 2, "roots")
            links.runs = []
            await asyncio.sleep(1)
            its.told.clear()
            its.connections.follow(KEY, outline(insecure=False), 2, "roots", closely=True)
            assert its.connections.get(KEY).untold
            await asyncio.sleep(1)
            # The same answer as before, but to a question of now.
            assert its.connections.get(KEY) == Connected(2, busy=False)
            assert its.told == [KEY]

    run(scenario())


def test_one_that_falls_silent_is_given_up_after_a_while(links: SuperLinks) -> None:
    async def scenario() -> None:
        links.online[ADDRESS] = 2
        links.runs = [Run(1, "running", "")]
        async with running() as its:
            its.connections.follow(KEY, OUTLINE, 2, None, closely=True)
            await asyncio.sleep(1)
            del links.online[ADDRESS]
            await asyncio.sleep((ENOUGH - 1) * SOON)
            silent = its.connections.get(KEY)
            assert silent.why_not
            assert (silent.busy, silent.given_up) == (True, False)
            await asyncio.sleep(SOON)
            assert its.connections.get(KEY).given_up
            links.online[ADDRESS] = 2
            await asyncio.sleep(SOON)
            assert its.connections.get(KEY) == Connected(2, busy=True)

    run(scenario())


def test_one_that_cannot_be_understood_is_not_asked(links: SuperLinks) -> None:
    of = replace(OUTLINE, release="nightly")

    async def scenario() -> None:
        links.online[ADDRESS] = 2
        async with running() as its:
            its.follow(of=of)
            await asyncio.sleep(100)
            assert links.asked == []
            assert its.connections.get(KEY) == ASKING
            # Nor any longer, if it was before.
            its.follow()
            await asyncio.sleep(1)
            assert its.connections.get(KEY) == Connected(2)
            its.follow(of=of)
            assert its.connections.get(KEY) == ASKING
            await asyncio.sleep(100)
            assert len(links.asked) == 1

    run(scenario())


def test_outside_of_the_cluster_nobody_is_asked_and_that_is_said(links: SuperLinks) -> None:
    async def scenario() -> None:
        async with running(outside=True) as its:
            its.follow()
            await asyncio.sleep(100)
            answer = its.connections.get(KEY)
            assert answer.count is None
            assert "outside of the cluster" in answer.why_not
            assert its.told == []
        assert links.asked == []

    run(scenario())


def test_a_superlink_is_asked_where_this_process_reaches_it(
    links: SuperLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(Running, "locate", lambda its, address: f"127.0.0.1:{len(address)}")
        async with running() as its:
            its.follow()
            await asyncio.sleep(1)
        assert [each.address for each in links.asked] == [f"127.0.0.1:{len(ADDRESS)}"]

    run(scenario())


def test_no_more_than_a_few_are_asked_at_once(links: SuperLinks) -> None:
    async def scenario() -> None:
        number = 5 * AT_ONCE
        links.seconds = 1.0
        async with running() as its:
            its.follow_many(number)
            await asyncio.sleep(3.5)
            assert links.busiest == links.busy == AT_ONCE
            assert len(links.asked) == 4 * AT_ONCE
            await asyncio.sleep(2)
            assert len({each.address for each in links.asked}) == number
        assert links.busiest == AT_ONCE

    run(scenario())


def test_with_many_superlinks_each_is_asked_the_more_seldom(links: SuperLinks) -> None:
    async def scenario() -> None:
        number = int(MOST_A_SECOND * SELDOM * 2)
        links.online = {f"link{each}:1": 2 for each in range(number)}
        async with running() as its:
            its.follow_many(number)
            await asyncio.sleep(1)
            assert len(links.asked) == number
            links.asked.clear()
            await asyncio.sleep(2 * SELDOM - 2)
            assert links.asked == []
            await asyncio.sleep(2)
            assert len(links.asked) == number
            # Back to a few, it is as it was.
            for each in range(1, number):
                its.connections.forget(("team", f"fed{each}"))
            await asyncio.sleep(2 * SELDOM)
            links.asked.clear()
            await asyncio.sleep(10 * SELDOM)
            assert len(links.asked) == 10

    run(scenario())


def test_with_many_superlinks_those_that_miss_nodes_are_asked_soon(links: SuperLinks) -> None:
    async def scenario() -> None:
        number = int(MOST_A_SECOND * SELDOM * 2)
        links.online = {f"link{each}:1": 2 for each in range(number)}
        links.online["link7:1"] = 1
        async with running() as its:
            its.follow_many(number)
            await asyncio.sleep(10 * SOON + 0.1)
            assert [each.address for each in links.asked].count("link7:1") == 11
            assert len(links.asked) == number + 10

    run(scenario())
