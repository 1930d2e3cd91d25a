"""A Kubernetes control plane on this machine, for as long as a with-block lasts."""

import base64
import json
import os
import secrets
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from .binaries import binary
from .certificates import self_signed_certificate
from .https_client import LOOPBACK, HttpsClient
from .nodes import kwok_configuration, node
from .ports import free_port
from .processes import ProcessGroup, ServerExitedError, ServerProcess
from .waiting import wait_for

_START_SECONDS = 60.0
_PROBE_SECONDS = 2.0
_REQUEST_SECONDS = 30.0
_KUBECTL_SECONDS = 120.0
_PORT_ATTEMPTS = 5

# The name must look like host:port; it becomes a socket file in the folder where etcd and the
# apiserver run. So no other process can be in the way of a port, or talk to this etcd.
_ETCD_CLIENT_URL = "unix://etcd-client:0"
_ETCD_PEER_URL = "unix://etcd-peer:0"

# The defaults are made for small clusters and would only slow the tests down.
_CLIENT_RATE = ["--kube-api-qps=500", "--kube-api-burst=1000"]

# Addresses of pods, apart from those of nodes and Services.
_POD_ADDRESSES = "10.128.0.0/16"

# Without leases the controller manager takes every node for dead after 50 seconds.
_NODE_LEASE_SECONDS = 40


class ControlPlane:
    """etcd and kube-apiserver, and with controllers=True all that acts on built-in objects.

    Without controllers nothing happens to objects but what the apiserver does: no pods for a
    StatefulSet, no garbage collection, no default ServiceAccount in a namespace. With controllers
    and nodes, pods are scheduled and run in name only, as tests.harness.nodes describes.
    """

    server: str
    token: str
    kubeconfig: Path
    folder: Path
    _apiserver: ServerProcess
    _port: int

    def __init__(
        self,
        *,
        controllers: bool = False,
        nodes: int = 0,
        address: str = LOOPBACK,
        users: Mapping[str, str] | None = None,
        apiserver_arguments: Sequence[str] = (),
    ) -> None:
        """Pods that run for real reach the apiserver only at an address that is no loopback.

        `users` have a kubeconfig each, and are in one group.
        """
        if nodes and not controllers:
            raise ValueError("nodes need controllers: without them no pod gets to a node")
        self._controllers = controllers
        self._nodes = nodes
        self._address = address
        self._users = {"admin": "system:masters", **(users or {})}
        self._apiserver_arguments = apiserver_arguments

    def __enter__(self) -> Self:
        self._find_binaries()
        with ExitStack() as stack:
            self._processes = stack.enter_context(ProcessGroup())
            self.folder = self._processes.folder
            self._start_etcd()
            self._client = stack.enter_context(self._start_apiserver())
            self._wait_until_exists("/api/v1/namespaces/default")
            if self._controllers:
                self._start_controllers()
            if self._nodes:
                self._start_nodes()
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request as administrator and return the status and the decoded answer.

        A PATCH is a merge patch unless headers give another Content-Type.
        """
        return self._client.request(method, path, body, headers)

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 (as subprocess.run has it)
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as administrator."""
        own_settings = {
            "KUBECONFIG": str(self.kubeconfig),
            # kubectl remembers APIs by host and port, and other tests get the same port in time.
            "KUBECACHEDIR": str(self.folder / "kubectl-cache"),
            "KUBERC": "off",
        }
        result = subprocess.run(
            [self._binaries["kubectl"], *arguments],
            env=os.environ | own_settings,
            # Never the stdin of the test run, where "-f -" would wait for a human.
            input=input or "",
            capture_output=True,
            text=True,
            timeout=_KUBECTL_SECONDS,
            check=False,
        )
        if check and result.returncode != 0:
            command = ["kubectl", *arguments]
            error = subprocess.CalledProcessError(
                result.returncode, command, result.stdout, result.stderr
            )
            error.add_note(f"{shlex.join(command)} printed:\n{result.stderr}")
            raise error
        return result

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig whose user is a ServiceAccount, with the rights that it has."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        status, answer = self.request("POST", path, {"spec": {}})
        if status != 201:
            raise RuntimeError(f"no token for {namespace}/{name}: {answer}")
        token: str = answer["status"]["token"]
        return self._write_kubeconfig(f"kubeconfig-{namespace}-{name}", token, namespace)

    def kubeconfig_for_user(self, name: str) -> Path:
        return self._write_kubeconfig(f"kubeconfig-{name}", self._tokens[name])

    def restart_apiserver(self) -> None:
        """Let the apiserver crash, and wait until it is back on its port with its data."""
        self._apiserver = self._processes.crash(self._apiserver)
        self._wait_until_healthy(self._apiserver, self._port, "/readyz")

    def _find_binaries(self) -> None:
        names = ["etcd", "kube-apiserver", "kubectl"]
        if self._controllers:
            names += ["kube-controller-manager", "kube-scheduler"]
        if self._nodes:
            names += ["kwok"]
        self._binaries = {name: str(binary(name)) for name in names}

    def _start_etcd(self) -> None:
        command = [
            self._binaries["etcd"],
            "--data-dir=etcd",
            f"--listen-client-urls={_ETCD_CLIENT_URL}",
            f"--advertise-client-urls={_ETCD_CLIENT_URL}",
            f"--listen-peer-urls={_ETCD_PEER_URL}",
            f"--initial-advertise-peer-urls={_ETCD_PEER_URL}",
            f"--initial-cluster=default={_ETCD_PEER_URL}",
            # The data need not survive a power cut.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        etcd = self._processes.start("etcd", command)
        client_socket = self.folder / _ETCD_CLIENT_URL.removeprefix("unix://")

        def listening() -> bool:
            etcd.check_running()
            return client_socket.exists()

        wait_for(listening, lambda: f"etcd does not listen\n{etcd.log_tail()}", _START_SECONDS)

    def _start_apiserver(self) -> HttpsClient:
        self._tokens = {name: secrets.token_hex(16) for name in self._users}
        self.token = self._tokens["admin"]
        lines = [f"{self._tokens[name]},{name},{name},{self._users[name]}" for name in self._users]
        (self.folder / "tokens.csv").write_text("\n".join(lines))
        (self.folder / "service-account.key").write_text(_new_private_key())
        key, certificate = self_signed_certificate("clients")
        (self.folder / "clients.key").write_bytes(key)
        (self.folder / "clients.crt").write_bytes(certificate)
        self._apiserver, self._port = self._start_serving(
            "kube-apiserver",
            "/readyz",
            f"--etcd-servers={_ETCD_CLIENT_URL}",
            "--token-auth-file=tokens.csv",
            "--client-ca-file=clients.crt",
            # Servers that leave it to this one to say who calls look for these, and wait.
            "--requestheader-client-ca-file=clients.crt",
            "--requestheader-allowed-names=nobody",
            "--requestheader-username-headers=X-Remote-User",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=service-account.key",
            "--service-account-signing-key-file=service-account.key",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged",
            # If it is not told, it looks for an interface with a default route, and there may be
            # none. A loopback address may not be an endpoint of the kubernetes Service, though.
            f"--advertise-address={self._address}",
            *(["--endpoint-reconciler-type=none"] if self._address == LOOPBACK else []),
            *self._apiserver_arguments,
            address=self._address,
        )
        self.server = f"https://{self._address}:{self._port}"
        self.kubeconfig = self._write_kubeconfig("kubeconfig", self.token)
        return self._client_of("kube-apiserver", self._port, _REQUEST_SECONDS)

    def _start_controllers(self) -> None:
        arguments = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", *_CLIENT_RATE]
        self._start_serving(
            "kube-controller-manager",
            "/healthz",
            "--service-account-private-key-file=service-account.key",
            "--cluster-signing-cert-file=clients.crt",
            "--cluster-signing-key-file=clients.key",
            f"--root-ca-file={self._certificate_file('kube-apiserver')}",
            *arguments,
        )
        self._start_serving("kube-scheduler", "/readyz", *arguments)
        # Before that no pod is admitted to the namespace.
        self._wait_until_exists("/api/v1/namespaces/default/serviceaccounts/default")

    def _start_nodes(self) -> None:
        (self.folder / "kwok.yaml").write_text(kwok_configuration())
        for number in range(1, self._nodes + 1):
            status, answer = self.request("POST", "/api/v1/nodes", node(number))
            if status != 201:
                raise RuntimeError(f"cannot create node {number}: {answer}")
        command = [
            self._binaries["kwok"],
            "--config=kwok.yaml",
            f"--kubeconfig={self.kubeconfig}",
            "--manage-all-nodes",
            f"--node-lease-duration-seconds={_NODE_LEASE_SECONDS}",
            f"--cidr={_POD_ADDRESSES}",
            # Without a server address it serves nothing. It has no limit on its requests.
            "--v=WARN",
        ]
        kwok = self._processes.start("kwok", command)

        def schedulable() -> bool:
            kwok.check_running()
            _, nodes = self.request("GET", "/api/v1/nodes")
            return all(_is_schedulable(node) for node in nodes["items"])

        wait_for(schedulable, lambda: f"nodes are not ready\n{kwok.log_tail()}", _START_SECONDS)

    def _start_serving(
        self, name: str, health_path: str, *arguments: str, address: str = LOOPBACK
    ) -> tuple[ServerProcess, int]:
        """Start a program that serves HTTPS, wait until it is healthy; return it and its port."""
        attempts_left = _PORT_ATTEMPTS
        while True:
            attempts_left -= 1
            port = free_port()
            command = [
                self._binaries[name],
                f"--bind-address={address}",
                f"--secure-port={port}",
                # With a bind address the certificate that is made here is valid for it.
                f"--cert-dir={name}",
                *arguments,
            ]
            process = self._processes.start(name, command)
            try:
                self._wait_until_healthy(process, port, health_path)
            except ServerExitedError as error:
                # Another process may take the port between its choice and its use.
                if attempts_left == 0 or "address already in use" not in str(error):
                    raise
            else:
                return process, port

    def _wait_until_healthy(self, process: ServerProcess, port: int, path: str) -> None:
        last_seen = "no answer"

        def healthy() -> bool:
            nonlocal last_seen
            process.check_running()
            try:
                with self._client_of(process.name, port, _PROBE_SECONDS) as client:
                    status, last_seen = client.request("GET", path)
            except (OSError, ValueError) as error:
                # The certificate is not written, or not to its end, or the port is not open yet.
                last_seen = repr(error)
                return False
            return status == 200

        def message() -> str:
            logs = self._processes.log_tails()
            return f"{process.name} is not healthy: {last_seen}\n{logs}"

        wait_for(healthy, message, _START_SECONDS)

    def _wait_until_exists(self, path: str) -> None:
        wait_for(
            lambda: self.request("GET", path)[0] == 200,
            lambda: f"{path} does not exist\n{self._processes.log_tails()}",
            _START_SECONDS,
        )

    def _client_of(self, name: str, port: int, timeout: float) -> HttpsClient:
        host = self._address if name == "kube-apiserver" else LOOPBACK
        certificates = self._certificate_file(name).read_text()
        return HttpsClient(port, certificates, self.token, timeout, host)

    def _certificate_file(self, name: str) -> Path:
        """Return the file with the certificate that the server made, and that of its issuer."""
        file_name = "apiserver" if name == "kube-apiserver" else name
        return self.folder / name / f"{file_name}.crt"

    def _write_kubeconfig(self, file_name: str, token: str, namespace: str = "default") -> Path:
        certificates = self._certificate_file("kube-apiserver").read_bytes()
        cluster = {
            "server": self.server,
            "certificate-authority-data": base64.b64encode(certificates).decode(),
        }
        context = {"cluster": "test", "user": "test", "namespace": namespace}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        }
        path = self.folder / file_name
        # JSON is YAML too.
        path.write_text(json.dumps(content))
        return path


def _is_schedulable(node: Mapping[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    # The taint of a new node outlasts its readiness by a moment.
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def _new_private_key() -> str:
    """Return a new private key on the curve P-256 in PEM form.

    The standard library cannot make keys, but this one is a random number in a fixed frame: an
    ECPrivateKey of RFC 5915 without the optional public key, which readers compute.
    """
    group_order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    number = 1 + secrets.randbelow(group_order - 1)
    version_and_length = bytes.fromhex("30310201010420")
    curve_name = bytes.fromhex("a00a06082a8648ce3d030107")
    encoded = base64.encodebytes(version_and_length + number.to_bytes(32, "big") + curve_name)
    return f"-----BEGIN EC PRIVATE KEY-----\n{encoded.decode()}-----END EC PRIVATE KEY-----\n"
