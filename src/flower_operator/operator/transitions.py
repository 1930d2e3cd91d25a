"""Which changes are worth an Event."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..api.types import Condition
from ..status.summary import DEGRADED, READY
from ..trust.decisions import Decision


@dataclass(frozen=True)
class Transition:
    reason: str
    message: str
    warning: bool


def transitions(before: Sequence[Condition], after: Sequence[Condition]) -> list[Transition]:
    """Ready gained or lost, a fault that began or became another one, or ended."""
    old = {each.type: each for each in before}
    new = {each.type: each for each in after}
    result = []
    ready, was_ready = new[READY], old.get(READY)
    degraded, was_degraded = new[DEGRADED], old.get(DEGRADED)
    had_fault = was_degraded is not None and was_degraded.status == "True"
    if degraded.status == "True":
        if not had_fault or (was_degraded and was_degraded.reason != degraded.reason):
            result.append(Transition(degraded.reason, degraded.message, warning=True))
    elif was_ready is not None and was_ready.status != ready.status and ready.status == "False":
        result.append(Transition(ready.reason, ready.message, warning=False))
    if ready.status == "True" and (was_ready is None or was_ready.status != "True"):
        result.append(Transition(READY, ready.message, warning=False))
    return result


def progress_only(before: Sequence[Condition], after: Sequence[Condition]) -> bool:
    """Whether a new status tells just how far things have come: no one has to act on it."""
    return not transitions(before, after) and not any(
        each.status == "True" for each in after if each.type in (READY, DEGRADED)
    )


def transition_of(decision: Decision) -> Transition:
    """A certificate, a key or a secret that was made."""
    return Transition(decision.reason, f"{decision.step}: {decision.message}", warning=False)


def replaced(title: str, propagation: str, why: str) -> Transition:
    """An object that had to be made anew."""
    pods = "its pods are taken over" if propagation == "Orphan" else "its pods are replaced"
    message = f"{title} is made anew: {pods}, volume claims stay as they are. {why}"
    return Transition("Replaced", message, warning=False)
