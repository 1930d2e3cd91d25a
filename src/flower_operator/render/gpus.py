"""GPUs of a pool: requested as an extended resource, or all of a node's mounted."""

from typing import Any

from ..api.types import Gpu

Object = dict[str, Any]

RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
DEVICES = {"dev-kfd": ("/dev/kfd", "CharDevice"), "dev-dri": ("/dev/dri", "Directory")}


def requests(gpu: Gpu, resources: Object) -> Object:
    """A container's resources with its GPUs added."""
    if not gpu.enabled or gpu.mount_all:
        return resources
    name = gpu.resource_name or RESOURCES[gpu.vendor or "nvidia"]
    wanted = {name: str(gpu.count)}
    return resources | {
        "limits": resources.get("limits", {}) | wanted,
        "requests": resources.get("requests", {}) | wanted,
    }


def env(gpu: Gpu) -> list[Object]:
    if not gpu.mount_all:
        return []
    name = "NVIDIA_VISIBLE_DEVICES" if gpu.vendor == "nvidia" else "ROCR_VISIBLE_DEVICES"
    return [{"name": name, "value": "all"}]


def mounts(gpu: Gpu) -> list[Object]:
    if not _mounts_devices(gpu):
        return []
    return [{"name": name, "mountPath": path} for name, (path, _) in DEVICES.items()]


def volumes(gpu: Gpu) -> list[Object]:
    if not _mounts_devices(gpu):
        return []
    return [
        {"name": name, "hostPath": {"path": path, "type": kind}}
        for name, (path, kind) in DEVICES.items()
    ]


def needs_privilege(gpu: Gpu) -> bool:
    """Device files of the host open only to a privileged container."""
    return _mounts_devices(gpu)


def pod_fields(gpu: Gpu) -> Object:
    return {"runtimeClassName": "nvidia"} if gpu.mount_all and gpu.vendor == "nvidia" else {}


def _mounts_devices(gpu: Gpu) -> bool:
    return gpu.mount_all and gpu.vendor == "amd"
