"""Which Federations are to be looked at, each by one worker at a time."""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 60.0
# What happens to the parts of something happens in bursts.
NEWS_SECONDS = 0.5


class Queue(Generic[Key]):
    """Keys in the order of their coming; one that comes again while it waits is there once."""

    def __init__(self) -> None:
        self._waiting: dict[Key, None] = {}
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._news: set[Key] = set()
        self._left: dict[Key, float] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key) -> None:
        if key in self._working:
            self._again.add(key)
        else:
            self._waiting[key] = None
            self._wake.set()

    def add_news(self, key: Key) -> None:
        """Add, but not just after it was looked at: more may come."""
        if key in self._working:
            self._news.add(key)
            return
        left = self._left.get(key, -NEWS_SECONDS)
        seconds = left + NEWS_SECONDS - asyncio.get_running_loop().time()
        if seconds > 0:
            self.add_after(key, seconds)
        else:
            self.add(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Add later, unless it is to come sooner anyway."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is None or timer.when() > loop.time() + seconds:
            if timer:
                timer.cancel()
            self._timers[key] = loop.call_later(seconds, self._due, key)

    async def get(self) -> Key:
        """The next key, which is the caller's until done() or failed()."""
        while not self._waiting:
            self._wake.clear()
            await self._wake.wait()
        key = next(iter(self._waiting))
        del self._waiting[key]
        self._working.add(key)
        self._cancel(key)  # whoever looks at it now will say when to look again
        return key

    def done(self, key: Key) -> None:
        self._failures.pop(key, None)
        self._leave(key)

    def failed(self, key: Key, at_least: float = 0.0) -> float:
        """Try again after a while, longer each time; says how long."""
        attempts = self._failures.get(key, 0)
        self._failures[key] = attempts + 1
        seconds = max(at_least, min(FIRST_BACKOFF * 2.0 ** min(attempts, 20), LONGEST_BACKOFF))
        self.add_after(key, seconds)
        self._leave(key)
        return seconds

    def failures(self, key: Key) -> int:
        """How often it has failed in a row."""
        return self._failures.get(key, 0)

    def forget(self, key: Key) -> None:
        """It is gone for good."""
        self._failures.pop(key, None)
        self._left.pop(key, None)
        self._cancel(key)

    def _due(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def _cancel(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()

    def _leave(self, key: Key) -> None:
        self._working.discard(key)
        self._left[key] = asyncio.get_running_loop().time()
        again, news = key in self._again, key in self._news
        self._again.discard(key)
        self._news.discard(key)
        if again:
            self.add(key)
        elif news:
            self.add_news(key)
