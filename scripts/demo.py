"""`make demo`: four SuperNodes of two pools train together what none of them can alone."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from flower_operator.api.documents import read_documents
from flower_operator.api.manifest import parse
from flower_operator.render import Facts, render
from flower_operator.runs.environments import EnvironmentUnavailable, environment

ROOT = Path(__file__).parents[1]
MANIFEST = "examples/federation-newest.yaml"
NAME = "federation-newest"
APP = "examples/apps/digits"
ROUND = re.compile(r"ROUND (\d+) accuracy ([\d.]+)")
SINGLE = re.compile(r"SINGLE mean ([\d.]+) best ([\d.]+)")
WIDTH = 40


def main() -> int:
    start = time.monotonic()
    (manifest,) = read_documents((ROOT / MANIFEST).read_text())
    release = render(parse(manifest), Facts()).releases.superlink
    say(f"Flower {release} and scikit-learn (installed once, then kept)")
    try:
        folder = environment(release, lambda: None, "scikit-learn")
    except EnvironmentUnavailable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    try:
        if operator("up", "-d", MANIFEST, "--env", str(folder)):
            return 1
        rounds, single = train()
    finally:
        operator("down", NAME)
    if not rounds or single is None:
        print("error: the run gave no result", file=sys.stderr)
        return 1
    show(rounds, single)
    print(f"\nDone in {time.monotonic() - start:.0f} s.")
    return 0


def say(text: str) -> None:
    print(f"\n\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def operator(*arguments: str) -> int:
    say(f"$ flower-operator {' '.join(short(text) for text in arguments)}")
    command = [sys.executable, "-m", "flower_operator", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def short(text: str) -> str:
    home = str(Path.home())
    return f"~{text[len(home) :]}" if text.startswith(f"{home}{os.sep}") else text


def train() -> tuple[dict[int, float], tuple[float, float] | None]:
    """Run the app; the accuracy of each round and of SuperNodes on their own."""
    say(f"$ flower-operator run {APP}")
    command = [sys.executable, "-m", "flower_operator", "run", APP, "--federation", NAME]
    rounds: dict[int, float] = {}
    single = None
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout
        log = []
        for line in running.stdout:
            log.append(line)
            if match := ROUND.search(line):
                rounds[int(match[1])] = float(match[2])
                print(f"  round {match[1]} …", flush=True)
            elif match := SINGLE.search(line):
                single = float(match[1]), float(match[2])
    if not rounds or single is None:
        sys.stderr.writelines(log[-30:])
    return rounds, single


def show(rounds: dict[int, float], single: tuple[float, float]) -> None:
    say("Accuracy on digits that no SuperNode has seen")
    rows = [(f"round {number}", accuracy) for number, accuracy in sorted(rounds.items())]
    rows += [("one SuperNode alone, mean", single[0]), ("one SuperNode alone, best", single[1])]
    for label, accuracy in rows:
        print(f"  {label:<26} {accuracy:6.1%}  {'█' * round(accuracy * WIDTH)}")


if __name__ == "__main__":
    sys.exit(main())
