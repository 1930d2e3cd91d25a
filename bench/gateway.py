"""What a gateway in front of the SuperLink costs: a secure Federation with it, and without."""

import time
from typing import Any, cast

import yaml

from flower_operator.flower.releases import NEWEST
from flower_operator.local.state import Record

from .local import REST_SECONDS, by_up, cpu_seconds, document, operator, own_state, resident

ROUNDS = 3
MANY = 50


def main() -> None:
    print(f"Flower {NEWEST}, TLS, process isolation, 4 SuperNodes; best of {ROUNDS}; seconds")
    ways: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(ROUNDS):  # in turns, as the machine's speed varies
        for gateway, runs in ways.items():
            runs.append(by_up(secure(4, "process", gateway=gateway)))
    for what, column in (("until all are connected", 0), ("until a two-round run ended", 1)):
        without, best = (min(each[column] for each in runs) for runs in ways.values())
        added = best - without
        print(
            f"  {what:<28} without {without:5.1f}   with {best:5.1f}   "
            f"added {added:+.1f} ({added / without:+.0%})"
        )
    for count in (4, MANY):
        at_rest(count)


def secure(replicas: int, isolation: str, *, gateway: bool) -> dict[str, object]:
    manifest = cast("dict[str, Any]", document(replicas, isolation))
    manifest["spec"]["insecure"] = False
    manifest["spec"]["superlink"]["gateway"] = {"enabled": gateway}
    return manifest


def at_rest(count: int) -> None:
    """Memory and processor time of Envoy with SuperNodes that wait for work."""
    with own_state() as folder:
        path = folder / "bench.yaml"
        path.write_text(yaml.safe_dump(secure(count, "subprocess", gateway=True)))
        try:
            operator("up", "-d", "--timeout", "600", str(path))
            status = Record(folder / "flower-operator" / "bench").read_status()
            assert status
            (pid,) = (each.pid for each in status.processes if each.name == "superlink/gateway")
            before = cpu_seconds(pid)
            time.sleep(REST_SECONDS)
            used = (cpu_seconds(pid) - before) / REST_SECONDS
            print(
                f"  gateway with {count} SuperNodes: {resident(pid):.0f} MiB, {used:.1%} of a core"
            )
        finally:
            operator("down", "--all")


if __name__ == "__main__":
    main()
