"""Asks every SuperLink how many SuperNodes are connected to it, a few at a time."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ..flower.dialects import Dialect, dialect_of
from ..flower.releases import parse_release
from ..status.observation import Connected
from ..status.outline import Outline
from ..trust.keys import Roster, own_enrolment
from .caches import Key

SOON = 2.0
"""Seconds between questions while SuperNodes are missing."""
SELDOM = 30.0
"""Seconds between questions while all are there."""
MOST_A_SECOND = 8
"""Of those; with many SuperLinks each is asked the more seldom."""
AT_ONCE = 8
TIMEOUT = 3.0

ENOUGH = 12
"""Questions in vain after which no answer is expected: a minute or less if asked closely."""

ASKING = Connected(asking=True)
OUTSIDE = Connected(why_not="the operator runs outside of the cluster", given_up=True)

Locate = Callable[[str], str]
"""From the address in the cluster to one that this process reaches."""


@dataclass
class _Asked:
    address: str
    dialect: Dialect
    roots: str | None
    wanted: int
    roster: Roster = ()
    closely: bool = False
    answer: Connected = ASKING
    failures: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """What an older roster asks for must not arrive after what a newer one asks for."""

    @property
    def place(self) -> tuple[str, Dialect, str | None]:
        return self.address, self.dialect, self.roots

    @property
    def expected(self) -> int:
        """How many SuperNodes it may have to list: those of other clusters have keys."""
        keys = sum(len(ring.keys) + len(ring.retired) for _, ring, _ in self.roster)
        return max(self.wanted, keys)


class Connections:
    """What each SuperLink last said; `changed` hears when that is something new."""

    def __init__(self, locate: Locate | None, changed: Callable[[Key], None]) -> None:
        self._locate = locate
        self._changed = changed
        self._asked: dict[Key, _Asked] = {}
        self._due: list[tuple[float, int, Key, _Asked]] = []
        self._number = itertools.count()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._wake = asyncio.Event()

    def get(self, key: Key) -> Connected:
        if self._locate is None:
            return OUTSIDE
        asked = self._asked.get(key)
        return asked.answer if asked else ASKING

    def follow(
        self,
        key: Key,
        outline: Outline,
        wanted: int,
        roots: str | None,
        roster: Roster = (),
        *,
        closely: bool = False,
    ) -> None:
        """Ask this SuperLink from now on; one with TLS is known by its CAs, `roots`, and is told
        of the keys of SuperNodes. `closely`: someone waits to hear that no run is under way."""
        release = parse_release(outline.release)
        if self._locate is None or release is None:
            self.forget(key)
            return
        address, dialect = self._locate(outline.endpoint), dialect_of(release)
        known = self._asked.get(key)
        asked = _Asked(address, dialect, roots, wanted, roster, closely)
        if known and known.address == address:
            asked.lock = known.lock
        if known is None or known.place != asked.place:
            self._asked[key] = asked
            self._plan(key, asked, 0.0)
        elif closely and not known.closely:
            # What was said of runs may be old.
            self._asked[key] = replace(asked, answer=replace(known.answer, busy=None))
            self._plan(key, self._asked[key], 0.0)
        elif known.roster != roster:
            self._asked[key] = replace(asked, answer=known.answer)
            self._plan(key, self._asked[key], 0.0)
        elif known.wanted < wanted:
            # In the place of the question that was planned for when all were there.
            self._asked[key] = replace(known, wanted=wanted, closely=closely)
            self._plan(key, self._asked[key], SOON)
        else:
            known.wanted, known.closely = wanted, closely

    def roster(self, key: Key) -> Roster:
        """The keys that this SuperLink was last told of."""
        asked = self._asked.get(key)
        return asked.roster if asked else ()

    def forget(self, key: Key) -> None:
        self._asked.pop(key, None)

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            while True:
                wait = self._due[0][0] - clock() if self._due else None
                if wait is None or wait > 0:
                    self._wake.clear()
                    # Not asyncio.wait_for: before Python 3.12 it may swallow a cancellation.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(wait):
                            await self._wake.wait()
                    continue
                *_, key, asked = heapq.heappop(self._due)
                if self._asked.get(key) is asked:
                    await self._turn.acquire()
                    group.create_task(self._ask(key, asked))

    def _plan(self, key: Key, asked: _Asked, seconds: float) -> None:
        time = asyncio.get_running_loop().time() + seconds
        heapq.heappush(self._due, (time, next(self._number), key, asked))
        self._wake.set()

    async def _ask(self, key: Key, asked: _Asked) -> None:
        # Only an operator inside of its cluster gets here; others do without what it brings.
        from ..control import BadAnswer, Refused, Unreachable

        try:
            async with asked.lock:
                if self._asked.get(key) is not asked:
                    return
                answer = await _answer_of(asked)
            asked.failures = 0
        except (Unreachable, Refused) as error:
            words = f"{asked.address} does not say: {error}"
            if isinstance(error, Unreachable) and not isinstance(error, BadAnswer):
                words = f"nothing answers at {asked.address}"
            asked.failures += 1
            given_up = asked.failures >= ENOUGH
            # A run that was under way may still be.
            answer = Connected(why_not=words, busy=asked.answer.busy, given_up=given_up)
        finally:
            self._turn.release()
        if self._asked.get(key) is not asked:
            return
        if answer != asked.answer:
            asked.answer = answer
            self._changed(key)
        missing = answer.count is not None and answer.count < asked.wanted
        seldom = max(SELDOM, len(self._asked) / MOST_A_SECOND)
        self._plan(key, asked, SOON if missing or asked.closely else seldom)


async def _answer_of(asked: _Asked) -> Connected:
    from ..control import ControlClient
    from ..control.enrolling import enrol

    client = ControlClient(asked.dialect, asked.address, TIMEOUT, asked.roots, asked.expected)
    try:
        nodes = await (enrol(client, asked.roster) if asked.roster else client.nodes())
        busy = None
        # What has certificates may be restarted for new ones at any time, and waits for runs.
        if asked.roots is not None or asked.closely:
            busy = any(run.active for run in await client.runs())
        if not asked.roster:
            return Connected(sum(node.online for node in nodes), busy=busy)
        known = own_enrolment(asked.roster, nodes)
        return Connected(len(known.online), busy=busy, enrolment=known)
    finally:
        await client.close()
