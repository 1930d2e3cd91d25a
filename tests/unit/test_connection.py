"""Where the API server is and how to prove who we are."""

import asyncio
import base64
import json
import os
import signal
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from flower_operator.kube import connection as module
from flower_operator.kube.connection import Connection, ConnectionFault, connect
from tests.harness.certificates import self_signed_certificate
from tests.unit.federations import Document


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a pod nor anyone's kubeconfig."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(module, "ACCOUNT", tmp_path / "account")


def kubeconfig(
    user: Document | None = None,
    cluster: Document | None = None,
    context: Document | None = None,
    name: str = "main",
) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster or {"server": "http://server:8080"}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
    }


def write(folder: Path, content: Any, name: str = "config") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def token(connection: Connection) -> str | None:
    async def read() -> str | None:
        return await connection.token()

    return asyncio.run(read())


@pytest.fixture(scope="module")
def pair() -> tuple[bytes, bytes]:
    """A certificate and its key, in PEM."""
    key, certificate = self_signed_certificate("someone")
    return certificate, key


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_token(tmp_path: Path) -> None:
    found = connect(write(tmp_path, kubeconfig({"token": "secret"})))
    assert found.server == "http://server:8080"
    assert found.tls is None
    assert found.namespace == "default"
    assert found.proxy is None
    assert not found.in_cluster
    assert token(found) == "secret"


def test_nobody_in_particular(tmp_path: Path) -> None:
    assert token(connect(write(tmp_path, kubeconfig()))) is None


def test_what_else_a_context_and_a_cluster_say(tmp_path: Path) -> None:
    cluster = {"server": "http://server:8080/", "proxy-url": "http://proxy:3128"}
    path = write(tmp_path, kubeconfig(cluster=cluster, context={"namespace": "team"}))
    found = connect(path)
    assert found.server == "http://server:8080"
    assert found.proxy == "http://proxy:3128"
    assert found.namespace == "team"


def test_a_token_file_is_found_beside_the_kubeconfig_and_read_again_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "first\n", "secrets/token")
    path = write(tmp_path, kubeconfig({"tokenFile": "secrets/token"}))
    found = connect(path)
    assert token(found) == "first"
    write(tmp_path, "second\n", "secrets/token")
    assert token(found) == "first"
    later = time.monotonic() + module.TOKEN_FILE_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert token(found) == "second"


def test_a_token_file_may_come_later_than_the_connection(tmp_path: Path) -> None:
    found = connect(write(tmp_path, kubeconfig({"tokenFile": "token"})))
    with pytest.raises(OSError, match="token"):
        token(found)
    write(tmp_path, "late", "token")
    assert token(found) == "late"


def plugin(folder: Path, code: str, **settings: Any) -> Document:
    """A credential plugin in Python; `give` and `count` are there for it."""
    script = folder / "plugin.py"
    script.write_text(
        "import json, os, pathlib, sys\n"
        f"calls = pathlib.Path({str(folder / 'calls')!r})\n"
        "calls.write_text(calls.read_text() + '.' if calls.exists() else '.')\n"
        "count = len(calls.read_text())\n"
        "def give(**status): print(json.dumps({'kind': 'ExecCredential', 'status': status}))\n"
        f"{code}\n"
    )
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable}
    return {"exec": {**command, "args": [str(script)], **settings}}


def connect_with(folder: Path, user: Document) -> Connection:
    return connect(write(folder, kubeconfig(user)))


def test_a_credential_plugin_is_asked_once_for_a_token_that_lasts(tmp_path: Path) -> None:
    found = connect_with(tmp_path, plugin(tmp_path, "give(token=f'token {count}')"))
    assert token(found) == "token 1"
    assert token(found) == "token 1"


def test_a_credential_plugin_is_asked_again_before_its_token_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expires = datetime.now(UTC) + timedelta(minutes=10)
    text = expires.strftime("%Y-%m-%dT%H:%M:%SZ")
    code = f"give(token=f'token {{count}}', expirationTimestamp={text!r})"
    found = connect_with(tmp_path, plugin(tmp_path, code))
    assert token(found) == "token 1"
    clock = expires.timestamp()
    monkeypatch.setattr(time, "time", lambda: clock - 120)
    assert token(found) == "token 1"
    monkeypatch.setattr(time, "time", lambda: clock - 30)
    assert token(found) == "token 2"


def test_callers_at_once_share_one_call_of_the_plugin(tmp_path: Path) -> None:
    found = connect_with(tmp_path, plugin(tmp_path, "give(token=f'token {count}')"))

    async def many() -> list[str | None]:
        return await asyncio.gather(*(found.token() for _ in range(5)))

    assert set(asyncio.run(many())) == {"token 1"}


def test_a_credential_plugin_is_told_what_it_needs(tmp_path: Path) -> None:
    code = (
        "asked = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "give(token=' '.join([asked['kind'], asked['apiVersion'], os.environ['PROFILE']]))"
    )
    user = plugin(tmp_path, code, env=[{"name": "PROFILE", "value": "dev"}])
    said = token(connect_with(tmp_path, user))
    assert said == "ExecCredential client.authentication.k8s.io/v1 dev"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sys.exit(1)", "exit code 1"),
        ("give(token='x'); sys.exit(3)", "exit code 3"),
        ("print('')", "truncated"),
        ("print('<html>')", "malformed"),
        ("print('[]')", "list indices"),
        ("print('{}')", "status"),
        ("print('{\"status\": null}')", "None"),
        ("give(clientCertificateData='x')", "token"),
        ("give(token='x', expirationTimestamp='tomorrow')", "tomorrow"),
        ("give(token='x', expirationTimestamp=5)", "must be str"),
    ],
)
def test_a_credential_plugin_that_fails_is_named(tmp_path: Path, code: str, words: str) -> None:
    found = connect_with(tmp_path, plugin(tmp_path, code))
    with pytest.raises(ConnectionFault, match=f"the credential plugin .* failed: .*{words}"):
        token(found)


def test_a_credential_plugin_that_failed_is_asked_again(tmp_path: Path) -> None:
    code = "give(token='late') if count > 1 else sys.exit(1)"
    found = connect_with(tmp_path, plugin(tmp_path, code))
    with pytest.raises(ConnectionFault):
        token(found)
    assert token(found) == "late"


Started = list[asyncio.subprocess.Process]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Every process that is started."""
    noted: Started = []
    start = asyncio.create_subprocess_exec

    async def start_and_note(*args: Any, **options: Any) -> asyncio.subprocess.Process:
        noted.append(await start(*args, **options))
        return noted[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_note)
    return noted


SLOW = {"exec": {"command": "sleep", "args": ["600"]}}


def test_a_credential_plugin_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    monkeypatch.setattr(module, "PLUGIN_SECONDS", 0.05)
    found = connect_with(tmp_path, SLOW)

    async def scenario() -> None:
        with pytest.raises(ConnectionFault, match="credential plugin 'sleep' failed: Timeout"):
            await found.token()
        (process,) = started
        assert await asyncio.wait_for(process.wait(), 10) == -signal.SIGKILL

    asyncio.run(scenario())


def test_a_credential_plugin_ends_with_whoever_waits_for_it(
    tmp_path: Path, started: Started
) -> None:
    found = connect_with(tmp_path, SLOW)

    async def read() -> str | None:
        return await found.token()

    async def scenario() -> None:
        reading = asyncio.create_task(read())
        while not started:
            await asyncio.sleep(0.005)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        (process,) = started
        assert await asyncio.wait_for(process.wait(), 10) == -signal.SIGKILL

    asyncio.run(scenario())


def executable(path: Path, said: str) -> None:
    credential = json.dumps({"status": {"token": said}})
    write(path.parent, f"#!/bin/sh\necho '{credential}'\n", path.name).chmod(0o755)


def test_a_credential_plugin_with_a_path_is_found_beside_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "bin/login", "beside")
    monkeypatch.chdir("/")
    for command in ("bin/login", "./bin/login", str(tmp_path / "bin/login")):
        assert token(connect_with(tmp_path, {"exec": {"command": command}})) == "beside"


def test_a_credential_plugin_with_a_name_alone_is_found_among_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "login", "beside")
    executable(tmp_path / "programs/login", "installed")
    monkeypatch.setenv("PATH", str(tmp_path / "programs"), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    assert token(connect_with(tmp_path, {"exec": {"command": "login"}})) == "installed"


def test_a_credential_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    found = connect_with(tmp_path, {"exec": {"command": "no-such-plugin"}})
    with pytest.raises(ConnectionFault, match="no-such-plugin"):
        token(found)


def test_certificates_in_the_kubeconfig_itself(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    certificate, key = pair
    cluster = {
        "server": "https://server:6443",
        "certificate-authority-data": encoded(certificate),
    }
    user = {
        "client-certificate-data": encoded(certificate),
        "client-key-data": encoded(key),
    }
    found = connect(write(tmp_path, kubeconfig(user, cluster)))
    assert found.tls is not None
    assert found.tls.verify_mode == ssl.CERT_REQUIRED
    assert found.tls.check_hostname
    (authority,) = found.tls.get_ca_certs()
    assert authority["subject"] == ((("commonName", "someone"),),)


def test_certificates_in_files_beside_the_kubeconfig(
    tmp_path: Path, pair: tuple[bytes, bytes]
) -> None:
    certificate, key = pair
    write(tmp_path, certificate.decode(), "pki/cert.pem")
    write(tmp_path, key.decode(), "pki/key.pem")
    cluster = {"server": "https://server:6443", "certificate-authority": "pki/cert.pem"}
    user = {"client-certificate": "pki/cert.pem", "client-key": "pki/key.pem"}
    found = connect(write(tmp_path, kubeconfig(user, cluster)))
    assert found.tls is not None
    assert len(found.tls.get_ca_certs()) == 1


def test_a_server_that_is_not_to_be_checked(tmp_path: Path) -> None:
    cluster = {"server": "https://server:6443", "insecure-skip-tls-verify": True}
    found = connect(write(tmp_path, kubeconfig(cluster=cluster)))
    assert found.tls is not None
    assert found.tls.verify_mode == ssl.CERT_NONE
    assert not found.tls.check_hostname


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({}, {"certificate-authority": "missing.pem"}),
        ({}, {"certificate-authority-data": encoded(b"no certificate")}),
        ({}, {"certificate-authority-data": "x"}),
        ({}, {"certificate-authority-data": "?"}),
        ({}, {"certificate-authority-data": 5}),
        ({}, {"certificate-authority-data": encoded(b"\xff\xfe")}),
        ({"client-certificate-data": 5, "client-key-data": 5}, {}),
        ({"client-certificate": "missing.pem", "client-key": "missing.pem"}, {}),
        ({"client-certificate-data": encoded(b"x"), "client-key-data": encoded(b"x")}, {}),
    ],
)
def test_certificates_that_are_none_name_their_context(
    tmp_path: Path, user: Document, cluster: Document
) -> None:
    path = write(tmp_path, kubeconfig(user, {"server": "https://server:6443", **cluster}))
    with pytest.raises(ConnectionFault, match="context 'main'"):
        connect(path)


def test_of_several_files_the_first_wins_for_each_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kubeconfig({"token": "first"})
    second = kubeconfig({"token": "second"})
    second["users"].append({"name": "other", "user": {"token": "of the second"}})
    second["contexts"].append({"name": "other", "context": {"cluster": "main", "user": "other"}})
    second["current-context"] = "other"
    paths = [
        tmp_path / "missing",
        write(tmp_path, first, "first"),
        write(tmp_path, second, "second"),
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", *map(str, paths)]))
    assert token(connect()) == "first"
    # What only the second has is there too, for whoever names it first.
    paths[0] = write(tmp_path, {"current-context": "other"}, "chosen")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
    assert token(connect()) == "of the second"


def test_paths_are_relative_to_the_file_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "beside the second", "two/token")
    second = write(tmp_path, kubeconfig({"tokenFile": "token"}), "two/config")
    first = write(tmp_path, {"current-context": "main"}, "one/config")
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{second}")
    assert token(connect()) == "beside the second"


def test_without_a_word_it_is_the_file_in_the_home_folder(tmp_path: Path) -> None:
    write(tmp_path / "home/.kube", kubeconfig({"token": "at home"}))
    assert token(connect()) == "at home"


def test_without_any_file_it_says_what_to_do() -> None:
    with pytest.raises(ConnectionFault, match="set KUBECONFIG, or run inside a pod"):
        connect()


def test_a_context_of_ones_choice_wins_over_the_current_one_and_over_a_pods_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = kubeconfig({"token": "mine"})
    both["contexts"].append({"name": "other", "context": {"cluster": "main", "namespace": "far"}})
    path = write(tmp_path / "home", both, ".kube/config")
    assert connect(path, "other").namespace == "far"
    assert token(connect(path)) == "mine"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    write(tmp_path / "account", "of the pod", "token")
    assert connect(context="other").namespace == "far"
    with pytest.raises(ConnectionFault, match="no context 'third'; there are: main, other"):
        connect(path, "third")


def test_a_context_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFault, match="no context 'other'; there are: main"):
        connect(write(tmp_path, {**kubeconfig(), "current-context": "other"}))
    with pytest.raises(ConnectionFault, match="there are: none"):
        connect(write(tmp_path, {**kubeconfig(), "contexts": None}))
    # Nobody has chosen one.
    with pytest.raises(ConnectionFault, match="no context ''"):
        connect(write(tmp_path, {**kubeconfig(), "current-context": ""}))


@pytest.mark.parametrize(
    "server",
    ["server", "server:6443", "ftp://server", "https://", "https://server:six", "https://[::1"],
)
def test_a_server_that_is_no_url_is_named(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConnectionFault, match="context 'main' names a server that is no URL"):
        connect(write(tmp_path, kubeconfig(cluster={"server": server})))


@pytest.mark.parametrize("cluster", [{"server": ""}, {"proxy-url": "x"}])
def test_a_cluster_without_a_server_is_no_cluster(tmp_path: Path, cluster: Document) -> None:
    with pytest.raises(ConnectionFault, match="context 'main' names a cluster"):
        connect(write(tmp_path, kubeconfig(cluster=cluster)))


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, kubeconfig(context={"cluster": "elsewhere"}))
    with pytest.raises(ConnectionFault, match="context 'main' names a cluster"):
        connect(path)


def test_a_user_that_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, kubeconfig(context={"user": "someone else"}))
    with pytest.raises(ConnectionFault, match="context 'main' names a user"):
        connect(path)


@pytest.mark.parametrize("user", [None, ""])
def test_a_context_need_not_name_a_user(tmp_path: Path, user: str | None) -> None:
    found = connect(write(tmp_path, kubeconfig({"token": "unused"}, context={"user": user})))
    assert token(found) is None


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": 5},
        {"server": ["http://server"]},
        {"server": "https://x", "certificate-authority": 5},
    ],
)
def test_settings_of_another_type_are_refused(tmp_path: Path, cluster: Document) -> None:
    with pytest.raises(ConnectionFault):
        connect(write(tmp_path, kubeconfig(cluster=cluster)))


@pytest.mark.parametrize(
    "user",
    [
        "x",
        ["x"],
        {"exec": "x"},
        {"exec": ["x"]},
        {"exec": {"args": ["x"]}},
        {"exec": {"command": 5}},
        {"tokenFile": 5},
        {"client-certificate": {"a": "b"}},
    ],
)
def test_a_user_of_another_type_is_refused_by_the_name_of_the_file(
    tmp_path: Path, user: Any
) -> None:
    path = write(tmp_path, kubeconfig(user))
    with pytest.raises(ConnectionFault, match=f"{path} is no kubeconfig"):
        connect(path)


def test_a_binary_file_is_no_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ConnectionFault, match=f"{path} is no kubeconfig"):
        connect(path)
    with pytest.raises(ConnectionFault, match=f"{tmp_path} is no kubeconfig"):
        connect(tmp_path)


@pytest.mark.parametrize(
    "content",
    ["{", "just text", "- a\n- b", "clusters: 5", "clusters: [5]", "clusters: [{cluster: {}}]"],
)
def test_what_is_no_kubeconfig_is_named(tmp_path: Path, content: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ConnectionFault, match=f"{path} is no kubeconfig"):
        connect(path)


def test_a_file_that_was_asked_for_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFault, match="missing"):
        connect(tmp_path / "missing")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[bytes, bytes]) -> Path:
    folder = tmp_path / "account"
    write(folder, "of the pod\n", "token")
    write(folder, "flower-operator-system\n", "namespace")
    write(folder, pair[0].decode(), "ca.crt")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    return folder


def test_a_pod_s_own_account(account: Path) -> None:
    found = connect()
    assert found.server == "https://10.96.0.1:6443"
    assert found.namespace == "flower-operator-system"
    assert found.in_cluster
    assert found.tls is not None
    assert found.tls.verify_mode == ssl.CERT_REQUIRED
    assert len(found.tls.get_ca_certs()) == 1
    assert token(found) == "of the pod"


def test_an_address_of_the_newer_kind_is_put_in_brackets(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert connect().server == "https://[fd00::1]:6443"


def test_a_kubeconfig_that_someone_names_wins_over_the_pod_s_account(
    account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, kubeconfig({"token": "named"}))
    assert token(connect(path)) == "named"
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert token(connect()) == "named"


def test_a_machine_that_only_looks_like_a_pod_is_none(account: Path, tmp_path: Path) -> None:
    (account / "token").unlink()
    write(tmp_path / "home/.kube", kubeconfig({"token": "at home"}))
    found = connect()
    assert not found.in_cluster
    assert token(found) == "at home"


def test_what_a_plugin_prints_is_json(tmp_path: Path) -> None:
    # The form that plugins of managed clusters print, whole.
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "spec": {"interactive": False},
        "status": {"expirationTimestamp": "2999-01-01T00:00:00Z", "token": "k8s-aws-v1.x"},
    }
    found = connect_with(tmp_path, plugin(tmp_path, f"print({json.dumps(credential)!r})"))
    assert token(found) == "k8s-aws-v1.x"
