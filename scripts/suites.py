"""`make test` and `make test-all`: the test suites side by side, and a table of what ran.

    python -m scripts.suites quick|all

The unit tests come first and end everything if one fails. The other suites then share the
machine: they wait for flwr, kubelets and clocks more than they work. Programs of clusters are
built meanwhile, in the order in which suites need them. What a suite prints goes to
build/tests/SUITE.log, and to the terminal if it fails.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "tests"
PROGRESS_SECONDS = 30.0
PERCENT = re.compile(r"\[ *(\d+)%\]")

CLUSTER_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "helm",
)
NODE_PROGRAMS = ("kubelet", "kube-proxy", "coredns")


@dataclass(frozen=True)
class Suite:
    """Tests that one pytest runs."""

    name: str
    arguments: tuple[str, ...]
    workers: int
    programs: tuple[str, ...] = ()

    def command(self) -> list[str]:
        report = f"--junitxml={FOLDER / self.name}.xml"
        workers = [f"--numprocesses={self.workers}"] if self.workers > 1 else []
        return [sys.executable, "-m", "pytest", *self.arguments, *workers, report]

    @property
    def log(self) -> Path:
        return FOLDER / f"{self.name}.log"


QUICK, EXTENDED = ("-m", "not extended"), ("-m", "extended")
# Files share fixtures that are slow to start; tests that share nothing go to whoever is free.
BY_FILE, ONE_BY_ONE = "--dist=loadfile", "--dist=worksteal"

UNIT = Suite("unit", ("tests/unit",), 2)
# Suites of one inner list run one after the other, the lists side by side.
QUICK_LANES = (
    (Suite("local", ("tests/local", ONE_BY_ONE, *QUICK), 3),),
    (Suite("cluster", ("tests/cluster", BY_FILE, *QUICK), 2, CLUSTER_PROGRAMS),),
)
EXTENDED_LANES = (
    (Suite("local-extended", ("tests/local", ONE_BY_ONE, *EXTENDED), 3),),
    (
        Suite(
            "cluster-extended",
            ("tests/cluster", BY_FILE, *EXTENDED),
            2,
            (*CLUSTER_PROGRAMS, "cert-manager"),
        ),
    ),
    (
        Suite("fleet", ("tests/fleet",), 1, (*CLUSTER_PROGRAMS, "ocm")),
        Suite("node", ("tests/node",), 1, (*CLUSTER_PROGRAMS, "ocm", *NODE_PROGRAMS)),
    ),
)

Lanes = Sequence[Sequence[Suite]]


@dataclass
class Result:
    """How one suite went."""

    suite: Suite
    exit_code: int
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    """Reasons why tests were skipped, and how many were."""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


class Builder:
    """Builds programs one Go module at a time; suites wait for those that they need."""

    def __init__(self, programs: Sequence[str]) -> None:
        self._done = {program: threading.Event() for program in programs}
        self.building = ""
        """The programs that are being built now."""
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._build_all, daemon=True)
        self._thread.start()

    def wait_for(self, programs: Sequence[str]) -> None:
        for program in programs:
            self._done[program].wait()

    def stop(self) -> None:
        self._stopped = True
        if self._process:
            end(self._process)

    def _build_all(self) -> None:
        from tests.harness.binaries import by_module

        FOLDER.mkdir(parents=True, exist_ok=True)
        with (FOLDER / "build.log").open("wb") as log:
            for programs in by_module(list(self._done)):
                if not self._stopped:
                    self.building = ", ".join(programs)
                    self._build(programs, log.fileno())
                for program in programs:
                    self._done[program].set()
        self.building = ""

    def _build(self, programs: Sequence[str], log: int) -> None:
        """A failure is reported by the suite, which tries again."""
        # The tests go first where both want the processor.
        command = ["nice", sys.executable, "-m", "tests.harness.binaries", *programs]
        self._process = start(command, log)
        self._process.wait()


def start(command: Sequence[str], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """pytest cleans up what it has started, as after Ctrl-C (tests/conftest.py).

    Not SIGINT: a shell that starts this in the background has it ignored, here and in pytest.
    """
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


class Run:
    """All suites of one `make test` or `make test-all`."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._running: dict[Suite, subprocess.Popen[bytes]] = {}
        self._stopped = False
        self.results: list[Result] = []

    def run_lanes(self, lanes: Lanes) -> None:
        with ThreadPoolExecutor(len(lanes) + 1) as pool:
            futures = [pool.submit(self._run_lane, lane) for lane in lanes]
            finished = threading.Event()
            progress = pool.submit(self._show_progress, finished)
            try:
                for future in futures:
                    future.result()
            except BaseException:
                self._stopped = True
                for process in list(self._running.values()):
                    end(process)
                raise
            finally:
                finished.set()
                progress.result()

    def _run_lane(self, lane: Sequence[Suite]) -> None:
        for suite in lane:
            if not self._stopped:
                self._builder.wait_for(suite.programs)
                self.results.append(self._run_suite(suite))

    def _run_suite(self, suite: Suite) -> Result:
        say(f"{suite.name}: started")
        started = time.monotonic()
        with suite.log.open("wb") as log:
            process = self._running[suite] = start(suite.command(), log.fileno())
            exit_code = process.wait()
        del self._running[suite]
        result = Result(suite, exit_code, time.monotonic() - started)
        read_report(result)
        say(f"{suite.name}: {'passed' if result.passed else 'FAILED'} in {clock(result.seconds)}")
        if not result.passed:
            print(suite.log.read_text(errors="replace"), flush=True)
        return result

    def _show_progress(self, finished: threading.Event) -> None:
        while not finished.wait(PROGRESS_SECONDS):
            progress = [f"{suite.name} {percent(suite)}" for suite in list(self._running)]
            if self._builder.building:
                progress.append(f"building {self._builder.building}")
            if progress:
                say(", ".join(progress))


def percent(suite: Suite) -> str:
    found = PERCENT.findall(suite.log.read_text(errors="replace")[-4000:])
    return f"{found[-1]}%" if found else "starting"


def read_report(result: Result) -> None:
    path = FOLDER / f"{result.suite.name}.xml"
    if not path.exists():
        return
    for case in ET.parse(path).iter("testcase"):
        outcome = next((each.tag for each in case if each.tag in OUTCOMES), "passed")
        result.counts[OUTCOMES.get(outcome, "passed")] += 1
        if (skipped := case.find("skipped")) is not None:
            result.skipped[skipped.get("message", "no reason given")] += 1


OUTCOMES = {"failure": "failed", "error": "failed", "skipped": "skipped"}


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def show(results: Sequence[Result], seconds: float) -> None:
    print(f"\n{'SUITE':<18}{'TIME':>7}{'PASSED':>8}{'FAILED':>8}{'SKIPPED':>9}  RESULT")
    total: Counter[str] = Counter()
    for result in results:
        counts = result.counts
        total += counts
        print(
            f"{result.suite.name:<18}{clock(result.seconds):>7}{counts['passed']:>8}"
            f"{counts['failed']:>8}{counts['skipped']:>9}  "
            f"{'passed' if result.passed else f'FAILED, see {result.suite.log.relative_to(ROOT)}'}"
        )
    print(f"{'all':<18}{clock(seconds):>7}")
    for result in results:
        for reason, count in result.skipped.items():
            print(f"skipped in {result.suite.name} ({count}): {reason}")
    print(f"\n{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=["quick", "all"])
    stages: list[Lanes] = [QUICK_LANES]
    if parser.parse_args().which == "all":
        stages.append(EXTENDED_LANES)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.xml"):
        old.unlink()
    suites = [suite for lanes in stages for lane in lanes for suite in lane]
    programs = dict.fromkeys(program for suite in suites for program in suite.programs)
    started = time.monotonic()
    builder = Builder(list(programs))
    run = Run(builder)
    try:
        run.run_lanes([[UNIT]])
        for lanes in stages:
            if run.results[0].passed:
                run.run_lanes(lanes)
    except KeyboardInterrupt:
        say("interrupted")
    finally:
        builder.stop()
    show(run.results, time.monotonic() - started)
    complete = len(run.results) == len(suites) + 1
    return 0 if complete and all(result.passed for result in run.results) else 1


if __name__ == "__main__":
    sys.exit(main())
