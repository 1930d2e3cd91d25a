"""Which replica leads: candidates for one Lease, on a clock of the test's own."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest

from flower_operator.kube.client import Client
from flower_operator.kube.errors import ApiError, NotLeader, Unreachable
from flower_operator.kube.lease import DURATION, MARGIN, RENEW_EVERY, Election
from flower_operator.kube.resources import LEASE, Resource
from tests.unit.federations import Document
from tests.unit.virtual_time import now, run

PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/flower-operator"
HOLDS = DURATION - MARGIN


class Server:
    """Has one Lease at most, and refuses what was made from another version than it has."""

    def __init__(self, spec: Document | None = None) -> None:
        self.version = 0
        self.spec: Document | None = None
        self.requests = 0
        self.conflicts = 0
        self.before: Callable[[], Awaitable[None]] = _at_once
        self.after: Callable[[], Awaitable[None]] = _at_once
        if spec is not None:
            self._store(spec)

    def _store(self, spec: Document) -> bytes:
        self.version += 1
        self.spec = spec
        return self._body()

    def _body(self) -> bytes:
        metadata = {
            "name": "flower-operator",
            "namespace": "system",
            "resourceVersion": str(self.version),
            "uid": "some-uid",
        }
        return msgspec.json.encode({"metadata": metadata, "spec": self.spec})

    async def _answer(self, act: Callable[[], bytes]) -> bytes:
        self.requests += 1
        await self.before()
        try:
            return act()
        finally:
            await self.after()

    async def get(self, path: str, **parameters: str) -> bytes:
        assert path == PATH

        def act() -> bytes:
            if self.spec is None:
                raise ApiError(404, "NotFound", "not found")
            return self._body()

        return await self._answer(act)

    async def create(self, resource: Resource, namespace: str | None, body: Any) -> bytes:
        assert (resource, namespace) == (LEASE, "system")

        def act() -> bytes:
            if self.spec is not None:
                self.conflicts += 1
                raise ApiError(409, "AlreadyExists", "exists")
            return self._store(body["spec"])

        return await self._answer(act)

    async def replace(self, resource: Resource, body: Any) -> bytes:
        assert (body["apiVersion"], body["kind"]) == ("coordination.k8s.io/v1", "Lease")

        def act() -> bytes:
            if body["metadata"].get("resourceVersion") != str(self.version):
                self.conflicts += 1
                raise ApiError(409, "Conflict", "the object has been modified")
            return self._store(body["spec"])

        return await self._answer(act)

    @property
    def client(self) -> Client:
        return cast("Client", self)

    @property
    def holder(self) -> str:
        return str((self.spec or {}).get("holderIdentity", ""))


def about(seconds: float) -> Any:
    return pytest.approx(seconds, abs=0.01)


async def _at_once() -> None:
    pass


async def _fails() -> None:
    raise Unreachable("connection refused")


async def _hangs() -> None:
    await asyncio.Event().wait()


def lasts(seconds: float) -> Callable[[], Awaitable[None]]:
    async def wait() -> None:
        await asyncio.sleep(seconds)

    return wait


def candidate(name: str = "me", clock: Callable[[], float] = now) -> Election:
    return Election("system", "flower-operator", name, clock)


def held_by(name: str, renewed: str = "2026-11-15T12:00:00.000000Z") -> Document:
    return {
        "holderIdentity": name,
        "leaseDurationSeconds": DURATION,
        "acquireTime": "2026-11-15T11:00:00.000000Z",
        "renewTime": renewed,
        "leaseTransitions": 4,
    }


@pytest.mark.parametrize(
    ("spec", "transitions"),
    [
        (None, 0),
        ({}, 1),
        ({**held_by(""), "renewTime": "2999-01-01T00:00:00.000000Z"}, 5),
        (held_by("me"), 4),
    ],
    ids=["missing", "empty", "given up", "its own"],
)
def test_a_lease_that_nobody_else_holds_is_taken_at_once(
    spec: Document | None, transitions: int
) -> None:
    async def scenario() -> None:
        server, election = Server(spec), candidate()
        assert election.remaining() <= 0
        await election.acquire(server.client)
        assert now() == about(0)
        assert election.remaining() == about(HOLDS)
        assert server.holder == "me"
        assert server.spec is not None
        assert server.spec["leaseTransitions"] == transitions
        assert server.spec["leaseDurationSeconds"] == DURATION
        assert server.spec["renewTime"] >= server.spec["acquireTime"]

    run(scenario())


# Years ago by its own account: whose clock is right is not known, so only ours counts.
@pytest.mark.parametrize("renewed", ["2001-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"])
def test_a_held_lease_is_taken_after_its_duration_without_renewal_by_our_clock(
    renewed: str,
) -> None:
    async def scenario() -> None:
        server, election = Server(held_by("other", renewed)), candidate()
        await election.acquire(server.client)
        assert DURATION < now() <= DURATION + 2 * RENEW_EVERY
        assert server.holder == "me"
        assert election.remaining() == about(HOLDS)

    run(scenario())


def test_the_duration_is_the_one_that_the_holder_has_written() -> None:
    async def scenario() -> None:
        server = Server({**held_by("other"), "leaseDurationSeconds": 60})
        await candidate().acquire(server.client)
        assert 60 < now() <= 60 + 2 * RENEW_EVERY

    run(scenario())


def test_a_lease_that_is_renewed_is_never_taken() -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        acquiring = asyncio.create_task(election.acquire(server.client))
        for number in range(30):
            server._store(held_by("other", f"renewal {number}"))
            await asyncio.sleep(DURATION - 1)
            assert election.remaining() <= 0
        assert server.holder == "other"
        acquiring.cancel()

    run(scenario())


def test_a_lease_is_as_old_as_the_answer_that_told_of_it_not_as_the_question() -> None:
    async def scenario() -> None:
        server, election = Server(held_by("other", "before")), candidate()
        acquiring = asyncio.create_task(election.acquire(server.client))
        # The first read is long under way; the holder renews shortly before it is answered.
        server.before = lasts(DURATION + 2)
        await asyncio.sleep(DURATION + 1)
        server.before = _at_once
        server._store(held_by("other", "just now"))
        renewed = now()
        await acquiring
        assert now() > renewed + DURATION

    run(scenario())


def test_what_is_left_counts_from_the_start_of_the_request() -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        server.before = server.after = lasts(1.0)
        await election.acquire(server.client)
        # A read and a write, each a second on its way there and another on its way back.
        assert now() == about(4.0)
        assert election.remaining() == about(HOLDS - 4.0)

    run(scenario())


def test_a_write_whose_answer_is_lost_is_not_counted_on() -> None:
    async def scenario() -> None:
        server, election = Server(held_by("me")), candidate()

        async def lose_writes() -> None:
            if server.requests % 2 == 0:
                raise Unreachable("reset by peer")

        server.after = lose_writes
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await election.acquire(server.client)
        assert election.remaining() <= 0

    run(scenario())


def test_the_holder_renews_for_as_long_as_it_can() -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        await election.acquire(server.client)
        keeping = asyncio.create_task(election.keep(server.client))
        for _ in range(100):
            await asyncio.sleep(1)
            assert election.remaining() >= HOLDS - RENEW_EVERY
        assert not keeping.done()
        assert server.version >= 100 / RENEW_EVERY - 1
        keeping.cancel()

    run(scenario())


@pytest.mark.parametrize("trouble", [_fails, _hangs], ids=["refused", "no answer"])
def test_a_holder_without_a_server_stops_before_another_may_begin(
    trouble: Callable[[], Awaitable[None]],
) -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        await election.acquire(server.client)
        server.before = trouble
        with pytest.raises(NotLeader):
            await election.keep(server.client)
        assert now() == pytest.approx(HOLDS, abs=RENEW_EVERY)
        assert now() < DURATION
        assert election.remaining() <= 0

    run(scenario())


def test_a_short_outage_costs_nothing() -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        await election.acquire(server.client)
        keeping = asyncio.create_task(election.keep(server.client))
        server.before = _fails
        await asyncio.sleep(HOLDS - RENEW_EVERY - 1)
        server.before = _at_once
        await asyncio.sleep(60)
        assert not keeping.done()
        assert election.remaining() > 0
        keeping.cancel()

    run(scenario())


def test_another_holder_ends_it_at_once() -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        await election.acquire(server.client)
        server._store(held_by("other"))
        with pytest.raises(NotLeader):
            await election.keep(server.client)
        assert now() == about(RENEW_EVERY)
        assert election.remaining() == float("-inf")
        assert server.holder == "other"

    run(scenario())


def test_a_lease_given_up_is_the_next_one_s_at_its_next_look() -> None:
    async def scenario() -> None:
        server, mine, other = Server(), candidate("me"), candidate("other")
        await mine.acquire(server.client)
        waiting = asyncio.create_task(other.acquire(server.client))
        await asyncio.sleep(1)
        await mine.release(server.client)
        assert mine.remaining() <= 0
        await waiting
        assert now() <= 1 + RENEW_EVERY
        assert server.holder == "other"

    run(scenario())


def test_writes_are_over_before_the_lease_is_given_up() -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        await election.acquire(server.client)
        left = []

        async def look() -> None:
            left.append(election.remaining())

        server.before = look
        await election.release(server.client)
        assert left
        assert max(left) <= 0

    run(scenario())


def test_only_what_is_held_is_given_up() -> None:
    async def scenario() -> None:
        server, election = Server(held_by("other")), candidate()
        await election.release(server.client)
        assert server.requests == 0
        assert server.holder == "other"

    run(scenario())


def test_someone_else_s_lease_is_left_alone_by_one_who_believed_to_hold_it() -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        await election.acquire(server.client)
        server._store(held_by("other"))
        await election.release(server.client)
        assert server.holder == "other"

    run(scenario())


def test_a_lease_that_cannot_be_given_up_is_no_reason_to_fail() -> None:
    async def scenario() -> None:
        server, election = Server(), candidate()
        await election.acquire(server.client)
        server.before = _fails
        await election.release(server.client)
        assert election.remaining() <= 0

    run(scenario())


def test_of_two_that_see_no_lease_one_makes_it() -> None:
    async def scenario() -> None:
        server, mine, other = Server(), candidate("me"), candidate("other")
        server.before = lasts(0.5)
        tasks = [asyncio.create_task(each.acquire(server.client)) for each in (mine, other)]
        await asyncio.sleep(5)
        assert server.conflicts == 1
        assert [task.done() for task in tasks].count(True) == 1
        assert (mine.remaining() > 0) != (other.remaining() > 0)
        for task in tasks:
            task.cancel()

    run(scenario())


class Mischief:
    """Slow and lost requests, clocks that run apart, replicas that come and go."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = Server()
        self.server.before = self.server.after = self.delay
        self.elections: list[Election] = []

    async def delay(self) -> None:
        if self.chance.random() < 0.15:
            raise Unreachable("reset by peer")
        longest = self.chance.choice([0.0, 0.05, 1.0, 4.0, 20.0])
        await asyncio.sleep(longest * self.chance.random())

    def leaders(self) -> int:
        return sum(each.remaining() > 0 for each in self.elections)

    async def live(self, name: str) -> None:
        """One replica, again and again: each time it is another candidate."""
        rate, offset = self.chance.uniform(0.95, 1.05), self.chance.uniform(-1000, 1000)
        while True:
            election = candidate(f"{name}-{len(self.elections)}", lambda: now() * rate + offset)
            self.elections.append(election)
            await election.acquire(self.server.client)
            try:
                async with asyncio.timeout(self.chance.choice([5, 30, 1000])):
                    await election.keep(self.server.client)
            except TimeoutError:
                await election.release(self.server.client)
            except NotLeader:
                pass


@pytest.mark.parametrize("seed", range(8))
def test_whatever_goes_wrong_no_two_candidates_lead_at_once(seed: int) -> None:
    async def scenario() -> None:
        mischief = Mischief(seed)
        lives = [asyncio.create_task(mischief.live(name)) for name in "abc"]
        led = 0
        for _ in range(6000):
            await asyncio.sleep(0.1)
            assert mischief.leaders() <= 1
            led += mischief.leaders()
        # Those that stop when they cannot be sure do not stop for good.
        assert led > 200
        assert len(mischief.elections) > 5
        for each in lives:
            assert not each.done()
            each.cancel()

    run(scenario())
