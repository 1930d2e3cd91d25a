"""A limit on the processor time that one Federation may take at a stretch."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CHECK_SECONDS = 0.1


class BudgetExceeded(Exception):
    """Ended because it took too much processor time."""


@contextmanager
def budget(seconds: float) -> Iterator[None]:
    """Raise BudgetExceeded inside the block once it has taken this much processor time.

    Asyncio cannot interrupt what does not await, so a signal does. It counts processor time, not
    the clock, so that a busy node refuses nobody. Python handles signals in the main thread, where
    `flower-operator controller` runs; in another thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    started = time.thread_time()

    def check(_signal: int, _frame: FrameType | None) -> None:
        if time.thread_time() - started >= seconds:  # the timer counts other threads' time too
            raise BudgetExceeded

    previous = signal.signal(signal.SIGVTALRM, check)
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds, CHECK_SECONDS)
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:  # also if the signal came just before the timer was stopped
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
