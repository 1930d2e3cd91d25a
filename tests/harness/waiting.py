"""Wait for a condition instead of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Timeouts are written for an idle machine. A busy one gets more time; a test that passes waits
# no longer for it.
BUSY_FACTOR = 4.0


def wait_for(
    condition: Callable[[], T | None],
    message: str | Callable[[], str],
    timeout: float,
    interval: float = 0.05,
) -> T:
    """Call condition until it returns something other than None or False, and return that.

    Raises TimeoutError with the message after timeout seconds, times BUSY_FACTOR. A message that
    is a function is called only then, so it can describe the state that was last seen. Exceptions
    of the condition are not caught: raising is how it says that waiting longer is of no use.
    """
    timeout *= BUSY_FACTOR
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result is not None and result is not False:
            return result
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            text = message if isinstance(message, str) else message()
            raise TimeoutError(f"gave up after {timeout:g} s: {text}")
        time.sleep(min(interval, remaining))
