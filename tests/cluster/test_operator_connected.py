"""What the operator learns from a SuperLink itself: a real one, where it can be reached."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from flower_operator.flower.control import Run
from flower_operator.kube.connection import connect
from flower_operator.operator.controller import Controller, Options
from flower_operator.render.secrets import AUTHORITY, CERTIFICATE, SECRET
from tests.cluster.federations import Document, Namespace, condition, wait_until
from tests.cluster.test_operator_examples import make_volume
from tests.harness.control_plane import ControlPlane
from tests.local.machine import Machine, federation

pytestmark = pytest.mark.extended

# Secrets, and days after which each is to be renewed.
AGES = {"ca-key": 7300, "superlink-tls": 365}
AGES |= dict.fromkeys(("superexec", "supernode-north-superexec"), 366)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path) as machine:
        yield machine


@contextmanager
def controller(plane: ControlPlane, superlink: str, *, fleet: bool = False) -> Iterator[None]:
    """The operator in this process, which finds every SuperLink at one address."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    options = Options(locate=lambda address: superlink, fleet=fleet)

    def work() -> None:
        loop.run_until_complete(Controller(connect(plane.kubeconfig), options).run(stop))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.mark.parametrize("release", ["1.25.0", "1.41.0"])
def test_the_superlink_is_asked_who_is_connected(
    plane: ControlPlane, machine: Machine, release: str
) -> None:
    """On this machine two SuperNodes run; the pods of the cluster are kwok's and do nothing."""
    name = f"lab-{release.replace('.', '-')}"
    document = federation(name, release, "subprocess")
    machine.up(document)
    desired = machine.record(name).read_desired()
    assert desired
    room = Namespace(plane, "default")
    with controller(plane, desired.control):
        room.apply(document)
        room.wait_until_ready(name)
        wait_until(lambda: connected(room, name) == 2, "nobody is told to be connected")

        room.apply(with_replicas(document, 2))
        status = room.wait_for_condition(name, "Ready", "False", "NotConnected")
        assert "2 of 3" in condition(status, "Ready")["message"]
        assert condition(status, "Reconciling")["status"] == "True"

        machine.run("down", name)
        # Nothing answers any more, so that Ready is up to the probes alone.
        room.wait_until_ready(name)
        said = condition(room.federation(name), "SuperLinkAvailable")
        assert "not known: nothing answers" in said["message"]
        assert connected(room, name) is None


@dataclass
class SuperLink:
    """What every SuperLink says here."""

    runs_: list[Run]

    async def nodes(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(online=True)] * 2

    async def runs(self) -> list[Run]:
        return self.runs_

    async def close(self) -> None:
        pass


def test_a_restart_for_a_new_name_waits_for_a_run_and_says_so(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    superlink = SuperLink([Run(1, "running", "")])
    monkeypatch.setattr("flower_operator.control.ControlClient", lambda *_: superlink)
    monkeypatch.setattr("flower_operator.operator.connections.SELDOM", 0.5)
    document = federation("lab", "1.41.0", "subprocess")
    document["spec"]["insecure"] = False
    room = Namespace(plane, "default")
    with controller(plane, "nowhere"):
        room.apply(document)
        room.wait_until_ready("lab")
        before = room.secret("lab-superlink-tls")["tls.crt"]
        document["spec"]["tls"] = {"subjectAltNames": ["late.example.test"]}
        room.apply(document)
        words = "note: a certificate for late.example.test waits until no run is under way"
        wait_until(
            lambda: words in condition(room.federation("lab"), "Ready")["message"],
            lambda: f"nobody is told: {condition(room.federation('lab'), 'Ready')}",
        )
        assert room.secret("lab-superlink-tls")["tls.crt"] == before
        superlink.runs_ = []
        wait_until(
            lambda: room.secret("lab-superlink-tls")["tls.crt"] != before, "it waits for ever"
        )


def test_serverapps_and_supernodes_are_not_restarted_under_a_run_for_a_new_ca_or_secret(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is to wait for runs, and the SuperLink does not; but that they outlive."""
    superlink = SuperLink([Run(1, "running", "")])
    monkeypatch.setattr("flower_operator.control.ControlClient", lambda *_: superlink)
    monkeypatch.setattr("flower_operator.operator.connections.SELDOM", 0.5)
    kept = {"size": "1Gi", "storageClassName": "none"}
    document = federation("kept", "1.41.0", "process", persistence=kept)
    document["spec"] |= {"insecure": False, "tls": {"rotation": {"maxWait": "0s"}}}
    room = Namespace(plane, "default")
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
    make_volume(
        room, "state-kept-superlink-0", claim | {"resources": {"requests": {"storage": "1Gi"}}}
    )
    others = [("Deployment", "kept-serverapp"), ("StatefulSet", "kept-supernode-north")]
    with controller(plane, "nowhere"):
        room.apply(document)
        room.wait_until_ready("kept")
        before = [annotations(room, *each) for each in others]
        served = annotations(room, "StatefulSet", "kept-superlink")[CERTIFICATE]
        for part, days in AGES.items():
            room.make_older(f"kept-{part}", timedelta(days=days))
        wait_until(
            lambda: annotations(room, "StatefulSet", "kept-superlink")[CERTIFICATE] != served,
            "the SuperLink has no new certificate",
        )
        words = [
            "a restart of SuperNodes and SuperExecs with the new CA waits until no run",
            "a new SuperExec secret waits until no run is under way",
        ]
        wait_until(
            lambda: all(
                each in condition(room.federation("kept"), "Ready")["message"] for each in words
            ),
            lambda: f"nobody is told: {condition(room.federation('kept'), 'Ready')}",
        )
        assert [annotations(room, *each) for each in others] == before
        assert room.secret("kept-superlink-tls")["tls.crt"].count("BEGIN") == 2

        superlink.runs_ = []
        wait_until(
            lambda: all(
                annotations(room, *each)[key] != was[key]
                for each, was in zip(others, before, strict=True)
                for key in (AUTHORITY, SECRET)
            ),
            "they are not restarted when it is over",
        )
        room.wait_until_ready("kept")


def annotations(room: Namespace, kind: str, name: str) -> dict[str, str]:
    """What its pods are started with."""
    found = room.get(kind, name)
    assert found
    own: dict[str, str] = found["spec"]["template"]["metadata"]["annotations"]
    return own


def test_a_changed_release_waits_for_a_run(plane: ControlPlane, machine: Machine) -> None:
    """Of 1.40 on this machine, which both releases that the cluster is told of can talk to."""
    machine.up(federation("wait", "1.40.0", "subprocess"))
    record = machine.record("wait")
    desired = record.read_desired()
    assert desired
    log, room = record.folder / "work/superlink/report.log", Namespace(plane, "default")
    with controller(plane, desired.control), ThreadPoolExecutor() as pool:
        room.apply(federation("wait", "1.40.0", "subprocess"))
        room.wait_until_ready("wait")
        run = pool.submit(machine.result_of, "wait", "--run-config", "pause=15.0")
        node = record.log_of("north-0/supernode")
        wait_until(lambda: "Receiving: train" in node.read_text(), machine.logs)

        room.apply(federation("wait", "1.41.0", "subprocess"))
        said = room.wait_for_condition("wait", "Upgrading", "True", "WaitingForRuns")
        assert "from Flower 1.40.0 to 1.41.0" in condition(said, "Upgrading")["message"]
        assert said["status"]["release"] == "1.40.0"
        wait_until(lambda: release_of(room, "wait") == "1.41.0", "it waits for ever")
        assert "RESULT" in log.read_text(), "it did not wait for the run"
        assert run.result()["reports"]
        said = room.wait_until_ready("wait")
        assert condition(said, "Upgrading")["status"] == "False"


def release_of(room: Namespace, name: str) -> str:
    superlink = room.get("Deployment", f"{name}-superlink")
    assert superlink
    image: str = superlink["spec"]["template"]["spec"]["containers"][0]["image"]
    return image.partition(":")[2]


def with_replicas(document: Document, replicas: int) -> Document:
    """The first pool has this many."""
    spec = document["spec"]
    first, *others = spec["supernodes"]["pools"]
    pools = [first | {"replicas": replicas}, *others]
    return document | {"spec": spec | {"supernodes": spec["supernodes"] | {"pools": pools}}}


def connected(room: Namespace, name: str) -> int | None:
    count: int | None = room.federation(name)["status"].get("connectedSupernodes")
    return count
