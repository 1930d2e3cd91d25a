"""SuperNodes that their SuperLink does not know any more, and that have not noticed.

A SuperLink that keeps nothing knows nobody after a restart. Its SuperNodes hear so and end, and the
kubelet starts them again. But one of Flower 1.24 to 1.32 that was just receiving a message waits
for ever for the answer to it, while its probes say that it is well.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ..api.types import FederationStatus
from .observed import PodForm
from .summary import SUPERLINK_AVAILABLE
from .troubles import running_since, seconds_of

PATIENCE = 60.0
"""Seconds that SuperNodes have for connecting; Flower waits up to 20 between two attempts."""


@dataclass(frozen=True)
class Stranded:
    pods: tuple[PodForm, ...] = ()
    again: float | None = None
    """Seconds until time alone may change it."""


def patience_left(status: FederationStatus, now: datetime) -> float:
    """For how long to wait for SuperNodes of a SuperLink that has just become available."""
    (found,) = (each for each in status.conditions if each.type == SUPERLINK_AVAILABLE)
    return seconds_of(found.last_transition_time) + PATIENCE - now.timestamp()


def find_stranded(pods: Iterable[PodForm], connected: int, now: datetime) -> Stranded:
    """Which pods of a Federation are to be started again, if more SuperNodes had time to connect
    than are connected: those that have seen the SuperLink before it lost its memory."""
    staying = [pod for pod in pods if not pod.metadata.deletion_timestamp]
    lost = max((time for pod in staying if (time := _memory_lost(pod))), default=None)
    nodes = [(pod, time) for pod in staying if (time := running_since(pod.status, "supernode"))]
    left = [started + PATIENCE - now.timestamp() for _, started in nodes]
    if lost is None or sum(seconds <= 0 for seconds in left) <= connected:
        return Stranded(again=min((seconds for seconds in left if seconds > 0), default=None))
    return Stranded(tuple(pod for pod, started in nodes if started < lost))


def _memory_lost(pod: PodForm) -> float | None:
    """When the SuperLink of this pod knew nobody yet. Its first container is older than it seems:
    SuperNodes that were made with its pod wait for it, and have seen no other."""
    for each in pod.status.container_statuses or ():
        if each.name == "superlink" and each.restart_count:
            return running_since(pod.status, "superlink")
        if each.name == "superlink" and pod.metadata.creation_timestamp:
            return seconds_of(pod.metadata.creation_timestamp)
    return None
