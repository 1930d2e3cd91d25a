"""What a cluster's administrator allows Federations: flags of the operator, not fields."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..api.problems import Problem
from ..api.types import Federation


@dataclass(frozen=True)
class Limits:
    """By default nothing is limited."""

    task_executor: bool = True
    """Whether SuperExecs may start tasks as pods of their own."""


NO_LIMITS = Limits()


def limit_problems(federation: Federation, limits: Limits) -> list[Problem]:
    """What a manifest asks for and the administrator does not allow."""
    return [Problem(path, message, "NotAllowed") for path, message in _breaches(federation, limits)]


def _breaches(federation: Federation, limits: Limits) -> Iterator[tuple[str, str]]:
    """Path and message of each."""
    if not limits.task_executor:
        yield from _executors(federation)


def _executors(federation: Federation) -> Iterator[tuple[str, str]]:
    message = (
        "kubernetes is not allowed on this cluster; its administrator can allow it with "
        "taskExecutor.enable=true in the values of the operator's chart"
    )
    spec = federation.spec
    if spec.superlink.executor == "kubernetes":
        yield "spec.superlink.executor", message
    for at, pool in enumerate(spec.supernodes.pools):
        if pool.executor == "kubernetes":
            yield f"spec.supernodes.pools[{at}].executor", message
