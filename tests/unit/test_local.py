"""The pure parts of running a Federation on this machine."""

import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flower_operator.api.limits import MAX_SUPERNODES
from flower_operator.api.manifest import parse
from flower_operator.cli.table import federation_table
from flower_operator.flower import dialects
from flower_operator.flower.dialects import Api, dialect_of
from flower_operator.flower.releases import Release
from flower_operator.local import starting
from flower_operator.local.expansion import expand
from flower_operator.local.federations import LocalError
from flower_operator.local.keys import Keys, Known, renew_keys
from flower_operator.local.ports import PortInUse, Ports
from flower_operator.local.process import LOOPBACK, Process
from flower_operator.local.processes import Machine, control_address, left_out, processes
from flower_operator.local.reasons import explain, explain_absence, explain_key
from flower_operator.local.state import Desired, ProcessStatus, Status
from flower_operator.local.supervisor import reminder
from flower_operator.local.trust import renew_trust
from flower_operator.runs import environments
from flower_operator.runs.connections import with_connection
from flower_operator.runs.environments import nearest
from flower_operator.trust.keys import Enrolment
from tests.harness.records import make_older
from tests.unit.federations import document, plan, value_of


def machine() -> Machine:
    """Ports that tell where they come from."""
    pods = {"superlink": 20000, "default-0": 30000, "default-1": 40000}
    return Machine(
        folder=Path("/state/fed"),
        nodes=("laptop",),
        port_of=lambda pod, port: pods.get(pod, 50000) + port,
        environment_of=lambda release: Path(f"/envs/{release}"),
    )


def local(*args: Any, **fields: Any) -> dict[str, Process]:
    return {each.name: each for each in processes(plan(*args, **fields), machine())}


def test_every_container_of_every_pod_is_a_process() -> None:
    assert list(local(isolation="process")) == [
        "superlink/superlink",
        "superlink/superexec-serverapp",
        "default-0/supernode",
        "default-0/superexec-clientapp",
        "default-1/supernode",
        "default-1/superexec-clientapp",
    ]


def test_addresses_are_ports_of_this_machine() -> None:
    found = local(isolation="process")
    link = found["superlink/superlink"].command
    assert link[0] == "/envs/1.25.0/bin/flower-superlink"
    assert value_of(link, "--fleet-api-address") == "127.0.0.1:29092"
    node = found["default-1/supernode"].command
    assert value_of(node, "--superlink") == "127.0.0.1:29092"
    assert value_of(node, "--clientappio-api-address") == "127.0.0.1:49094"
    superexec = found["default-1/superexec-clientapp"].command
    assert value_of(superexec, "--appio-api-address") == "127.0.0.1:49094"
    assert control_address(plan(), machine()) == "127.0.0.1:29093"


def test_addresses_of_a_release_that_has_host_and_port() -> None:
    found = local(isolation="process", version="1.41.0")
    link = found["superlink/superlink"].command
    assert (value_of(link, "--host"), value_of(link, "--port")) == ("127.0.0.1", "28000")
    assert value_of(found["default-0/supernode"].command, "--superlink") == "127.0.0.1:28000"


def test_flags_of_other_names_are_followed_where_the_dialect_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newest = dialect_of(Release(1, 41))
    api = Api("HTTP", 8000, ("--listen-on", "--listen-at"), ("/v1/runtime/",))
    other = replace(newest, since=Release(1, 23), fleet=api, control=api, serverappio=api)
    monkeypatch.setattr(dialects, "DIALECTS", (other,))
    dialect_of.cache_clear()
    try:
        link = local(isolation="process", version="1.41.0")["superlink/superlink"].command
    finally:
        dialect_of.cache_clear()
    assert (value_of(link, "--listen-on"), value_of(link, "--listen-at")) == ("127.0.0.1", "28000")


def test_a_port_that_is_none_and_flags_that_a_release_has_not_are_left_to_flower() -> None:
    mine = ["--host", "here", "--port", "80"]
    found = local(superlink={"extraArgs": mine})
    assert found["superlink/superlink"].command[-4:] == mine
    mine = ["--of-mine", "redis.team.svc:6379"]
    assert local(superlink={"extraArgs": mine})["superlink/superlink"].command[-2:] == mine
    found = local(version="1.41.0", superlink={"extraArgs": ["--port", "http"]})
    assert found["superlink/superlink"].command[-2:] == ["--port", "http"]


def test_pools_keep_their_own_release() -> None:
    found = local(supernodes={"image": "flwr/supernode:1.24.0"})
    assert found["superlink/superlink"].command[0].startswith("/envs/1.25.0/")
    assert found["default-0/supernode"].command[0].startswith("/envs/1.24.0/")


def test_mounts_become_folders_of_the_state_folder() -> None:
    claim = {"metadata": {"name": "state"}, "spec": {}}
    found = local(
        superlink={
            "volumeClaimTemplates": [claim],
            "volumeMounts": [{"name": "state", "mountPath": "/state"}],
            "extraArgs": ["--database", "/state/link.db", "--log-file=/state/log"],
        }
    )["superlink/superlink"]
    folder = "/state/fed/volumes/superlink/state"
    assert value_of(found.command, "--database") == f"{folder}/link.db"
    assert found.command[-1] == f"--log-file={folder}/log"
    assert folder in found.folders
    assert (
        found.environment["FLWR_HOME"]
        == "/state/fed/volumes/superlink/flower-scratch/superlink/flwr"
    )


def test_a_shared_claim_is_one_folder_and_a_host_path_is_itself() -> None:
    found = local(
        pool={
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
                {"name": "host", "hostPath": {"path": "/srv"}},
            ],
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": "host", "mountPath": "/host"},
            ],
            "env": [{"name": "A", "value": "/data/a"}, {"name": "B", "value": "/host/b"}],
        }
    )
    for name in ("default-0/supernode", "default-1/supernode"):
        assert found[name].environment["A"] == "/state/fed/claims/shared/a"
        assert found[name].environment["B"] == "/srv/b"


def test_the_node_config_is_the_same_as_in_a_pod() -> None:
    config = {"partition-id": "{partition}", "name": "{pool}-{index}", "node": "{node}"}
    found = local(pool={"nodeConfig": config})
    assert value_of(found["default-1/supernode"].command, "--node-config") == (
        'name="default-1" node="laptop" partition-id=1'
    )
    pools = [{"name": "first"}, {"name": "default", "nodeConfig": {"partition-id": "{partition}"}}]
    process = local(pools=pools)["default-1/supernode"]
    path = value_of(process.command, "--node-config")
    assert process.files == {path: "partition-id=3\n"}


def test_a_daemonset_has_a_pod_for_each_node() -> None:
    nodes = Machine(Path("/s"), ("a", "b"), lambda pod, port: port, lambda release: Path("/e"))
    found = processes(plan("DaemonSet", pool={"nodeConfig": {"n": "{node}"}}), nodes)
    texts = [value_of(each.command, "--node-config") for each in found[1:]]
    assert texts == ['n="a"', 'n="b"']


def test_a_container_of_the_users_own_is_told_of() -> None:
    template = {"spec": {"containers": [{"name": "helper", "image": "busybox"}]}}
    assert left_out(plan(pool={"podTemplate": template})) == ["helper"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(C)", "$(C)"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("cost: 5$", "cost: 5$"),
    ],
)
def test_references_expand_as_in_kubernetes(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


@given(st.text("$()Aa "))
def test_an_escaped_text_comes_back(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"A": "1", "a": "2"}) == text


@pytest.mark.parametrize(
    ("status", "tail", "reason"),
    [
        (1, ["OSError: [Errno 98] Address already in use"], "its port is in use"),
        (
            2,
            ["usage: x", "x: error: unrecognized arguments: --bogus"],
            "it does not know the arguments --bogus: look at extraArgs",
        ),
        (
            1,
            ["ModuleNotFoundError: No module named 'torch'"],
            "the Python package torch is missing",
        ),
        (
            1,
            ["[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "Shutting down"],
            "it does not trust the SuperLink's certificate: look at --root-certificates",
        ),
        (
            1,
            ['details = "No SuperNode found with the given public key."', "RuntimeError"],
            "its key is refused",
        ),
        (
            1,
            ["[code: 2004] Failed to activate SuperNode."],
            "its key is refused",
        ),
        (
            1,
            ["[code: 2001] SuperNode authentication is enabled. All SuperNodes must"],
            "the SuperLink asks for a key, and it shows none",
        ),
        (-9, [], "it was ended by SIGKILL"),
        (3, ["last words", ""], "it ended with status 3: last words"),
        (0, [], "it ended with status 0"),
    ],
)
def test_a_reason_in_plain_words(status: int, tail: list[str], reason: str) -> None:
    assert explain(status, tail).startswith(reason)


def test_why_a_supernode_that_runs_does_not_connect() -> None:
    failed = "Handshake failed with error SSL_ERROR_SSL: CERTIFICATE_VERIFY_FAILED: no issuer"
    reason = explain_absence(["Starting", failed])
    assert reason
    assert "does not trust the SuperLink's certificate" in reason
    assert explain_absence([failed, "Connection successful after 4 s"]) is None
    assert explain_absence([]) is None
    refused = 'details = "{"code": 2004, "public_message": "Failed to activate SuperNode."}"'
    assert "its key is refused" in str(explain_absence([refused, "RuntimeError"]))


def test_what_a_supernode_waits_for() -> None:
    keys = {"free", "taken"}
    known = Enrolment(frozenset(keys), online=frozenset({"taken"}), spent=frozenset({"spent"}))
    assert explain_key("free", known, missed=True) is None
    assert explain_key("free", known, missed=False) == "runs are told that it was gone"
    for key, words in (
        ("taken", "its key is still in use"),
        ("spent", "its key was unregistered"),
        ("new", "its key is not registered yet"),
    ):
        assert str(explain_key(key, known, missed=True)).startswith(words)


def test_a_connection_is_added_without_losing_anything() -> None:
    text = '# mine\n[superlink]\ndefault = "x"  # why\n\n[superlink.x]\naddress = "a:1"\n'
    after = with_connection(text, ("superlink", "fed"), {"address": "b:2", "insecure": True})
    assert after.startswith(text)
    assert '[superlink.fed]\naddress = "b:2"\ninsecure = true\n' in after


def test_a_connection_is_changed_in_place() -> None:
    text = '[superlink.fed]\naddress = "a:1" # old\ninsecure = true\n[other]\nkey = 1\n'
    after = with_connection(text, ("superlink", "fed"), {"address": "b:2", "insecure": True})
    assert after == text.replace("a:1", "b:2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"insecure": True}, {"root-certificates": "/ca.crt"}),
        ({"root-certificates": "/ca.crt"}, {"insecure": True}),
    ],
)
def test_a_connection_is_secure_or_insecure_and_never_both(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    keys = ("superlink", "fed")
    text = with_connection("", keys, {"address": "a:1", **before})
    found = tomllib.loads(with_connection(text, keys, {"address": "a:1", **after}))
    assert found["superlink"]["fed"] == {"address": "a:1", **after}


def test_certificates_and_secrets_are_read_where_they_lie() -> None:
    pool = "fed-supernode-default-superexec"
    versions = {"fed-superlink-tls": "one", "fed-ca": "two", "fed-superexec": "three", pool: "four"}
    secure = plan(isolation="process", version="1.41.0", insecure=False)
    found = {each.name: each for each in processes(secure, replace(machine(), versions=versions))}
    link, node = found["superlink/superlink"], found["default-1/supernode"]
    folder = "/state/fed/trust"
    assert value_of(link.command, "--ssl-keyfile") == f"{folder}/fed-superlink-tls/tls.key"
    assert value_of(node.command, "--root-certificates") == f"{folder}/fed-ca/ca.crt"
    for name, process in found.items():
        own = pool if name.startswith("default-") else "fed-superexec"
        secret = value_of(process.command, "--superexec-auth-secret-file")
        assert secret == f"{folder}/{own}/secret"
    assert link.mounted == {"fed-superlink-tls": "one", "fed-superexec": "three"}
    assert node.mounted == {"fed-ca": "two", pool: "four"}
    other = processes(secure, replace(machine(), versions=versions | {"fed-superlink-tls": "new"}))
    assert [each.name for each in other if each.hash != found[each.name].hash] == [
        "superlink/superlink"
    ]


@pytest.mark.parametrize(
    ("mode", "owners"), [("StatefulSet", ["0", "1"]), ("DaemonSet", ["laptop", "server"])]
)
def test_a_supernode_is_given_its_own_key_and_no_other(mode: str, owners: list[str]) -> None:
    keyring, nodes = "fed-supernode-default-keys", ("laptop", "server")
    keyed = plan(mode, isolation="process", insecure=False, supernodeAuth={"enabled": True})
    versions = {"fed-superlink-tls": "one", "fed-ca": "two", "fed-superexec": "three"}

    def started(keys: dict[str, str]) -> list[Process]:
        own = replace(machine(), nodes=nodes, versions=versions, keys={keyring: keys})
        return processes(keyed, own)

    first = started({owner: f"key of {owner}" for owner in owners})
    found = [each for each in first if each.container == "supernode"]
    assert [value_of(each.command, "--auth-supernode-private-key") for each in found] == [
        f"/state/fed/trust/{keyring}/{owner}" for owner in owners
    ]
    assert [each.key for each in found] == [f"key of {owner}" for owner in owners]
    assert not any(keyring in folder for each in first for folder in each.folders)
    second = started({owners[0]: "another", owners[1]: f"key of {owners[1]}"})
    changed = [new.name for old, new in zip(first, second, strict=True) if old.hash != new.hash]
    assert changed == ["default-0/supernode"]


def modes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): oct(path.stat().st_mode) for path in folder.rglob("*")}


def test_keys_are_for_their_owner_alone_and_kept(tmp_path: Path) -> None:
    first = renew_trust(tmp_path, "fed", [])
    found = modes(tmp_path)
    assert "trust/fed-superlink-tls/tls.key" in found
    assert set(found.values()) == {"0o40700", "0o100600"}
    assert first.root_certificates
    assert first.root_certificates.read_text().startswith("-----BEGIN CERTIFICATE-----")
    assert first.notices == ()
    assert renew_trust(tmp_path, "fed", []) == first


def test_a_federation_that_outlives_its_certificates_is_told_of(tmp_path: Path) -> None:
    renewal = renew_trust(tmp_path, "fed", []).due
    assert 59 < (renewal - time.time()) / 86400 < 61
    running = replace(desired(), renewal=renewal)
    assert reminder(running, renewal - 1) == reminder(desired(), renewal) == ""
    assert "say `up` again" in reminder(running, renewal)


def test_a_damaged_key_is_replaced_and_told_of(tmp_path: Path) -> None:
    first = renew_trust(tmp_path, "fed", [])
    (tmp_path / "trust/fed-superlink-tls/tls.key").write_bytes(b"\xff")
    (tmp_path / "trust/fed-superexec/secret").unlink()
    second = renew_trust(tmp_path, "fed", [])
    assert second.notices == (
        "CertificateUnreadable: the SuperLink's certificate: it cannot be read: "
        "tls.key is not what was written",
    )
    changed = {name for name in first.versions if first.versions[name] != second.versions[name]}
    assert changed == {"fed-superlink-tls", "fed-superexec"}
    assert set(modes(tmp_path).values()) == {"0o40700", "0o100600"}


def test_each_pool_has_a_secret_which_goes_with_it(tmp_path: Path) -> None:
    def secrets(*pools: str) -> dict[str, str]:
        renew_trust(tmp_path, "fed", [], pools)
        found = tmp_path.glob("trust/*-superexec/secret")
        return {path.parent.name: path.read_text() for path in found}

    first = secrets("a", "b")
    assert first.keys() == {
        "fed-superexec",
        "fed-supernode-a-superexec",
        "fed-supernode-b-superexec",
    }
    assert len(set(first.values())) == 3
    second = secrets("a")
    del first["fed-supernode-b-superexec"]
    assert second == first


def test_a_federation_that_runs_trusts_a_new_ca_before_it_serves_from_it(tmp_path: Path) -> None:
    first = renew_trust(tmp_path, "fed", [])
    for path in (tmp_path / "trust/fed-ca-key").glob("*.key"):
        path.unlink()
    running = [Process("north-0", "supernode", [], {}, mounted=first.versions)]
    second = renew_trust(tmp_path, "fed", running)
    assert second.root_certificates
    assert second.root_certificates.read_text().count("BEGIN") == 2
    assert second.versions["fed-superlink-tls"] == first.versions["fed-superlink-tls"]
    restarted = [Process("north-0", "supernode", [], {}, mounted=second.versions)]
    third = renew_trust(tmp_path, "fed", restarted)
    assert third.versions["fed-superlink-tls"] != first.versions["fed-superlink-tls"]
    assert third.versions["fed-ca"] == second.versions["fed-ca"], "SuperNodes need no restart"


def test_what_is_due_waits_for_runs_and_is_told_of(tmp_path: Path) -> None:
    first = renew_trust(tmp_path, "fed", [])
    for part, days in (("superlink-tls", 365), ("superexec", 366)):
        make_older(tmp_path / f"trust/fed-{part}", timedelta(days=days))
    busy = renew_trust(tmp_path, "fed", [], busy=True)
    assert busy.versions["fed-superlink-tls"] == first.versions["fed-superlink-tls"]
    assert busy.due <= time.time()
    assert [text.partition(" waits")[0] for text in busy.notices] == [
        "a new certificate",
        "a new SuperExec secret",
    ]
    for part in ("ca", "ca-key"):
        make_older(tmp_path / f"trust/fed-{part}", timedelta(days=7300))
    impatient = renew_trust(tmp_path, "fed", [], busy=True, max_wait=timedelta())
    changed = {name for name, each in impatient.versions.items() if each != first.versions[name]}
    assert changed == {"fed-superlink-tls"}, "a run outlives that, and no other restart"
    chain = (tmp_path / "trust/fed-superlink-tls/tls.crt").read_text()
    assert chain.count("BEGIN") == 2, "it is by a new CA, which the old one vouches for"
    later = renew_trust(tmp_path, "fed", [])
    assert all(later.versions[name] != first.versions[name] for name in first.versions)


def test_keys_are_made_kept_and_retired(tmp_path: Path) -> None:
    def renew(
        names: dict[str, list[str]], before: Keys | None = None, known: Enrolment | None = None
    ) -> Keys:
        rings = before.rings if before else {}
        return renew_keys(tmp_path, "fed", names, rings, Known(known))

    first = renew({"north": ["0", "1"], "south": ["0"]})
    assert set(modes(tmp_path).values()) == {"0o40700", "0o100600"}
    assert first.notices == ()
    assert renew({"north": ["0", "1"], "south": ["0"]}, first) == first
    gone = (first.rings["north"].keys["1"], first.rings["south"].keys["0"])
    second = renew({"north": ["0"]}, first)
    assert second.rings["north"].keys == {"0": first.rings["north"].keys["0"]}
    assert tuple(ring.retired for ring in second.rings.values()) == ((gone[0],), (gone[1],))
    known = Enrolment(frozenset(second.rings["north"].keys.values()), spent=frozenset(gone))
    third = renew({"north": ["0"]}, second, known)
    assert third.rings == {"north": replace(second.rings["north"], retired=())}
    # Whoever has found the lost ones must not get in with them.
    shutil.rmtree(tmp_path / "trust/fed-supernode-north-keys")
    last = renew({"north": ["0"]}, third, known)
    assert last.rings["north"].retired == tuple(third.rings["north"].keys.values())
    assert last.notices == ("NoKeys: there are none yet (keys of pool north)",)


def test_a_connection_in_an_empty_file() -> None:
    after = with_connection("", ("tool", "flwr", "federations", "fed"), {"address": "a:1"})
    assert after == '[tool.flwr.federations.fed]\naddress = "a:1"\n'


def test_the_nearest_release() -> None:
    assert nearest(Release(1, 41, 9)) == Release(1, 41)
    assert nearest(Release(1, 99)) == Release(1, 42)


def desired(name: str = "fed") -> Desired:
    return Desired(
        name=name,
        release="1.41.0",
        control="127.0.0.1:1",
        fleet="",
        supernodes=2,
        processes=list(local(isolation="process").values()),
        ports={},
        environment="",
    )


def test_the_table_of_a_federation_that_fails() -> None:
    reason = "its port is in use and this is a very long explanation that goes on and on for ever"
    found = [
        ProcessStatus("superlink/superlink", "running", 1),
        ProcessStatus("superlink/superexec-serverapp", "running", 2),
        ProcessStatus("default-0/supernode", "running", 3),
        ProcessStatus("default-0/superexec-clientapp", "failing", None, 4, reason),
    ]
    lines = federation_table(desired(), Status(connected=1, processes=found))
    assert lines[:5] == [
        "fed: not ready, 1/2 SuperNodes connected",
        "Flower 1.41.0, flwr run at 127.0.0.1:1",
        "POOL        NODES   STATE     RESTARTS",
        "superlink   1/1     running   0",
        "default     0/2     failing   4",
    ]
    assert lines[5].startswith("  default-0/superexec-clientapp: its port is in use")
    assert max(map(len, lines)) <= 80


def test_an_environment_is_found_again_without_uv_or_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWER_OPERATOR_CACHE", str(tmp_path))
    monkeypatch.setattr(environments, "_find_uv", lambda: "/no/such/uv")
    with pytest.raises(OSError, match="/no/such/uv"):
        environments.environment(Release(1, 41))
    (lock,) = (tmp_path / "flwr").iterdir()
    folder = lock.with_name(lock.name.removesuffix(".lock"))
    folder.mkdir()
    (folder / environments.COMPLETE).touch()
    assert environments.environment(Release(1, 41)) == folder


def test_an_index_that_lacks_a_requirement_can_be_helped() -> None:
    """As of Flower 1.42.0, which asked for a certifi that not every index had yet."""
    words = "No solution found when resolving dependencies: only certifi<=2026.10.18 is available"
    said = environments._why(Release(1, 42), words)
    assert said.startswith(f"Flower 1.42.0 cannot be installed: {words}\n")
    assert said.endswith("UV_OVERRIDE can name a file that replaces a requirement")


def test_a_full_disk_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(LocalError, match="less than 200 MiB free"):
        starting.start(
            parse(document()), starting.Options(), attached=False, tell=lambda text: None
        )
    assert not (tmp_path / "flower-operator").exists()


def test_more_supernodes_than_a_machine_can_run_are_refused() -> None:
    federation = parse(document(pool={"replicas": MAX_SUPERNODES}))
    with pytest.raises(LocalError, match="too many for one machine; 1000 may run here"):
        starting.start(federation, starting.Options(), attached=False, tell=lambda text: None)


def test_ports_are_kept_while_they_are_used_and_never_given_twice() -> None:
    ports = Ports({}, kept=False)
    first = {ports.port_of(f"pod-{number}", 9094) for number in range(200)}
    assert len(first) == 200
    other = Ports({}, kept=False)
    assert not {other.port_of(f"pod-{number}", 9094) for number in range(200)} & first
    assert not set(Ports(ports.given, kept=False).given.values()) & first
    again = Ports(ports.given, kept=False, reserve=lambda port: True)
    assert again.given == ports.given
    with socket.socket() as taken:
        port = ports.port_of("pod-0", 9094)
        taken.bind((LOOPBACK, port))
        assert Ports(ports.given, kept=True).port_of("pod-0", 9094) == port
        free = Ports(ports.given, kept=False, reserve=lambda port: True)
        assert free.port_of("pod-0", 9094) != port
        with pytest.raises(PortInUse):
            Ports({}, kept=False).reserve("superlink", 9093, port)


# `share` is for ports that another process has reserved.
RESERVE = """
import sys
from flower_operator.local.ports import reservations
ports = range(9000, 9100)
if sys.argv[1] == "share":
    reservations.share(ports)
    print(*ports, flush=True)
else:
    print(*(port for port in ports if reservations.reserve(port)), flush=True)
sys.stdin.read()
"""


def start_process(action: str, folder: Path) -> subprocess.Popen[str]:
    """On a machine of its own: the lock file is in the folder for temporary files."""
    command, pipe = [sys.executable, "-c", RESERVE, action], subprocess.PIPE
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def reserved_by(process: subprocess.Popen[str]) -> set[str]:
    assert process.stdout
    return set(process.stdout.readline().split())


def test_two_processes_at_the_same_moment_never_reserve_the_same_port(tmp_path: Path) -> None:
    with start_process("reserve", tmp_path) as one, start_process("reserve", tmp_path) as two:
        first, second = reserved_by(one), reserved_by(two)
        assert len(first | second) == 100
        assert not first & second
        one.communicate()  # its reservations end with it
        with start_process("reserve", tmp_path) as third:
            assert reserved_by(third) == first


def test_a_shared_reservation_outlives_the_process_that_made_it(tmp_path: Path) -> None:
    with start_process("reserve", tmp_path) as command:
        assert len(reserved_by(command)) == 100
        with start_process("share", tmp_path) as supervisor:
            reserved_by(supervisor)
            command.communicate()
            with start_process("reserve", tmp_path) as other:
                assert reserved_by(other) == set()
