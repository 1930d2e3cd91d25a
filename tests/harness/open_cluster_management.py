"""A hub of Open Cluster Management on this machine, with its own roles and webhooks."""

import base64
import signal
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import yaml

from .binaries import binary
from .certificates import self_signed_certificate
from .control_plane import ControlPlane
from .https_client import LOOPBACK
from .managed_cluster import MANAGED_CLUSTERS, ManagedCluster, introduce
from .ocm_manifests import apply, call_at, manifests
from .ports import free_port
from .processes import ProcessGroup, ServerProcess
from .waiting import wait_for

NAMESPACE = "open-cluster-management-hub"
# It needs all the rights that it gives to addons: tests bind further roles to it.
ADDON_MANAGER = "addon-manager-controller-sa"

_BOOTSTRAP_NAMESPACE = "open-cluster-management"
_BOOTSTRAP_ACCOUNT = "agent-registration-bootstrap"

_START_SECONDS = 60.0

# Each with the ServiceAccount whose rights it has, and with what it does not do by default.
_MANAGERS = {
    "registration": (
        "registration-controller-sa",
        "--feature-gates=DefaultClusterSet=true,ManagedClusterAutoApproval=true",
        "--auto-approved-csr-users="
        f"system:serviceaccount:{_BOOTSTRAP_NAMESPACE}:{_BOOTSTRAP_ACCOUNT}",
    ),
    "placement": ("placement-controller-sa",),
    "work": ("work-controller-sa", "--feature-gates=ManifestWorkReplicaSet=true"),
    "addon": (ADDON_MANAGER,),
}
# One process has all webhooks, and this role all that the others have.
_WEBHOOKS_ACCOUNT = "registration-webhook-sa"

_FOLDER = "cluster-manager/hub"
_DEFINITIONS_AND_ROLES = [
    f"{_FOLDER}/crds/*.yaml",
    *(
        f"{_FOLDER}/{part}/{kind}.yaml"
        for part in ("registration", "placement", "work", "addon-manager")
        for kind in ("clusterrole", "clusterrolebinding", "serviceaccount")
    ),
    f"{_FOLDER}/work/executor-admin-clusterrole.yaml",
    f"{_FOLDER}/addon-manager/work-executor-admin-clusterrolebinding.yaml",
    f"{_FOLDER}/registration/webhook-clusterrole.yaml",
    f"{_FOLDER}/registration/webhook-clusterrolebinding.yaml",
    f"{_FOLDER}/registration/webhook-serviceaccount.yaml",
]
_WEBHOOKS = f"{_FOLDER}/*/webhook-*configuration.yaml"

# What OCM's operator has no manifests for: the namespaces, and who may bring a new cluster.
_FURTHER = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: {_BOOTSTRAP_NAMESPACE}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {_BOOTSTRAP_ACCOUNT}, namespace: {_BOOTSTRAP_NAMESPACE}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: "test:bootstrap"}}
rules:
- apiGroups: [certificates.k8s.io]
  resources: [certificatesigningrequests]
  verbs: [create, get, list, watch]
- apiGroups: [cluster.open-cluster-management.io]
  resources: [managedclusters]
  verbs: [create, get, list, watch]
- apiGroups: [cluster.open-cluster-management.io]
  resources: [managedclustersets/join]
  resourceNames: [default]
  verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: "test:bootstrap"}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "test:bootstrap"}}
subjects:
- {{kind: ServiceAccount, name: {_BOOTSTRAP_ACCOUNT}, namespace: {_BOOTSTRAP_NAMESPACE}}}
"""

# Longer than any test: nobody renews the leases of clusters that are not there.
_SEEDED_LEASE_SECONDS = 86400
_SEEDED_CONDITIONS = [
    "HubAcceptedManagedCluster",
    "ManagedClusterJoined",
    "ManagedClusterConditionAvailable",
]

Document = dict[str, Any]


class Hub:
    """The managers and webhooks on a control plane, from entering a with-block until leaving it.

    The clusters that have joined it end with it.
    """

    clusters: dict[str, ManagedCluster]
    _managers: dict[str, ServerProcess]
    _ports: dict[str, int]

    def __init__(self, plane: ControlPlane) -> None:
        """The control plane needs controllers: they sign the certificates of the clusters."""
        self.plane = plane

    def __enter__(self) -> Self:
        self._program = str(binary("ocm"))
        self.clusters = {}
        self._ports = {}
        with ExitStack() as stack:
            self._processes = stack.enter_context(ProcessGroup())
            self._install()
            self._managers = {
                name: self._start_manager(name, *arguments) for name, arguments in _MANAGERS.items()
            }
            self._wait_for_managers()
            self._bootstrap_kubeconfig = self.plane.kubeconfig_for_service_account(
                _BOOTSTRAP_NAMESPACE, _BOOTSTRAP_ACCOUNT
            )
            self._ends = stack.enter_context(ExitStack())
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def managed_cluster(
        self, name: str, labels: Mapping[str, str] | None = None, *, nodes: int = 1
    ) -> ManagedCluster:
        """Start a control plane with nodes of kwok's, and let it join. Threads may call it."""
        return self._join(name, ControlPlane(controllers=True, nodes=nodes), labels)

    def join(
        self, name: str, plane: ControlPlane, labels: Mapping[str, str] | None = None
    ) -> ManagedCluster:
        """Let a cluster join that runs already, with nodes of any kind."""
        return self._join(name, nullcontext(plane), labels)

    def _join(
        self,
        name: str,
        plane: AbstractContextManager[ControlPlane],
        labels: Mapping[str, str] | None,
    ) -> ManagedCluster:
        with ExitStack() as stack:
            running = stack.enter_context(plane)
            cluster = ManagedCluster(
                name, running, self.plane, self._bootstrap_kubeconfig, labels or {}
            )
            stack.enter_context(cluster)
            self._ends.push(stack.pop_all())
        self.clusters[name] = cluster
        return cluster

    def restart_managers(self) -> None:
        """Let all managers crash, and start them again."""
        self._managers = {
            name: self._processes.crash(manager) for name, manager in self._managers.items()
        }
        self._wait_for_managers()

    def seed(self, count: int, labels: Mapping[str, str], prefix: str = "seeded") -> list[str]:
        """Clusters that have joined and are available, by their objects: nobody is there.

        Returns their names.
        """
        names = [f"{prefix}-{number:04d}" for number in range(count)]
        registration = self._managers["registration"].process
        # It would take each for unreachable until its status is written.
        registration.send_signal(signal.SIGSTOP)
        try:
            for name in names:
                self._seed(name, labels)
        finally:
            registration.send_signal(signal.SIGCONT)
        return names

    def _seed(self, name: str, labels: Mapping[str, str]) -> None:
        introduce(self.plane, name, labels, _SEEDED_LEASE_SECONDS)
        owner = {"open-cluster-management.io/cluster-name": name}
        self._send("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": owner}})
        since = {
            "status": "True",
            "reason": "Seeded",
            "message": "",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        conditions = [{"type": each, **since} for each in _SEEDED_CONDITIONS]
        status = {"status": {"conditions": conditions}}
        self._send("PATCH", f"{MANAGED_CLUSTERS}/{name}/status", status)

    def _send(self, method: str, path: str, body: Document) -> None:
        status, answer = self.plane.request(method, path, body)
        if status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer}")

    def _install(self) -> None:
        key, certificate = self_signed_certificate("webhooks")
        folder = self._processes.folder
        (folder / "tls.key").write_bytes(key)
        (folder / "tls.crt").write_bytes(certificate)
        authority = base64.b64encode(certificate).decode()
        values = {
            "ClusterManagerName": "cluster-manager",
            "ClusterManagerNamespace": NAMESPACE,
            "RegistrationWebhook": {"Port": 443},
            "RegistrationAPIServiceCABundle": authority,
            "AddonAPIServiceCABundle": authority,
        }
        port = free_port()
        documents = manifests(values, *_DEFINITIONS_AND_ROLES)
        webhooks = manifests(values, _WEBHOOKS)
        for document in [*documents, *webhooks]:
            call_at(f"https://{LOOPBACK}:{port}", document)
        apply(self.plane, [*yaml.safe_load_all(_FURTHER), *documents])
        self._start_webhooks(port)
        apply(self.plane, webhooks)

    def _start_webhooks(self, port: int) -> None:
        kubeconfig = self._kubeconfig(_WEBHOOKS_ACCOUNT)
        command = [self._program, "webhooks", f"--port={port}", "--certificates=."]
        webhooks = self._processes.start("webhooks", [*command, f"--kubeconfig={kubeconfig}"])
        _wait_until_listening(webhooks, port)

    def _start_manager(self, name: str, account: str, *arguments: str) -> ServerProcess:
        self._ports[name] = free_port()
        command = [
            self._program,
            name,
            f"--namespace={NAMESPACE}",
            f"--kubeconfig={self._kubeconfig(account)}",
            f"--listen={LOOPBACK}:{self._ports[name]}",
            "--disable-leader-election",
            # The defaults would only slow the tests down.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            *arguments,
        ]
        return self._processes.start(name, command)

    def _wait_for_managers(self) -> None:
        for name, manager in self._managers.items():
            _wait_until_listening(manager, self._ports[name])

    def _kubeconfig(self, account: str) -> Path:
        return self.plane.kubeconfig_for_service_account(NAMESPACE, account)


def _wait_until_listening(server: ServerProcess, port: int) -> None:
    def listening() -> bool:
        server.check_running()
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, port)) == 0

    wait_for(listening, lambda: f"it does not listen\n{server.log_tail()}", _START_SECONDS)
