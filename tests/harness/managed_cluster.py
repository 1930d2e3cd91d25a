"""A cluster that has joined a hub of Open Cluster Management."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import yaml

from .binaries import binary
from .control_plane import ControlPlane
from .https_client import LOOPBACK
from .ocm_manifests import apply, manifests
from .ports import free_port
from .processes import ProcessGroup
from .waiting import wait_for

LEASES = "/apis/coordination.k8s.io/v1/namespaces"
MANAGED_CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"

_NAMESPACE = "open-cluster-management-agent"
_ACCOUNT = "klusterlet-work-sa"

_JOIN_SECONDS = 60.0
_LEAVE_SECONDS = 60.0

# What OCM's operator makes without a manifest.
_FURTHER = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {_NAMESPACE}}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: {_NAMESPACE}-addon}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: "open-cluster-management:klusterlet-work:aggregate"}}
aggregationRule:
  clusterRoleSelectors:
  - matchLabels: {{open-cluster-management.io/aggregate-to-work: "true"}}
rules: []
"""

# The hub misses a cluster whose lease is five times as old.
_LEASE_SECONDS = 60
_LONG_AGO = "2020-01-01T00:00:00.000000Z"

Document = dict[str, Any]


def introduce(hub: ControlPlane, name: str, labels: Mapping[str, str], lease_seconds: int) -> None:
    """Tell the hub of a cluster, and that it is welcome."""
    document = {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"hubAcceptsClient": True, "leaseDurationSeconds": lease_seconds},
    }
    status, answer = hub.request("POST", MANAGED_CLUSTERS, document)
    if status != 201:
        raise RuntimeError(f"the hub does not take {name}: {answer}")


class ManagedCluster:
    """The agent on a control plane, from entering a with-block until leaving it."""

    def __init__(
        self,
        name: str,
        plane: ControlPlane,
        hub: ControlPlane,
        bootstrap_kubeconfig: Path,
        labels: Mapping[str, str],
    ) -> None:
        self.name = name
        self.plane = plane
        self._hub = hub
        self._path = f"{MANAGED_CLUSTERS}/{name}"
        self._bootstrap_kubeconfig = bootstrap_kubeconfig
        self._labels = labels

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._processes = stack.enter_context(ProcessGroup())
            # Before it comes, so that it never is without its labels.
            introduce(self._hub, self.name, self._labels, _LEASE_SECONDS)
            self._install()
            self._agent = self._processes.start("agent", self._command())
            self._wait_until_available("True")
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def hub_kubeconfig(self) -> Path:
        """What the agent has on the hub: the rights of this cluster."""
        return self._hub_folder / "kubeconfig"

    def secret_files(self, namespace: str, name: str) -> Path:
        """A folder with what is in a Secret of the cluster, as a pod would have it mounted.

        What addons have on the hub is in such Secrets.
        """
        status, secret = self.plane.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if status != 200:
            raise RuntimeError(f"no Secret {namespace}/{name}: {secret}")
        folder = self._processes.folder / f"secret-{namespace}-{name}"
        folder.mkdir(exist_ok=True)
        for key, value in secret["data"].items():
            (folder / key).write_bytes(base64.b64decode(value))
        return folder

    @contextmanager
    def lost(self) -> Iterator[None]:
        """Stop the agent and wait until the hub misses the cluster, where all else runs on.

        Afterwards, also if that took too long, the agent runs again and the hub sees it.
        """
        self._agent.stop()
        try:
            lease = f"{LEASES}/{self.name}/leases/managed-cluster-lease"
            self._hub.request("PATCH", lease, {"spec": {"renewTime": _LONG_AGO}})
            self._wait_until_available("Unknown")
            yield
        finally:
            self._agent = self._processes.start_again(self._agent)
            self._wait_until_available("True")

    def remove(self) -> None:
        """Take the cluster out of the fleet, and wait until the hub does not know it any more.

        Its namespace on the hub stays: that is for those who have something in it.
        """
        self._hub.request("DELETE", self._path)

        def message() -> str:
            return f"{self._hub.request('GET', self._path)}\n{self._agent.log_tail()}"

        wait_for(lambda: self._hub.request("GET", self._path)[0] == 404, message, _LEAVE_SECONDS)
        self._agent.stop()

    @property
    def _hub_folder(self) -> Path:
        return self._processes.folder / "hub"

    def _install(self) -> None:
        values = {
            "KlusterletName": "klusterlet",
            "KlusterletNamespace": _NAMESPACE,
            "AgentNamespace": _NAMESPACE,
            "RegistrationServiceAccount": _ACCOUNT,
            "WorkServiceAccount": _ACCOUNT,
        }
        patterns = ["klusterlet/managed/*.yaml", "klusterlet/management/*role*.yaml"]
        apply(self.plane, [*yaml.safe_load_all(_FURTHER), *manifests(values, *patterns)])

    def _command(self) -> list[str]:
        self._hub_folder.mkdir()
        kubeconfig = self.plane.kubeconfig_for_service_account(_NAMESPACE, _ACCOUNT)
        return [
            str(binary("ocm")),
            "agent",
            f"--spoke-cluster-name={self.name}",
            f"--agent-id={self.name}",
            f"--namespace={_NAMESPACE}",
            f"--kubeconfig={kubeconfig}",
            f"--bootstrap-kubeconfig={self._bootstrap_kubeconfig}",
            f"--hub-kubeconfig-dir={self._hub_folder}",
            f"--workload-source-config={self.hub_kubeconfig}",
            f"--listen={LOOPBACK}:{free_port()}",
            "--disable-leader-election",
            # By default the hub hears of changes after ten seconds and more.
            "--status-sync-interval=1s",
            "--cluster-healthcheck-period=5s",
        ]

    def _wait_until_available(self, wanted: str) -> None:
        seen: Document = {}

        def as_wanted() -> bool:
            nonlocal seen
            if wanted == "True":
                self._agent.check_running()
            _, seen = self._hub.request("GET", self._path)
            return _available(seen) == wanted

        def message() -> str:
            return f"{self.name} is not {wanted}: {seen}\n{self._agent.log_tail()}"

        wait_for(as_wanted, message, _JOIN_SECONDS)


def _available(cluster: Document) -> str | None:
    for condition in cluster.get("status", {}).get("conditions", []):
        if condition["type"] == "ManagedClusterConditionAvailable":
            status: str = condition["status"]
            return status
    return None
