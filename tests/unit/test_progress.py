"""News of mere progress, in turns."""

from datetime import UTC, datetime, timedelta

from flower_operator.operator.progress import AT_ONCE, BETWEEN, LONGEST, Progress

NOW = datetime(2026, 11, 16, tzinfo=UTC)
SECOND = BETWEEN.total_seconds()


def test_a_few_are_told_at_once_and_the_others_one_after_the_other() -> None:
    progress: Progress[int] = Progress()
    waits = [progress.wait(key, NOW) for key in range(AT_ONCE + 3)]
    assert waits == [0.0] * AT_ONCE + [SECOND, 2 * SECOND, 3 * SECOND]
    assert progress.wait(AT_ONCE, NOW + BETWEEN) == 0.0
    assert progress.wait(AT_ONCE + 2, NOW + BETWEEN) == 2 * SECOND


def test_nobody_waits_for_longer_than_three_minutes() -> None:
    progress: Progress[int] = Progress()
    longest = max(progress.wait(key, NOW) for key in range(1000))
    assert longest == LONGEST.total_seconds()
    assert not any(progress.wait(key, NOW + LONGEST) for key in range(AT_ONCE, 1000))


def test_after_a_quiet_while_there_are_as_many_at_once_as_before() -> None:
    progress: Progress[int] = Progress()
    for key in range(1000):
        progress.wait(key, NOW)
    later = NOW + LONGEST + timedelta(hours=1)
    waits = [progress.wait(key, later) for key in range(1000, 1000 + AT_ONCE + 1)]
    assert waits == [0.0] * AT_ONCE + [SECOND]


def test_what_is_told_for_another_reason_gives_up_its_turn() -> None:
    progress: Progress[str] = Progress()
    for key in "abcdefghijklmnopqrst":
        progress.wait(key, NOW)
    assert progress.wait("late", NOW) == SECOND
    progress.told("late")
    assert progress.wait("late", NOW) == 2 * SECOND
