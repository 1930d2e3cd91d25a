"""A Federation on this machine as a table: pools, their nodes, state and restarts."""

import time
from collections.abc import Iterable, Sequence

from ..local.state import Desired, ProcessStatus, Status
from .terminal import one_line

# The worst state of a pool's processes is the pool's.
STATES = ("failing", "restarting", "stopped", "waiting", "starting", "running")


def federation_table(desired: Desired, status: Status | None, width: int = 80) -> list[str]:
    """The lines of the table, none wider than `width`."""
    lines = _heading(desired, status)
    found = {each.name: each for each in status.processes} if status else {}
    rows: list[Sequence[str]] = [("POOL", "NODES", "STATE", "RESTARTS")]
    reasons = []
    for pool, names in _pools(desired).items():
        own = [found.get(name) or ProcessStatus(name, "waiting") for name in names]
        rows.append((pool, _nodes(own), _state(own), str(sum(each.restarts for each in own))))
        reasons += [f"{each.name}: {each.reason}" for each in own if each.state in STATES[:2]]
    lines += aligned(rows)
    lines += [f"  {reason}" for reason in reasons]
    if status and status.message and not reasons:
        lines.append(f"  {status.message}")
    shown = map(one_line, lines)
    return [line if len(line) <= width else line[: width - 1] + "…" for line in shown]


def list_table(found: Iterable[tuple[Desired, Status | None]]) -> list[str]:
    rows: list[Sequence[str]] = [("NAME", "FLOWER", "READY", "SUPERNODES", "CONTROL", "AGE")]
    for desired, status in found:
        rows.append(
            (
                desired.name,
                desired.release,
                str(bool(status and status.ready)),
                _connected(desired, status),
                desired.control or "elsewhere",
                age(time.time() - status.started if status else 0),
            )
        )
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    rows = [list(map(one_line, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["   ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _heading(desired: Desired, status: Status | None) -> list[str]:
    word = "ready" if status and status.ready else "not ready"
    if desired.external:
        return [
            f"{desired.name}: {word}",
            f"Flower {desired.release}, SuperLink at {desired.fleet}",
        ]
    return [
        f"{desired.name}: {word}, {_connected(desired, status)} SuperNodes connected",
        f"Flower {desired.release}, flwr run at {desired.control}",
    ]


def _connected(desired: Desired, status: Status | None) -> str:
    count = status.connected if status else None
    return f"{'?' if count is None else count}/{desired.supernodes}"


def _pools(desired: Desired) -> dict[str, list[str]]:
    pools: dict[str, list[str]] = {}
    for process in desired.processes:
        pool = process.pod if process.pod == "superlink" else process.pod.rpartition("-")[0]
        pools.setdefault(pool, []).append(process.name)
    return pools


def _nodes(own: list[ProcessStatus]) -> str:
    pods: dict[str, bool] = {}
    for each in own:
        pod = each.name.partition("/")[0]
        pods[pod] = pods.get(pod, True) and each.state == "running"
    return f"{sum(pods.values())}/{len(pods)}"


def _state(own: list[ProcessStatus]) -> str:
    return min((each.state for each in own), key=STATES.index)


def age(seconds: float) -> str:
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(int(seconds), 0)}s"
