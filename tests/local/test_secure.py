"""Federations with TLS on this machine: real training, and what is renewed."""

import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from flower_operator.flower.dialects import dialect_of
from flower_operator.flower.releases import parse_release
from flower_operator.local.state import Desired
from tests.harness.ports import free_port
from tests.harness.processes import ProcessGroup
from tests.harness.records import make_older
from tests.harness.releases import QUICK, extended_unless
from tests.harness.waiting import wait_for
from tests.local.machine import (
    REPORT_APP,
    Machine,
    federation,
    keyed_federation,
    secure_federation,
)

TLS_CHANGES = ("1.23.0", "1.29.0", "1.34.0", "1.37.0", "1.42.0")
"""Between them SuperExecs got a secret (1.29), TLS (1.30) and the SuperLink's own TLS (1.37)."""
SUPEREXEC_SECRETS = ("superexec", "supernode-north-superexec", "supernode-south-superexec")
AGES = {"ca-key": 7300, "ca": 7300, "superlink-tls": 365}
AGES |= dict.fromkeys(SUPEREXEC_SECRETS[:2], 366)
"""Days after which each is to be renewed."""
SERVERS = ("superlink", "supernode")


def desired(machine: Machine, name: str) -> Desired:
    found = machine.record(name).read_desired()
    assert found
    return found


def trust_of(machine: Machine, name: str, kind: str) -> Path:
    return machine.record(name).folder / "trust" / f"{name}-{kind}"


@pytest.mark.parametrize(
    ("release", "isolation"),
    extended_unless(
        # `make test` trains on the newest release in test_commands.py, with plain `flwr run`.
        [(release, "process") for release in QUICK[:-1]],
        product(TLS_CHANGES, ["process", "subprocess"]),
    ),
)
def test_training_over_tls_with_keys_and_without(
    machine: Machine, release: str, isolation: str
) -> None:
    if isolation == "process":
        # With what brings TLS to the runtime API for ServerApps, where Flower has that.
        kept = {"persistence": {"size": "1Gi"}}
        machine.up(keyed_federation("fed", release, isolation, **kept))
    else:
        machine.up(secure_federation("fed", release, isolation))
    assert machine.result_of("fed")["model"] == [0.5, 0.5, 0.5]
    assert not leaks(machine, "fed")
    found = parse_release(release)
    assert found
    if isolation == "process" and dialect_of(found).runtime_certificate:
        for tasks in ("superlink/superexec-serverapp", "north-0/superexec-clientapp"):
            check_that_tasks_have_tls(machine, "fed", tasks)


def check_that_tasks_have_tls(machine: Machine, name: str, process: str) -> None:
    """The API that they ask has a certificate of the CA, and who asks it demands that."""
    every = {each.name: each for each in desired(machine, name).processes}
    tasks = every[process]
    assert "--insecure" not in tasks.command
    address = next(text for text in tasks.command if text.startswith("127.0.0.1:"))
    context = ssl.create_default_context(cafile=str(trust_of(machine, name, "ca") / "ca.crt"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        context.wrap_socket(plain, server_hostname=host).close()


def leaks(machine: Machine, name: str) -> list[str]:
    """Where a private key or a secret is that should not be."""
    files = [*trust_of(machine, name, "ca-key").glob("*.key")]
    files += [trust_of(machine, name, f"{each}-tls") / "tls.key" for each in SERVERS]
    private = [path.read_text().splitlines()[1].encode() for path in files]
    keys = trust_of(machine, name, "").parent.glob("*-keys/0")
    # Of those the first lines are public.
    private += [path.read_text().splitlines()[6].encode() for path in keys]
    private += [(trust_of(machine, name, own) / "secret").read_bytes() for own in SUPEREXEC_SECRETS]
    kept = machine.record(name).folder / "trust"
    places = [path for path in machine.folder.rglob("*") if kept not in path.parents]
    for pid in machine.processes():
        places += [Path(f"/proc/{pid}/cmdline"), Path(f"/proc/{pid}/environ")]
    return [str(path) for path in places if any(each in _content(path) for each in private)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # a folder, or a process that has just ended
        return b""


@pytest.mark.extended
def test_certificates_are_renewed_when_it_is_time_and_only_then(machine: Machine) -> None:
    document = secure_federation("fed", "1.42.0", "subprocess")
    document["spec"]["tls"] = {"secretName": "mine"}
    said = machine.up(document).stderr
    assert "Certificate" not in said
    assert "note: spec.tls.secretName and issuerRef are for clusters; here a CA is made" in said
    before = {each.name: each.hash for each in desired(machine, "fed").processes}
    bundle = machine.run("ca", "fed").stdout
    machine.up(document)
    assert {each.name: each.hash for each in desired(machine, "fed").processes} == before
    record = trust_of(machine, "fed", "superlink-tls") / "record.json"
    content = json.loads(record.read_text())
    content["notBefore"] = (datetime.now(UTC) - timedelta(days=365)).isoformat()
    record.write_text(json.dumps(content))
    assert "note: CertificateDue: the SuperLink's certificate: " in machine.up(document).stderr
    after = {each.name: each.hash for each in desired(machine, "fed").processes}
    assert {name for name in before if before[name] != after[name]} == {"superlink/superlink"}
    assert machine.run("ca", "fed").stdout == bundle
    assert machine.result_of("fed")["model"] == [0.5, 0.5, 0.5]


@pytest.mark.extended
def test_a_federation_without_tls_has_no_ca(machine: Machine) -> None:
    machine.up(federation("fed", "1.42.0", "subprocess"))
    said = machine.run("ca", "fed", check=False)
    assert (said.returncode, said.stderr) == (
        1,
        "error: fed has insecure: true: it has no certificates\n",
    )


@pytest.mark.extended
def test_runs_outlive_a_new_ca_that_is_served_while_they_are_under_way(machine: Machine) -> None:
    """The SuperLink is restarted with it; nobody else is, though nothing is to wait for runs."""

    def outlive(release: str) -> None:
        name = f"fed-{release.replace('.', '-')}"
        document = secure_federation(name, release, "process", persistence={"size": "1Gi"})
        document["spec"]["tls"] = {"rotation": {"maxWait": "0s"}}
        document["spec"]["supernodes"]["pools"].pop()
        machine.up(document)
        before, record = pids(machine, name), machine.record(name)
        options = ("--federation", name, "--run-config", "nodes=1 rounds=1 pause=15.0")
        run = pool.submit(machine.run, "run", REPORT_APP, *options, check=False)
        log = record.log_of("north-0/supernode")
        wait_for(
            lambda: "Received successfully" in log.read_text(),
            lambda: f"nobody trains{machine.logs()}",
            timeout=120,
        )
        for kind, days in AGES.items():
            make_older(trust_of(machine, name, kind), timedelta(days=days))
        said = machine.up(document).stderr
        assert "a new SuperExec secret waits until no run is under way" in said
        after = pids(machine, name)
        assert {each for each in before if before[each] != after[each]} == {"superlink/superlink"}
        served = (trust_of(machine, name, "superlink-tls") / "tls.crt").read_text()
        assert served.count("BEGIN") == 2
        report = record.folder / "work" / "superlink" / "report.log"
        wait_for(
            lambda: report.exists() and "RESULT" in report.read_text(),
            lambda: f"no result{machine.logs()}",
            timeout=120,
        )
        assert "ROUND 1 of 1 nodes" in report.read_text()
        run.result()

    with ThreadPoolExecutor() as pool:
        list(pool.map(outlive, ["1.25.0", "1.34.0", "1.42.0"]))


@pytest.mark.extended
def test_what_a_clientapp_can_read_opens_no_door_of_the_superlink(machine: Machine) -> None:
    """With the secret of its SuperExec it must not pose as the SuperExec for ServerApps."""
    machine.up(secure_federation("fed", "1.41.0", "process"))
    every = {each.name: each.command for each in desired(machine, "fed").processes}
    secret, health = "--superexec-auth-secret-file", "--health-server-address"
    log = machine.record("fed").log_of("superlink/superlink")
    assert "SuperExec authentication failed" not in log.read_text()
    command = [*every["superlink/superexec-serverapp"]]
    theirs = every["north-0/superexec-clientapp"]
    command[command.index(secret) + 1] = theirs[theirs.index(secret) + 1]
    command[command.index(health) + 1] = f"127.0.0.1:{free_port()}"
    with ProcessGroup() as group:
        intruder = group.start("intruder", command)
        wait_for(lambda: intruder.process.poll() is not None, "it is let in", timeout=60)
    assert "SuperExec authentication failed" in log.read_text()


def pids(machine: Machine, name: str) -> dict[str, int | None]:
    found = machine.record(name).read_status()
    assert found
    return {each.name: each.pid for each in found.processes}
