"""Kubernetes' Pod Security Standard "restricted", checked on a pod template before it is applied.

https://kubernetes.io/docs/concepts/security/pod-security-standards/; for Linux, whose pods alone
Flower has images for. A pod without a user namespace is assumed.
"""

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]
Breach = tuple[str, str]
"""The field, below the template, and what it must be."""

HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
PROFILES = ("RuntimeDefault", "Localhost")
APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
HANDLERS = ("postStart", "preStop")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def breaches(template: Object) -> Iterator[Breach]:
    """Every field that is not "restricted"."""
    for name, value in template["metadata"].get("annotations", {}).items():
        if name.startswith(APPARMOR_ANNOTATION) and not _is_profile(value):
            yield f"metadata.annotations['{name}']", "must be runtime/default or localhost/NAME"
    spec = template["spec"]
    yield from _of_pod(spec)
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind, []):
            path = f"spec.{kind}[{container['name']}]"
            yield from _of_container(path, container, spec.get("securityContext", {}))


def _of_pod(spec: Object) -> Iterator[Breach]:
    for field in HOST_NAMESPACES:
        if spec.get(field):
            yield f"spec.{field}", "must be false"
    for volume in spec.get("volumes", []):
        for kind in sorted(volume.keys() - {"name", *VOLUMES}):
            yield f"spec.volumes[{volume['name']}].{kind}", "must be another kind of volume"
    context = spec.get("securityContext", {})
    yield from _of_any_context("spec.securityContext", context)
    for sysctl in context.get("sysctls", []):
        if sysctl["name"] not in SYSCTLS:
            yield f"spec.securityContext.sysctls[{sysctl['name']}]", "must not be set"


def _of_container(path: str, container: Object, pod: Object) -> Iterator[Breach]:
    context = container.get("securityContext", {})
    yield from _of_any_context(f"{path}.securityContext", context)
    yield from _privileges(f"{path}.securityContext", context)
    for field in ("runAsNonRoot", "seccompProfile"):
        if field not in context and field not in pod:
            yield f"{path}.securityContext.{field}", "must be set here or for the pod"
    for port in container.get("ports", []):
        if port.get("hostPort"):
            yield f"{path}.ports[{port['containerPort']}].hostPort", "must not be set"
    handlers = {probe: container.get(probe, {}) for probe in PROBES}
    lifecycle = container.get("lifecycle", {})
    handlers |= {f"lifecycle.{name}": lifecycle.get(name, {}) for name in HANDLERS}
    for field, handler in handlers.items():
        for action in ("httpGet", "tcpSocket"):
            if handler.get(action, {}).get("host"):
                yield f"{path}.{field}.{action}.host", "must not be set"


def _privileges(path: str, context: Object) -> Iterator[Breach]:
    if context.get("privileged"):
        yield f"{path}.privileged", "must be false"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{path}.allowPrivilegeEscalation", "must be false"
    capabilities = context.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield f"{path}.capabilities.drop", "must contain ALL"
    for name in capabilities.get("add", []):
        if name != "NET_BIND_SERVICE":
            yield f"{path}.capabilities.add", f"must not contain {name}"
    if context.get("procMount", "Default") != "Default":
        yield f"{path}.procMount", "must be Default"


def _of_any_context(path: str, context: Object) -> Iterator[Breach]:
    """What the contexts of pods and containers share."""
    if context.get("runAsNonRoot") is False:
        yield f"{path}.runAsNonRoot", "must be true"
    if context.get("runAsUser") == 0:
        yield f"{path}.runAsUser", "must not be 0"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield f"{path}.windowsOptions.hostProcess", "must be false"
    for field in ("seccompProfile", "appArmorProfile"):
        if field in context and context[field].get("type") not in PROFILES:
            yield f"{path}.{field}.type", "must be RuntimeDefault or Localhost"
    options = context.get("seLinuxOptions", {})
    if options.get("type", "") not in SELINUX_TYPES:
        yield f"{path}.seLinuxOptions.type", f"must be one of {', '.join(SELINUX_TYPES[1:])}"
    for field in ("user", "role"):
        if options.get(field):
            yield f"{path}.seLinuxOptions.{field}", "must not be set"


def _is_profile(annotation: str) -> bool:
    return annotation in ("", "runtime/default") or annotation.startswith("localhost/")
