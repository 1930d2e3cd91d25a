"""Where the API server is and how to prove who we are: kubeconfig, or a pod's own account."""

import asyncio
import base64
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The kubelet replaces a pod's token long before it expires.
TOKEN_FILE_SECONDS = 60.0
PLUGIN_SECONDS = 60.0

# What reading settings of unexpected types leads to.
_MALFORMED = (AttributeError, KeyError, TypeError)

Token = Callable[[], Awaitable[str | None]]


class ConnectionFault(Exception):
    """The settings for the API server are missing or make no sense; says which."""


class NoKubeconfig(ConnectionFault):
    """There are no settings at all."""


@dataclass(frozen=True)
class Connection:
    server: str
    tls: ssl.SSLContext | None
    token: Token
    namespace: str = "default"
    proxy: str | None = None
    in_cluster: bool = False


def connect(kubeconfig: Path | None = None, context: str | None = None) -> Connection:
    """By the given file, else by $KUBECONFIG, else a pod's own, else by ~/.kube/config; by the
    context of that name, or the current one."""
    given = kubeconfig or context or "KUBECONFIG" in os.environ
    if not given and _in_pod():
        return _pod_connection()
    config = _read_kubeconfig(kubeconfig)
    chosen = context or config["current-context"]
    try:
        return _kubeconfig_connection(config, chosen)
    except (OSError, ValueError, *_MALFORMED) as error:
        raise ConnectionFault(f"the kubeconfig's context {chosen!r}: {error}") from None


def _in_pod() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and (ACCOUNT / "token").exists()


def _pod_connection() -> Connection:
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    return Connection(
        server=f"https://{host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}",
        tls=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")),
        token=_token_file(ACCOUNT / "token"),
        namespace=(ACCOUNT / "namespace").read_text().strip(),
        in_cluster=True,
    )


def _read_kubeconfig(given: Path | None) -> dict[str, Any]:
    """The first of the files wins for each entry, as with kubectl."""
    if given:
        paths = [given]
    else:
        variable = os.environ.get("KUBECONFIG")
        names = variable.split(os.pathsep) if variable else [str(Path.home() / ".kube/config")]
        paths = [Path(name) for name in names if name and Path(name).exists()]
        if not paths:
            raise NoKubeconfig(
                f"there is no kubeconfig at {', '.join(names)}: set KUBECONFIG, or run inside a pod"
            )
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    for path in paths:
        try:
            content = yaml.load(path.read_text(), Loader=yaml.CSafeLoader) or {}
            for kind, key in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
                for entry in content.get(kind) or []:
                    settings = _with_absolute_paths(entry.get(key) or {}, path.parent)
                    merged[kind].setdefault(entry["name"], settings)
            merged["current-context"] = merged["current-context"] or content.get("current-context")
        except (OSError, ValueError, yaml.YAMLError, *_MALFORMED) as error:
            raise ConnectionFault(f"{path} is no kubeconfig: {error}") from None
    if not merged["clusters"]:
        read = ", ".join(map(str, paths))
        raise ConnectionFault(f"no cluster is configured in {read}: set KUBECONFIG to another file")
    return merged


def _with_absolute_paths(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    files = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
    result = settings | {name: str(folder / settings[name]) for name in files if settings.get(name)}
    if plugin := settings.get("exec"):
        # As kubectl has it: a name alone is looked for on PATH.
        command = plugin["command"]
        command = str(folder / command) if os.sep in command else command
        result["exec"] = {**plugin, "command": command}
    return result


def _kubeconfig_connection(config: dict[str, Any], name: str) -> Connection:
    if name not in config["contexts"]:
        known = ", ".join(map(str, config["contexts"])) or "none"
        raise ConnectionFault(f"the kubeconfig has no context {name!r}; there are: {known}")
    chosen = config["contexts"][name]
    cluster = config["clusters"].get(chosen.get("cluster"))
    if not cluster or not cluster.get("server"):
        raise ConnectionFault(f"context {name!r} names a cluster that is not in the kubeconfig")
    user = config["users"].get(chosen.get("user"))
    if user is None and chosen.get("user"):
        raise ConnectionFault(f"context {name!r} names a user that is not in the kubeconfig")
    user = user or {}
    server = cluster["server"].rstrip("/")
    if not _is_url(server):
        raise ConnectionFault(
            f"context {name!r} names a server that is no URL: {server!r}; write https://HOST:PORT"
        )
    return Connection(
        server=server,
        tls=_tls(cluster, user) if server.startswith("https:") else None,
        token=_token(user),
        namespace=chosen.get("namespace") or "default",
        proxy=cluster.get("proxy-url"),
    )


def _is_url(server: str) -> bool:
    try:
        url = urlsplit(server)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def _tls(cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify") is True:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
    if certificate and key:
        _load_certificate(tls, certificate, key)
    return tls


def _content(settings: dict[str, Any], name: str) -> bytes | None:
    if data := settings.get(f"{name}-data"):
        return base64.b64decode(data, validate=True)
    if path := settings.get(name):
        return Path(path).read_bytes()
    return None


def _load_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL reads them from a file only; it is there for this moment, for us alone."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


def _token(user: dict[str, Any]) -> Token:
    if user.get("exec"):
        return _Plugin(user["exec"]).token
    if user.get("tokenFile"):
        return _token_file(Path(user["tokenFile"]))
    return _fixed(user.get("token"))


def _fixed(token: str | None) -> Token:
    async def read() -> str | None:
        return token

    return read


def _token_file(path: Path) -> Token:
    token, expires = "", 0.0

    async def read() -> str:
        nonlocal token, expires
        if time.monotonic() >= expires:
            token, expires = path.read_text().strip(), time.monotonic() + TOKEN_FILE_SECONDS
        return token

    return read


class _Plugin:
    """A credential plugin, as managed clusters have them: a command that prints a token."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._token: str | None = None
        self._expires = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str | None:
        async with self._lock:
            if time.time() >= self._expires:
                await self._refresh()
            return self._token

    async def _refresh(self) -> None:
        settings = self._settings
        request: dict[str, Any]
        request = {"kind": "ExecCredential", "apiVersion": settings.get("apiVersion"), "spec": {}}
        try:
            variables = {each["name"]: each["value"] for each in settings.get("env") or []}
            variables["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(request).decode()
            printed = await _output(
                [settings["command"], *(settings.get("args") or [])], os.environ | variables
            )
            status = msgspec.json.decode(printed)["status"]
            self._token = str(status.get("token") or "")
            if not self._token:
                raise ValueError("it printed no token, and certificates are not read")
            until = status.get("expirationTimestamp")
            # A minute early: requests that are under way must not fail.
            expires = datetime.fromisoformat(until).timestamp() - 60 if until else float("inf")
            self._expires = expires
        except (OSError, ValueError, msgspec.MsgspecError, *_MALFORMED) as error:
            command, why = settings.get("command"), str(error) or type(error).__name__
            raise ConnectionFault(f"the credential plugin {command!r} failed: {why}") from None


async def _output(command: list[str], environment: dict[str, str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), PLUGIN_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise OSError(f"it ended with exit code {process.returncode}")
    return printed
