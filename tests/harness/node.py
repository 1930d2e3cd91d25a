"""A Kubernetes node on this machine: a real kubelet, real containers, a network of their own."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml

from .binaries import binary
from .certificates import self_signed_certificate
from .cgroups import own_control_group
from .control_plane import ControlPlane
from .images import PAUSE, pause_archive
from .namespaces import Enclosure, own_network
from .processes import ProcessGroup, ServerProcess
from .waiting import wait_for

NAME = "node"
# All of these exist in the node's own network alone.
ADDRESS = "10.77.0.1"
_PODS = "10.88.77.0/24"
_SERVICES = "10.96.0.0/16"
_NAME_SERVER = "10.96.0.10"
# As in other clusters: policies name the port of the server, not that of its Service.
_NAME_SERVER_PORT = 53

_SOCKET = "/run/containerd/containerd.sock"
_START_SECONDS = 60.0
_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "nft": "nftables",
    "conntrack": "conntrack",
    "mmdebstrap": "mmdebstrap",
}


def missing() -> str | None:
    """Why no node can run on this machine, if that is so."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "a node with real containers needs root on Linux"
    packages = [package for program, package in _PACKAGES.items() if not shutil.which(program)]
    return f"not installed: {', '.join(packages)}" if packages else None


class Node:
    """One node and its control plane, from entering a with-block until leaving it.

    While it runs, the thread that entered it is in the node's network, and only there.
    """

    cluster: ControlPlane
    _containerd: ServerProcess
    _kubelet: ServerProcess

    def __init__(self, archives: Sequence[Path]) -> None:
        self._archives = [pause_archive(), *archives]

    def __enter__(self) -> Self:
        programs = ("kubelet", "kube-proxy", "coredns")
        self._binaries = {name: str(binary(name)) for name in programs}
        with ExitStack() as stack:
            stack.enter_context(own_network(ADDRESS, _SERVICES))
            self._group = stack.enter_context(ProcessGroup())
            self._folder = self._group.folder
            self.cluster = stack.enter_context(self._control_plane())
            self._control_group = stack.enter_context(own_control_group())
            self._enclosure = Enclosure(self._group)
            stack.callback(self._enclosure.end)
            self._start_containerd()
            self._start_kubelet()
            self._start_proxy()
            self._start_name_server()
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def restart_containerd(self) -> None:
        """Let the container runtime crash and come back; its containers run on."""
        self._containerd = self._enclosure.crash(self._containerd)
        self._wait_for_containerd()

    def restart_kubelet(self) -> None:
        before = self._heartbeat()
        self._kubelet = self._enclosure.crash(self._kubelet)
        # The node is called ready for a while after its kubelet has died.
        wait_for(
            lambda: self._heartbeat() != before,
            lambda: f"the kubelet is not back\n{self._kubelet.log_tail()}",
            _START_SECONDS,
        )
        self._wait_until_ready()

    def _heartbeat(self) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NAME}"
        renewed: str = self.cluster.request("GET", path)[1]["spec"]["renewTime"]
        return renewed

    def advertise(self, resource: str, count: int) -> None:
        """An extended resource, as a device plugin would bring it."""
        path = f"/api/v1/nodes/{NAME}/status"
        escaped = resource.replace("/", "~1")
        patch = [{"op": "add", "path": f"/status/capacity/{escaped}", "value": str(count)}]
        status, answer = self.cluster.request(
            "PATCH", path, patch, {"Content-Type": "application/json-patch+json"}
        )
        if status != 200:
            raise RuntimeError(f"{resource} is not advertised: {answer}")

    def add_volume(self, storage_class: str) -> None:
        """A volume on this node for one claim of the class."""
        name = f"volume-{secrets.token_hex(4)}"
        folder = self._folder / "lib" / name  # where the kubelet has /var/lib
        folder.mkdir()
        folder.chmod(0o777)
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage_class,
                "hostPath": {"path": f"/var/lib/{name}"},
            },
        }
        self.cluster.kubectl("create", "-f", "-", input=json.dumps(volume))

    def logs(self) -> str:
        return self._group.log_tails()

    def _control_plane(self) -> ControlPlane:
        key, certificate = self_signed_certificate("apiserver-of-the-node")
        (self._folder / "client.key").write_bytes(key)
        (self._folder / "client.crt").write_bytes(certificate)
        return ControlPlane(
            controllers=True,
            address=ADDRESS,
            users={f"system:node:{NAME}": "system:nodes", "system:kube-proxy": ""},
            apiserver_arguments=[
                f"--kubelet-client-certificate={self._folder / 'client.crt'}",
                f"--kubelet-client-key={self._folder / 'client.key'}",
                "--kubelet-preferred-address-types=InternalIP",
            ],
        )

    def _start_containerd(self) -> None:
        networks = self._folder / "networks"
        networks.mkdir()
        (networks / "10-pods.conflist").write_text(json.dumps(_pod_network()))
        settings = self._folder / "containerd.toml"
        settings.write_text(_CONTAINERD.format(pause=PAUSE, networks=networks))
        self._containerd = self._enclosure.start("containerd", "containerd", "-c", str(settings))
        self._wait_for_containerd()
        for archive in self._archives:
            self._containers("images", "import", str(archive))

    def _wait_for_containerd(self) -> None:
        def answers() -> bool:
            self._containerd.check_running()
            command = self._enclosure.command("ctr", "version")
            return subprocess.run(command, capture_output=True, check=False).returncode == 0

        wait_for(answers, self._containerd.log_tail, _START_SECONDS)

    def _containers(self, *arguments: str) -> str:
        return self._enclosure.run("ctr", "--namespace", "k8s.io", *arguments)

    def _start_kubelet(self) -> None:
        (self._folder / "resolv.conf").write_text("")
        settings = self._write("kubelet.yaml", self._kubelet_settings())
        kubeconfig = self.cluster.kubeconfig_for_user(f"system:node:{NAME}")
        self._kubelet = self._enclosure.start(
            "kubelet",
            self._binaries["kubelet"],
            f"--config={settings}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NAME}",
            f"--node-ip={ADDRESS}",
        )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        def ready() -> bool:
            self._kubelet.check_running()
            status, node = self.cluster.request("GET", f"/api/v1/nodes/{NAME}")
            return status == 200 and _is_ready(node)

        wait_for(ready, lambda: f"no node\n{self._kubelet.log_tail()}", _START_SECONDS)

    def _kubelet_settings(self) -> Mapping[str, Any]:
        endpoint = f"unix://{_SOCKET}"
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": endpoint,
            "address": ADDRESS,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._folder / "client.crt")},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "clusterDNS": [_NAME_SERVER],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self._folder / "resolv.conf"),
            # Machines of every kind: with and without systemd, swap and version 2.
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._control_group}",
            "failCgroupV1": False,
            "failSwapOn": False,
            # Lower ones are for those who may raise them again.
            "oomScoreAdj": 0,
            "volumePluginDir": str(self._folder / "volume-plugins"),
            # Images cannot be had a second time.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
            "nodeStatusUpdateFrequency": "5s",
        }

    def _start_proxy(self) -> None:
        settings = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {
                "kubeconfig": str(self.cluster.kubeconfig_for_user("system:kube-proxy"))
            },
            "mode": "nftables",
            "clusterCIDR": _PODS,
            "hostnameOverride": NAME,
            "oomScoreAdj": 0,
            # These are the machine's, not the network's.
            "conntrack": {"maxPerCore": 0, "min": 0},
        }
        path = self._write("proxy.yaml", settings)
        self._enclosure.start("kube-proxy", self._binaries["kube-proxy"], f"--config={path}")

    def _start_name_server(self) -> None:
        path = self._folder / "Corefile"
        path.write_text(
            _CORE_FILE.format(
                address=ADDRESS, port=_NAME_SERVER_PORT, kubeconfig=self.cluster.kubeconfig
            )
        )
        self._enclosure.start("coredns", self._binaries["coredns"], "-conf", str(path))
        self.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(_name_service()))

    def _write(self, name: str, content: Mapping[str, Any]) -> Path:
        path = self._folder / name
        path.write_text(json.dumps(content))
        return path


_CONTAINERD = """
version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{networks}"
"""

_CORE_FILE = """
.:{port} {{
  bind {address}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig}
  }}
}}
"""


def _pod_network() -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": _PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _name_service() -> list[dict[str, Any]]:
    """CoreDNS runs beside the kubelet, so its Service has endpoints of our own making."""
    numbers = {"dns": "UDP", "dns-tcp": "TCP"}
    metadata = {"namespace": "kube-system", "name": "kube-dns"}
    ports = [
        {"name": name, "port": 53, "protocol": protocol, "targetPort": _NAME_SERVER_PORT}
        for name, protocol in numbers.items()
    ]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"clusterIP": _NAME_SERVER, "ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata | {"labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4",
            "ports": [
                {"name": name, "port": _NAME_SERVER_PORT, "protocol": protocol}
                for name, protocol in numbers.items()
            ],
            "endpoints": [{"addresses": [ADDRESS]}],
        },
    ]


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    # The taint of a new node outlasts its readiness by a moment.
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
