"""How far Skupper is with what other clusters reach a SuperLink by."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ..render.skupper import Grant
from .observed import Interconnection
from .outline import Outline

MISSING = (
    "spec.interconnect: this cluster has no API group skupper.io; install Skupper 2, then restart "
    "the operator"
)


@dataclass(frozen=True)
class Interconnected:
    waiting: tuple[str, str] | None = None
    """Reason and message of what Ready waits for."""
    notes: tuple[str, ...] = ()


NOTHING = Interconnected()


@dataclass(frozen=True)
class Grants:
    """Whether other clusters can link."""

    current: Grant | None = None
    ended: tuple[Interconnection, ...] = ()
    """Those that let nobody link any more. Skupper does not prolong a grant: others have to take
    their place."""
    recheck: float | None = None
    """Seconds until time alone may change it."""


def grants_of(children: Iterable[object], now: datetime) -> Grants:
    found = [each for each in children if isinstance(each, Interconnection) and each.grant]
    left = {each.metadata.uid: _seconds_left(each, now) for each in found}
    ended = tuple(each for each in found if left[each.metadata.uid] <= 0)
    current = [each for each in found if each not in ended]
    times = [left[each.metadata.uid] for each in current]
    return Grants(
        current[0].grant if current else None,
        ended,
        min((seconds for seconds in times if math.isfinite(seconds)), default=None),
    )


def _seconds_left(each: Interconnection, now: datetime) -> float:
    if each.used_up:
        return 0.0
    return math.inf if each.ends is None else each.ends - now.timestamp()


def interconnected(outline: Outline, children: Iterable[object]) -> Interconnected:
    """Nobody can link before the Site is ready; a Connector is not before someone listens."""
    if not outline.interconnected:
        return NOTHING
    found = [each for each in children if isinstance(each, Interconnection)]
    unready = [each for each in found if each.state != "Ready"]
    words = {each.kind: f"{each.kind} {each.metadata.name} is not ready" for each in unready}
    words |= {each.kind: f"{words[each.kind]}: {each.message}" for each in unready if each.message}
    if not any(each.kind == "Site" for each in found):
        return Interconnected(("Interconnecting", "Skupper's Site does not exist yet"))
    if "Site" in words:
        return Interconnected(("Interconnecting", f"Skupper's {words['Site']}"))
    return Interconnected(notes=tuple(f"Skupper's {each}" for each in words.values()))
