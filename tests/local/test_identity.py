"""SuperNodes with keys on this machine: who gets in, who does not, and what follows them."""

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from flower_operator.control import Node
from flower_operator.flower.dialects import dialect_of
from flower_operator.flower.releases import parse_release
from flower_operator.local.process import Process
from flower_operator.local.state import Desired, ProcessStatus, Record, Status
from flower_operator.local.superlink import connect
from flower_operator.local.supervisor import Managed, Supervisor
from flower_operator.local.trust import renew_trust
from flower_operator.runs.environments import environment
from flower_operator.trust.certificates import make_key_pair
from flower_operator.trust.keys import MISSED_SECONDS, Enrolment
from tests.harness.ports import free_port
from tests.harness.processes import ProcessGroup
from tests.harness.records import make_older
from tests.harness.waiting import wait_for
from tests.local.machine import REPORT_APP, Machine, keyed_federation

pytestmark = pytest.mark.extended

RELEASES = ["1.25.0", "1.37.0", "1.42.0"]
KEY = "--auth-supernode-private-key"
DUE = {"ca-key": 7300, "ca": 7300, "superlink-tls": 365, "superexec": 366} | {
    f"supernode-south-{own}": 366 for own in ("keys", "superexec")
}
"""Days after which what there is is to be renewed, but not yet at any price."""
REFUSED = ("No SuperNode found with", "could not be activated", "Failed to activate SuperNode")


def desired(machine: Machine) -> Desired:
    found = machine.record("fed").read_desired()
    assert found
    return found


def status(machine: Machine) -> Status:
    found = machine.record("fed").read_status()
    assert found, machine.logs()
    return found


def process_of(machine: Machine, name: str) -> ProcessStatus:
    return next(each for each in status(machine).processes if each.name == name)


def pids(machine: Machine) -> dict[str, int | None]:
    return {each.name: each.pid for each in status(machine).processes}


def nodes(machine: Machine) -> list[Node]:
    """What the SuperLink itself knows."""

    async def ask() -> list[Node]:
        client = connect(desired(machine))
        try:
            return await client.nodes()
        finally:
            await client.close()

    return asyncio.run(ask())


def online(machine: Machine) -> set[bytes]:
    return {each.public_key or b"" for each in nodes(machine) if each.online}


def own_keys(machine: Machine) -> dict[str, bytes]:
    return {each.pod: each.key.encode() for each in desired(machine).processes if each.key}


def trust(machine: Machine) -> Path:
    return machine.record("fed").folder / "trust"


def wait_until_ready(machine: Machine) -> None:
    wait_for(
        lambda: status(machine).ready,
        lambda: f"not ready: {status(machine)}{machine.logs()}",
        timeout=120,
    )


def kill(machine: Machine, process: str) -> None:
    pid = process_of(machine, process).pid
    assert pid
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("release", RELEASES)
def test_who_is_not_of_the_federation_stays_out_and_the_status_says_why(
    machine: Machine, release: str
) -> None:
    document = keyed_federation("fed", release, "subprocess")
    machine.up(document)
    other = renew_trust(machine.folder / "other", "other", []).root_certificates
    assert other
    (other.parent / "key").write_text(make_key_pair().private)
    with strangers(machine, release, other.parent):
        assert online(machine) == set(own_keys(machine).values())
        assert "fed: ready, 2/2 SuperNodes connected" in machine.run("status", "fed").stdout
    north, south = document["spec"]["supernodes"]["pools"]
    south["volumes"] = [{"name": "other", "hostPath": {"path": str(other.parent)}}]
    south["volumeMounts"] = [{"name": "other", "mountPath": "/other"}]
    north["extraArgs"], south["extraArgs"] = ["--insecure"], [KEY, "/other/key"]
    machine.run("up", "-d", "--timeout", "1", machine.write(document), check=False)
    wait_until_said(machine, "south-0/supernode: its key is refused")
    wait_until_said(machine, "Conflicting options: The '--insecure' flag")
    assert online(machine) == set()
    south["extraArgs"] = ["--root-certificates", "/other/ca.crt"]
    machine.run("up", "-d", "--timeout", "1", machine.write(document), check=False)
    wait_until_said(machine, "south-0/supernode: it does not trust the SuperLink's certificate")
    assert online(machine) == set()


@contextmanager
def strangers(machine: Machine, release: str, other: Path) -> Iterator[None]:
    """SuperNodes that were started by hand and have all been refused."""
    root, new = ["--root-certificates", str(trust(machine) / "fed-ca/ca.crt")], str(other / "key")
    taken = str(trust(machine) / "fed-supernode-north-keys/0")
    kinds = {
        "wrong-ca": (["--root-certificates", str(other / "ca.crt"), KEY, new], ["VERIFY_FAILED"]),
        "no-key": (root, ["SuperNode authentication is enabled"]),
        "unregistered-key": ([*root, KEY, new], REFUSED),
        "another's-key": ([*root, KEY, taken], REFUSED),
        "plain": (["--insecure"], ["Connection attempt failed"]),
    }
    found = parse_release(release)
    assert found
    command = str(environment(found) / "bin" / "flower-supernode")
    usual = ["--isolation", "process", "--superlink", desired(machine).fleet]
    with ProcessGroup() as group:

        def start(name: str, arguments: list[str]) -> Path:
            address = replace(dialect_of(found).clientappio, port=free_port()).listen("127.0.0.1")
            settings = [f"FLWR_HOME={group.folder / name}", "FLWR_TELEMETRY_ENABLED=0"]
            return group.start(name, ["env", *settings, command, *arguments, *usual, *address]).log

        logs = {name: start(name, arguments) for name, (arguments, _) in kinds.items()}
        wait_for(
            lambda: all(
                any(each in logs[name].read_text() for each in words)
                for name, (_, words) in kinds.items()
            ),
            lambda: f"not all are refused: {group.log_tails()}",
            timeout=120,
        )
        yield


def wait_until_said(machine: Machine, words: str) -> None:
    def said() -> str:
        found = status(machine)
        reasons = [f"{each.name}: {each.reason}" for each in found.processes]
        return "\n".join([found.message, *reasons])

    wait_for(
        lambda: words in said(),
        lambda: f"not said: {words}, but {said()}{machine.logs()}",
        timeout=90,
    )


def test_keys_follow_supernodes_and_are_registered_anew_where_they_were_lost(
    machine: Machine,
) -> None:
    # A release whose SuperNodes hang if they are refused.
    document = keyed_federation("fed", "1.37.0", "subprocess")
    machine.up(document)
    before = own_keys(machine)
    kill(machine, "south-0/supernode")
    wait_for(
        lambda: status(machine).message.startswith("south-0/supernode: its key is still in use"),
        lambda: f"it does not wait: {status(machine)}",
        timeout=30,
    )
    assert process_of(machine, "south-0/supernode").state == "waiting"
    kill(machine, "superlink/superlink")
    wait_until_ready(machine)
    assert online(machine) == set(before.values())

    pools = document["spec"]["supernodes"]["pools"]
    pools[0]["replicas"] = 2
    pools.pop()
    machine.up(document)
    after = own_keys(machine)
    assert after.keys() == {"north-0", "north-1"}
    assert after["north-0"] == before["north-0"]
    assert {each.public_key: each.status for each in nodes(machine)} == {
        after["north-0"]: "online",
        after["north-1"]: "online",
        before["south-0"]: "unregistered",
    }
    machine.up(document)
    assert not (trust(machine) / "fed-supernode-south-keys").exists()


@pytest.mark.parametrize("release", ["1.25.0", "1.42.0"])
def test_a_run_outlives_the_time_for_new_certificates_secrets_and_keys(
    machine: Machine, release: str
) -> None:
    document = keyed_federation("fed", release, "process", persistence={"size": "1Gi"})
    machine.up(document)
    keys, started = own_keys(machine), pids(machine)
    bundle = machine.run("ca", "fed").stdout
    with run_under_way(machine):
        for part, days in DUE.items():
            make_older(trust(machine) / f"fed-{part}", timedelta(days=days))
        # Lost keys are no matter of time.
        shutil.rmtree(trust(machine) / "fed-supernode-north-keys")
        said = machine.up(document).stderr
        assert "AuthorityDue" in said
        assert "a restart of SuperNodes and SuperExecs with the new CA waits until no run" in said
        assert "a new SuperExec secret waits until no run is under way" in said
        now = pids(machine)
        assert [name for name in now if now[name] != started[name]] == ["north-0/supernode"]
        assert own_keys(machine)["south-0"] == keys["south-0"]
    said = machine.up(document).stderr
    assert "ClientsCalled" in said
    assert "KeysDue" in said
    machine.up(document)
    assert machine.run("ca", "fed").stdout != bundle
    new = own_keys(machine)
    assert not set(new.values()) & set(keys.values())
    # After an end in order keys are free at once.
    machine.run("down", "fed")
    machine.up(document)
    assert own_keys(machine) == new
    assert {each.public_key: each.status for each in nodes(machine)} == {
        **dict.fromkeys(keys.values(), "unregistered"),
        **dict.fromkeys(new.values(), "online"),
    }


def test_a_supernode_starts_once_its_key_is_free_and_runs_know_that_it_was_gone(
    tmp_path: Path,
) -> None:
    async def start() -> None:
        supervisor = Supervisor(Record(tmp_path))
        supervisor.record.logs.mkdir()
        supervisor.superlink_listens.set()
        looks = time.monotonic() + 3600  # later than any that was before
        free, taken = Enrolment(frozenset({"key"})), Enrolment(*[frozenset({"key"})] * 2)
        process = Process("north-0", "supernode", ["sleep", "60"], {}, key="key")
        managed = Managed(process, 0, supervisor)
        try:
            for after, said, words in (
                (0, Enrolment(), "its key is not registered yet"),
                (1, taken, "its key is still in use"),
                (2, free, "runs are told that it was gone"),
            ):
                supervisor.learn(looks + after, said)
                await until(lambda words=words: managed.status.reason.startswith(words))  # type: ignore[misc]
                assert managed.status.pid is None
            supervisor.learn(looks + 3 + MISSED_SECONDS, free)
            await until(lambda: managed.status.pid)
        finally:
            await managed.stop()

    async def until(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.01)

    asyncio.run(start())


@contextmanager
def run_under_way(machine: Machine) -> Iterator[None]:
    """While ClientApps train for the second time; after it the run has completed."""
    record = machine.record("fed")
    report = record.folder / "work" / "superlink" / "report.log"
    options = ("--federation", "fed", "--run-config", "rounds=3 pause=8.0")
    submitting = threading.Thread(
        target=lambda: machine.run("run", REPORT_APP, *options, check=False)
    )
    submitting.start()
    logs = [record.log_of(f"{pool}-0/supernode") for pool in ("north", "south")]
    wait_for(
        lambda: all(log.read_text().count("Received successfully") >= 2 for log in logs),
        lambda: f"no second round{machine.logs()}",
        timeout=120,
    )
    yield
    wait_for(
        lambda: "RESULT" in report.read_text(),
        lambda: f"no result{machine.logs()}",
        timeout=120,
    )
    submitting.join(timeout=60)
    assert "ROUND 3 of 2 nodes" in report.read_text()
