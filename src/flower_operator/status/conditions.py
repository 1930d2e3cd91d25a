"""Conditions: what is true of a Federation now, and since when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ..api.types import Condition

LONGEST_MESSAGE = 2000
TIME = "%Y-%m-%dT%H:%M:%SZ"

Verdict = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Finding:
    """A condition without its history."""

    type: str
    status: bool | None
    reason: str
    message: str


def conditions_of(
    findings: Sequence[Finding], previous: Sequence[Condition], generation: int, now: datetime
) -> list[Condition]:
    """The findings as conditions; one that says the same as before keeps its time."""
    since = {each.type: (each.status, each.last_transition_time) for each in previous}
    changed = format_time(now)
    result = []
    for finding in findings:
        verdict = _verdict(finding.status)
        before, time = since.get(finding.type, (None, ""))
        result.append(
            Condition(
                type=finding.type,
                status=verdict,
                reason=finding.reason,
                message=shorten(finding.message),
                last_transition_time=time if before == verdict else changed,
                observed_generation=generation,
            )
        )
    return result


def format_time(now: datetime) -> str:
    return now.strftime(TIME)


def parse_time(text: str) -> datetime | None:
    """None for what nobody here wrote."""
    try:
        return datetime.strptime(text, TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def shorten(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 3]}..."


def _verdict(status: bool | None) -> Verdict:
    return "Unknown" if status is None else "True" if status else "False"
