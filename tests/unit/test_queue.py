"""Which Federations are to be looked at, each by one worker at a time."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flower_operator.operator.queue import FIRST_BACKOFF, LONGEST_BACKOFF, NEWS_SECONDS, Queue
from tests.unit.virtual_time import now, run


async def take_all(queue: Queue[str]) -> list[str]:
    """Everything that can be had now."""
    return [await queue.get() for _ in range(len(queue))]


async def has_something(queue: Queue[str], within: float = 0.0) -> bool:
    await asyncio.sleep(within)
    return len(queue) > 0


def test_keys_come_in_the_order_of_their_coming_and_once() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        for key in "cabac":
            queue.add(key)
        assert len(queue) == 3
        assert await take_all(queue) == ["c", "a", "b"]
        assert len(queue) == 0

    run(scenario())


def test_a_worker_waits_for_the_next_key() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        workers = [asyncio.create_task(queue.get()) for _ in range(2)]
        await asyncio.sleep(5)
        assert not any(each.done() for each in workers)
        queue.add("a")
        await asyncio.sleep(0.001)
        assert [each.done() for each in workers].count(True) == 1
        queue.add("b")
        assert {await each for each in workers} == {"a", "b"}

    run(scenario())


def test_a_key_is_with_one_worker_and_comes_again_if_it_was_added_meanwhile() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await take_all(queue) == ["a"]
        queue.done("a")
        assert len(queue) == 0

    run(scenario())


def test_a_key_that_was_added_while_it_failed_is_tried_at_once() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.failed("a")
        assert await take_all(queue) == ["a"]

    run(scenario())


def test_many_workers_never_share_a_key_and_miss_nothing() -> None:
    async def scenario() -> None:
        queue: Queue[int] = Queue()
        chance = random.Random(7)
        wanted = dict.fromkeys(range(10), 0)
        seen = dict.fromkeys(range(10), 0)

        @asynccontextmanager
        async def alone(key: int) -> AsyncIterator[None]:
            assert key not in busy
            busy.add(key)
            yield
            busy.discard(key)

        async def work() -> None:
            while True:
                key = await queue.get()
                async with alone(key):
                    # What is asked for up to here, this round sees.
                    seen[key] = wanted[key]
                    await asyncio.sleep(chance.random())
                if chance.random() < 0.2:
                    queue.failed(key)
                else:
                    queue.done(key)

        busy: set[int] = set()
        workers = [asyncio.create_task(work()) for _ in range(4)]
        for number in range(500):
            key = chance.randrange(10)
            wanted[key] = number
            queue.add(key)
            await asyncio.sleep(chance.random() / 20)
        await asyncio.sleep(60)
        assert seen == wanted
        for worker in workers:
            assert not worker.done()
            worker.cancel()

    run(scenario())


def test_pauses_double_up_to_the_limit_and_begin_anew_after_a_success() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        pauses = []
        for attempt in range(2000):
            assert await queue.get() == "a"
            assert queue.failures("a") == attempt
            pauses.append(queue.failed("a"))
        assert pauses[:4] == [FIRST_BACKOFF * 2**attempt for attempt in range(4)]
        assert set(pauses[10:]) == {LONGEST_BACKOFF}
        assert await queue.get() == "a"
        queue.done("a")
        assert queue.failures("a") == 0
        queue.add("a")
        await queue.get()
        assert queue.failed("a") == FIRST_BACKOFF

    run(scenario())


def test_what_failed_comes_after_its_pause_and_not_before() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        await queue.get()
        started = now()
        pause = queue.failed("a", at_least=7.0)
        assert pause == 7.0
        assert not await has_something(queue, 6.9)
        assert await queue.get() == "a"
        assert now() == pytest.approx(started + 7.0, abs=0.01)

    run(scenario())


def test_a_pause_asked_for_is_no_shorter_than_the_usual_one() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        pauses = []
        for _ in range(4):
            await queue.get()
            pauses.append(queue.failed("a", at_least=0.5))
        assert pauses == [0.5, 0.5, FIRST_BACKOFF * 4, FIRST_BACKOFF * 8]

    run(scenario())


@pytest.mark.parametrize("pauses", [(5.0, 2.0), (2.0, 5.0)])
def test_of_several_times_the_earliest_counts(pauses: tuple[float, float]) -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        for pause in pauses:
            queue.add_after("a", pause)
        assert await queue.get() == "a"
        assert now() == pytest.approx(2.0, abs=0.01)
        queue.done("a")
        assert not await has_something(queue, 60)

    run(scenario())


def test_a_time_that_comes_while_the_key_is_with_a_worker_is_not_lost() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        await queue.get()
        queue.add_after("a", 1.0)
        assert not await has_something(queue, 2.0)
        queue.done("a")
        assert await take_all(queue) == ["a"]

    run(scenario())


def test_what_is_gone_is_neither_tried_again_nor_held_against_a_namesake() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        await queue.get()
        queue.failed("a")
        queue.forget("a")
        queue.forget("never seen")
        assert queue.failures("a") == 0
        assert not await has_something(queue, 600)
        queue.add("a")
        assert await take_all(queue) == ["a"]

    run(scenario())


def test_news_come_together_unless_it_was_quiet_before() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add_news("a")
        assert await take_all(queue) == ["a"]
        queue.add_news("a")
        queue.done("a")
        queue.add_news("a")
        assert not await has_something(queue, within=NEWS_SECONDS / 2)
        assert await has_something(queue, within=NEWS_SECONDS / 2)
        assert await take_all(queue) == ["a"]
        queue.done("a")
        queue.add_news("a")
        queue.add("a")
        assert await take_all(queue) == ["a"]

    run(scenario())


def test_whoever_looks_at_a_key_says_when_to_look_again() -> None:
    async def scenario() -> None:
        queue: Queue[str] = Queue()
        queue.add_after("a", 5)
        queue.add("a")
        assert await take_all(queue) == ["a"]
        queue.done("a")
        assert not await has_something(queue, within=60)

    run(scenario())
