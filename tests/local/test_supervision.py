"""What happens when processes end that should not."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from flower_operator.local.state import ProcessStatus, Status
from tests.harness.waiting import wait_for
from tests.local.machine import Machine, federation

RELEASE = "1.42.0"


def status_of(machine: Machine, name: str) -> Status | None:
    return machine.record(name).read_status()


def process_of(machine: Machine, name: str, process: str) -> ProcessStatus:
    status = status_of(machine, name)
    assert status
    (found,) = (each for each in status.processes if each.name == process)
    return found


def wait_until_ready(machine: Machine, name: str) -> Status:
    def ready() -> Status | None:
        status = status_of(machine, name)
        return status if status and status.ready else None

    return wait_for(ready, lambda: f"{name} is not ready{machine.logs()}", timeout=120)


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def kill(machine: Machine, name: str, process: str) -> int:
    pid = process_of(machine, name, process).pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    return pid


@pytest.mark.extended
def test_a_killed_supernode_is_back_and_counted_again(machine: Machine) -> None:
    machine.up(federation("fed", RELEASE, "subprocess"))
    old = kill(machine, "fed", "south-0/supernode")

    def replaced() -> bool:
        found = process_of(machine, "fed", "south-0/supernode")
        return found.restarts == 1 and found.pid not in (None, old)

    wait_for(replaced, lambda: f"not restarted{machine.logs()}", timeout=30)
    wait_until_ready(machine, "fed")
    assert machine.result_of("fed", "--run-config", "nodes=2")["reports"]


@pytest.mark.parametrize("release", ["1.25.0", "1.42.0"])
@pytest.mark.extended
def test_a_run_outlives_the_superlink_if_that_is_persistent(machine: Machine, release: str) -> None:
    machine.up(federation("fed", release, "process", persistence={"size": "1Gi"}))
    work = machine.record("fed").folder / "work"
    log = work / "superlink" / "report.log"
    options = ("--run-config", "rounds=3 pause=8.0")
    submitting = threading.Thread(
        target=lambda: machine.run(
            "run",
            Path(__file__).parent / "apps/report",
            "--federation",
            "fed",
            *options,
            check=False,
        )
    )
    submitting.start()
    # While both ClientApps train nothing is on its way: a message that is sent twice is refused by
    # flwr, and one that a SuperNode of 1.25 has received in part is never answered.
    markers = [work / f"{pool}-0" / "train.log" for pool in ("north", "south")]
    wait_for(
        lambda: all(lines_of(marker) >= 2 for marker in markers),
        lambda: f"no second round{machine.logs()}",
        timeout=120,
    )
    kill(machine, "fed", "superlink/superlink")
    wait_for(lambda: "RESULT" in log.read_text(), lambda: f"no result{machine.logs()}", timeout=120)
    submitting.join(timeout=60)
    assert '"model": [1.5, 1.5, 1.5]' in log.read_text()
    claim = machine.record("fed").folder / "volumes/superlink/state"
    machine.run("down", "fed")
    assert (claim / "superlink.db").stat().st_size > 0
    assert (claim / "apps").exists() == (release == "1.25.0")


@pytest.mark.extended
def test_nothing_outlives_a_killed_supervisor(machine: Machine) -> None:
    machine.up(federation("fed", RELEASE, "subprocess"))
    pid = machine.record("fed").supervisor()
    assert pid
    assert len(machine.processes()) > 3
    os.kill(pid, signal.SIGKILL)
    machine.wait_until_empty(timeout=20)
    assert "No Federation runs" in machine.run("list").stdout
    machine.up(federation("fed", RELEASE, "subprocess"))


def test_an_update_restarts_only_what_changed(machine: Machine) -> None:
    document = federation("fed", RELEASE, "subprocess")
    machine.up(document)
    before = {each.name: each.pid for each in wait_until_ready(machine, "fed").processes}
    document["spec"]["supernodes"]["pools"][1]["env"] = [{"name": "COLOUR", "value": "red"}]
    machine.up(document)
    after = {each.name: each.pid for each in wait_until_ready(machine, "fed").processes}
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {"south-0/supernode"}
    document["spec"]["supernodes"]["pools"].pop()
    machine.up(document)
    left = {each.name: each.pid for each in wait_until_ready(machine, "fed").processes}
    assert set(before) - set(left) == {"south-0/supernode"}


@pytest.mark.extended
def test_restart_of_a_component(machine: Machine) -> None:
    machine.up(federation("fed", RELEASE, "subprocess"))
    before = {each.name: each.pid for each in wait_until_ready(machine, "fed").processes}
    assert machine.run("restart", "fed", "north-0").stdout == "north-0/supernode restarts\n"

    def restarted() -> bool:
        return process_of(machine, "fed", "north-0/supernode").pid not in (
            None,
            before["north-0/supernode"],
        )

    wait_for(restarted, "not restarted", timeout=30)
    after = {each.name: each.pid for each in wait_until_ready(machine, "fed").processes}
    assert {name for name in before if before[name] != after[name]} == {"north-0/supernode"}
    said = machine.run("restart", "fed", "west-0", check=False)
    assert (said.returncode, said.stderr) == (
        1,
        "error: there is no component west-0; there are north-0, south-0, superlink\n",
    )
    said = machine.run("suspend", "fed", check=False)
    assert said.stderr.startswith("error: fed runs on this machine, where it can only be ended")
    assert machine.run("restart", "fed").stdout.splitlines() == [
        f"{name} restarts" for name in before
    ]


def test_a_crash_loop_is_told_with_its_reason_and_nothing_stays(machine: Machine) -> None:
    document = federation("fed", RELEASE, "subprocess", extraArgs=["--no-such-flag"])
    done = machine.run("up", "-d", machine.write(document), check=False)
    assert done.returncode == 1
    assert "superlink/superlink keeps failing" in done.stderr
    assert "it does not know the arguments --no-such-flag" in done.stderr
    assert "unrecognized arguments" in done.stderr, "the end of the log is shown"
    machine.wait_until_empty()


@pytest.mark.extended
def test_ctrl_c_ends_everything(machine: Machine) -> None:
    document = federation("fed", RELEASE, "subprocess")
    output, errors = machine.folder / "output", machine.folder / "errors"
    with output.open("w") as out, errors.open("w") as err:
        running = subprocess.Popen(
            machine.command("up", machine.write(document)),
            env=machine.environment,
            stdout=out,
            stderr=err,
            # As in a terminal, also where these tests run with the signal ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    wait_for(
        lambda: "Ctrl-C ends it." in errors.read_text(),
        lambda: f"not up: {errors.read_text()}{machine.logs()}",
        timeout=120,
    )
    running.send_signal(signal.SIGINT)
    running.wait(timeout=60)
    assert "fed: ready, 2/2 SuperNodes connected" in output.read_text()
    assert "Traceback" not in errors.read_text()
    machine.wait_until_empty()


def test_a_foreground_command_that_is_killed_takes_its_federation_along(machine: Machine) -> None:
    running = subprocess.Popen(
        machine.command("up", machine.write(federation("fed", RELEASE, "subprocess"))),
        env=machine.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until_ready(machine, "fed")
    running.kill()
    running.wait()
    machine.wait_until_empty(timeout=40)
