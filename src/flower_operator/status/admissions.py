"""Pods whose SuperNodes have keys: which may start, which have to wait, which hang."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..trust.keys import MISSED_SECONDS, Enrolment, Keyring
from .observed import Pod

# A SuperLink takes a SuperNode that said no good-bye to be there for a minute and a bit.
HANG_SECONDS = 120.0

_IN_USE = re.compile("could not be activated|Failed to activate SuperNode")


@dataclass(frozen=True)
class Admissions:
    admitted: tuple[Pod, ...] = ()
    """Held back until now, with keys that the SuperLink accepts."""
    hanging: tuple[Pod, ...] = ()
    """Refused once, and too polite to end."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """What a pod waits for, by its name."""
    again: float | None = None
    """Seconds until time alone may change it."""


def admissions_of(
    pods: Iterable[Pod],
    rings: Mapping[str, Keyring],
    enrolment: Enrolment | None,
    why_not: str,
    hang: Iterable[str],
    now: float,
    *,
    busy: bool = False,
) -> Admissions:
    """`enrolment`: what the SuperLink knows, None if it cannot be asked, and `why_not`; `hang`:
    the pools whose release hangs when it is refused; `busy`: a run is under way, which has to
    miss a SuperNode before that is back."""
    keys = {
        pod: rings[pod.pool].keys.get(pod.key, "") for pod in pods if pod.key and pod.pool in rings
    }
    if enrolment is None:
        words = f"its key is to be registered, but {why_not or 'the SuperLink is yet to answer'}"
        return Admissions(waiting={pod.name: words for pod in keys if pod.is_held})
    patient = set(hang)
    ends = {
        pod: pod.started + HANG_SECONDS - now
        for pod, key in keys.items()
        if pod.started and pod.pool in patient and enrolment.admits(key)
    }
    # A pod is made when the one before it is gone.
    missed = {
        pod: pod.created + (MISSED_SECONDS if busy else 0.0) - now
        for pod, key in keys.items()
        if pod.is_held and enrolment.admits(key)
    }
    turns = [*ends.values(), *missed.values()]
    return Admissions(
        admitted=tuple(pod for pod, left in missed.items() if left <= 0),
        hanging=tuple(pod for pod, end in ends.items() if end <= 0),
        waiting={
            pod.name: words
            for pod, key in keys.items()
            if (words := _waits_for(pod, key, enrolment))
        },
        again=min((each for each in turns if each > 0), default=None),
    )


def _waits_for(pod: Pod, key: str, enrolment: Enrolment) -> str:
    if pod.is_held:
        if key in enrolment.online:
            return "the SuperLink takes its predecessor to be there yet"
        return "" if enrolment.admits(key) else "its key is to be registered"
    refused = any(_IN_USE.search(trouble.message) for trouble in pod.troubles)
    if refused and key in enrolment.online:
        return "the SuperLink takes it to be there yet, as it was before it ended"
    return ""


def names_of(
    replicas: int | None,
    pods: Iterable[Pod],
    pool: str,
    ring: Keyring | None,
    *,
    expected: int | None,
) -> set[str]:
    """The SuperNodes of a pool that need keys; without `replicas`, those on nodes that have its
    pods. `expected`: how many these are when all are there, None while they come and go. If it
    is another number, who has none now may have one soon."""
    if replicas is not None:
        return set(map(str, range(replicas)))
    found = {pod.key for pod in pods if pod.pool == pool and pod.key}
    return found if len(found) == expected else found | set(ring.keys if ring else ())
