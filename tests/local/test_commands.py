"""The commands for Federations of this machine, and what they say about bad input."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from flower_operator.flower.releases import Release
from flower_operator.runs.environments import environment
from tests.harness.releases import extended_unless
from tests.harness.waiting import wait_for
from tests.local.machine import REPORT_APP, Document, Machine, federation, secure_federation


@pytest.mark.extended
def test_two_federations_of_different_releases_side_by_side(machine: Machine) -> None:
    machine.up(federation("old", "1.23.0", "subprocess"))
    machine.up(federation("new", "1.42.0", "subprocess"))
    rows = [line.split() for line in machine.run("list").stdout.splitlines()]
    assert rows[0] == ["NAME", "FLOWER", "READY", "SUPERNODES", "CONTROL", "AGE"]
    assert [row[:4] for row in rows[1:]] == [
        ["new", "1.42.0", "True", "2/2"],
        ["old", "1.23.0", "True", "2/2"],
    ]
    said = machine.run("run", REPORT_APP, check=False)
    assert said.stderr == "error: say which Federation; running: new, old\n"
    status = machine.run("status", "old").stdout.splitlines()
    assert status[0] == "old: ready, 2/2 SuperNodes connected"
    assert [line.split() for line in status[2:]] == [
        ["POOL", "NODES", "STATE", "RESTARTS"],
        ["superlink", "1/1", "running", "0"],
        ["north", "1/1", "running", "0"],
        ["south", "1/1", "running", "0"],
    ]
    old = machine.run("config", "old").stdout
    assert old.startswith("[tool.flwr.federations.old]\naddress = ")
    assert machine.run("config", "new").stdout.startswith("[superlink.new]\naddress = ")
    assert "Starting Flower SuperLink" in machine.run("logs", "new", "superlink").stdout
    assert machine.run("down", "old").stdout == "old ended\n"
    assert machine.run("list").stdout.count("\n") == 2
    assert machine.run("down", "--all").stdout == "new ended\n"


@pytest.mark.parametrize(
    ("release", "described"),
    extended_unless(
        [("1.42.0", secure_federation)],
        product(["1.25.0", "1.42.0"], [federation, secure_federation]),
    ),
)
def test_plain_flwr_run_with_the_written_connection(
    machine: Machine, release: str, described: Callable[[str, str, str], Document]
) -> None:
    machine.up(described("fed", release, "subprocess"))
    app, home = machine.folder / "app", machine.folder / "flwr-home"
    shutil.copytree(REPORT_APP, app)
    own = machine.environment | {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    machine.environment["FLWR_HOME"] = str(home)
    project = app / "pyproject.toml"
    project.write_text(project.read_text() + "\n# a comment of the user\n")
    before = project.read_text()
    machine.run("config", "fed", "--write", "--app", app)
    if release == "1.25.0":
        assert project.read_text().startswith(before.rstrip())
    else:
        assert project.read_text() == before
    flwr = environment(Release(1, int(release.split(".")[1]))) / "bin" / "flwr"
    done = subprocess.run(
        [flwr, "run", str(app), "fed", "--stream"],
        env=own,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert "RESULT" in done.stdout + done.stderr, done.stdout + done.stderr + machine.logs()


@pytest.mark.extended
def test_a_daemonset_runs_on_as_many_nodes_as_are_asked_for(machine: Machine) -> None:
    document = federation("fed", "1.42.0", "subprocess")
    document["spec"]["mode"] = "DaemonSet"
    pool = document["spec"]["supernodes"]["pools"][0]
    del pool["replicas"]
    pool["nodeConfig"] = {"partition-id": "3", "node": "{node}"}
    document["spec"]["supernodes"]["pools"] = [pool]
    machine.up(document, "--nodes", "2")
    reports = machine.result_of("fed")["reports"]
    host = socket.gethostname().partition(".")[0].lower()
    assert sorted(report["node"] for report in reports) == [f"{host}-0", f"{host}-1"]


@pytest.mark.extended
def test_logs_and_status_are_followed_until_the_federation_ends(machine: Machine) -> None:
    machine.up(federation("fed", "1.42.0", "subprocess"))
    following = subprocess.Popen(
        machine.command("logs", "-f", "fed", "north"),
        env=machine.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    watching = subprocess.Popen(
        machine.command("status", "-w", "fed"),
        env=machine.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    machine.result_of("fed")
    machine.run("down", "fed")
    seen, _ = watching.communicate(timeout=30)
    assert seen.startswith("fed: ready, 2/2 SuperNodes connected\n")
    assert (seen.endswith("error: fed ended\n"), watching.returncode) == (True, 1)
    output, _ = following.communicate(timeout=30)
    assert "north-0/supernode | " in output
    assert "Receiving: train message" in output
    assert "south-0" not in output


@pytest.mark.extended
def test_images_of_ones_own_with_an_environment_of_ones_own(machine: Machine) -> None:
    document = federation("fed", "1.42.0", "subprocess")
    document["spec"]["superlink"]["image"] = "my-registry/link:v7"
    document["spec"]["supernodes"]["image"] = "my-registry/node:v7"
    folder = environment(Release(1, 25))
    machine.up(document, "--env", str(folder))
    assert "1.25.0" in machine.run("list").stdout
    assert machine.result_of("fed")["model"] == [0.5, 0.5, 0.5]


@pytest.mark.extended
def test_nothing_is_written_into_the_working_directory(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = machine.write(federation("fed", "1.42.0", "subprocess"))
    before = sorted(folder.iterdir())
    subprocess.run(
        machine.command("up", "-d", path),
        cwd=folder,
        env=machine.environment,
        check=True,
        capture_output=True,
    )
    assert sorted(folder.iterdir()) == before


@pytest.mark.extended
def test_a_port_of_ones_own_and_one_in_use(machine: Machine) -> None:
    path = machine.write(federation("fed", "1.42.0", "subprocess"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = machine.run("up", "-d", "--port", port, path, check=False)
    assert said.stderr == (
        f"error: port {port} of 127.0.0.1 is in use; choose another or leave it out\n"
    )
    machine.run("up", "-d", "--port", port, path)
    assert f"127.0.0.1:{port}" in machine.run("list").stdout


def test_bad_input_is_told_in_a_line_and_leaves_nothing_running(machine: Machine) -> None:
    def error(*arguments: str | Path) -> str:
        done = machine.run(*arguments, check=False)
        assert done.returncode == 1
        machine.wait_until_empty()
        return done.stderr

    sound = federation("fed", "1.42.0", "subprocess")
    path = machine.write(sound)
    assert error("status", "absent") == (
        "error: no Federation absent runs on this machine, and there is no kubeconfig at "
        f"{machine.folder}/no-kubeconfig: set KUBECONFIG, or run inside a pod; "
        "to run one here: flower-operator up FILE\n"
    )
    assert error("down", "absent") == "error: no Federation absent runs here; running: none\n"
    assert "no Flower 1.42.9 on PyPI; the nearest known is 1.42.0" in error(
        "up", "-d", "--release", "1.42.9", path
    )
    assert "is no virtual environment" in error("up", "-d", "--env", machine.folder, path)
    gpu = federation("gpu", "1.42.0", "subprocess")
    gpu["spec"]["supernodes"]["pools"][0]["gpu"] = {"enabled": True, "vendor": "amd"}
    if not Path("/dev/kfd").exists():
        assert error("up", "-d", machine.write(gpu)) == (
            "error: pool north asks for amd GPUs and this machine has none; "
            "set gpu.enabled: false to run it here\n"
        )
    broken = federation("broken", "1.42.0", "subprocess", imag="x")
    assert "spec.superlink.imag: is not a field; did you mean image?" in error(
        "up", "-d", machine.write(broken)
    )
    old = federation("old", "1.42.0", "subprocess")
    old["spec"]["supernodes"]["image"] = "flwr/supernode:1.25.0"
    assert "cannot join a SuperLink of 1.42.0" in error("up", "-d", machine.write(old))
    assert "No such file" in error("up", "-d", machine.folder / "absent.yaml")


@pytest.mark.extended
@pytest.mark.parametrize("release", ["1.25.0", "1.34.0", "1.37.0", "1.42.0"])
def test_a_run_that_fails_says_so_in_its_status(machine: Machine, release: str) -> None:
    machine.up(federation("fed", release, "subprocess"))
    done = machine.run("run", REPORT_APP, "--run-config", "fail=true", check=False)
    assert "Exit Code: 20" in done.stdout
    assert done.returncode == 1


@pytest.mark.extended
def test_an_app_that_is_none_is_named(machine: Machine) -> None:
    machine.up(federation("fed", "1.42.0", "subprocess"))
    empty = machine.folder / "empty"
    empty.mkdir()
    assert "it has no pyproject.toml" in machine.run("run", empty, check=False).stderr
    (empty / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert "has no [tool.flwr.app]" in machine.run("run", empty, check=False).stderr


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
@pytest.mark.extended
def test_the_live_table_in_a_terminal_of_80_columns(machine: Machine) -> None:
    path = machine.write(federation("fed", "1.42.0", "process"))
    socket_name = f"flower-operator-{os.getpid()}"
    tmux = ["tmux", "-L", socket_name]
    start = [*tmux, "new-session", "-d", "-x", "80", "-y", "24", "-s", "t"]
    command = machine.command("up", path)
    subprocess.run([*start, *command], env=machine.environment, check=True)
    try:

        def screen() -> list[str]:
            done = subprocess.run(
                [*tmux, "capture-pane", "-p", "-t", "t"],
                capture_output=True,
                text=True,
                check=False,
            )
            return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]

        wait_for(
            lambda: any("2/2 SuperNodes connected" in line for line in screen()),
            lambda: "\n".join(screen()),
            timeout=120,
        )
        wait_for(lambda: "Ctrl-C ends it." in screen(), lambda: "\n".join(screen()), timeout=10)
        lines = screen()
        assert sum("SuperNodes connected" in line for line in lines) == 1, "written over, not on"
        assert lines[2].split() == ["POOL", "NODES", "STATE", "RESTARTS"]
        assert lines[4].split() == ["north", "1/1", "running", "0"]
        subprocess.run([*tmux, "send-keys", "-t", "t", "C-c"], check=True)
        machine.wait_until_empty(timeout=40)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
