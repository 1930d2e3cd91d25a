"""When news of mere progress may be told: where much happens at once, not each of it at once."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

AT_ONCE = 20
BETWEEN = timedelta(seconds=1)
LONGEST = timedelta(seconds=180)


class Progress(Generic[Key]):
    """Turns, one in each second over all keys: those of a while in which nobody wanted any are
    there to be had, and nobody waits longer than three minutes."""

    def __init__(self) -> None:
        self._due: dict[Key, datetime] = {}
        self._last: datetime | None = None

    def wait(self, key: Key, now: datetime) -> float:
        """Seconds until the turn of this one; none if it is now, which uses it up."""
        due = self._due.get(key) or self._turn(now)
        if due > now:
            self._due[key] = due
            return (due - now).total_seconds()
        self.told(key)
        return 0.0

    def told(self, key: Key) -> None:
        """There is nothing to tell of it any more."""
        self._due.pop(key, None)

    def _turn(self, now: datetime) -> datetime:
        unused = now - AT_ONCE * BETWEEN
        last = max(self._last, unused) if self._last else unused
        turn = min(last + BETWEEN, now + LONGEST)
        self._last = turn
        return turn
