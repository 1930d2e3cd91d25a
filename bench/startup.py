"""CPU time of the commands that a person waits for; the floor is Python doing nothing."""

import resource
import subprocess
import sys
from pathlib import Path

RUNS = 5
EXAMPLE = Path(__file__).parents[1] / "examples" / "federation-resources.yaml"


def main() -> None:
    print(f"CPU seconds of a command, best of {RUNS}")
    tool = [sys.executable, "-m", "flower_operator"]
    report("floor: python -c pass", [sys.executable, "-c", "pass"])
    report("flower-operator --help", [*tool, "--help"])
    report("flower-operator releases", [*tool, "releases"])
    report("flower-operator validate", [*tool, "validate", str(EXAMPLE)])


def report(what: str, command: list[str]) -> None:
    print(f"  {what:<26} {min(cpu_seconds(command) for _ in range(RUNS)):>8.3f}")


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
