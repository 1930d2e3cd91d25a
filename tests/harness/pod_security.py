"""podTemplates that are beyond Pod Security restricted, and the field that each condition names."""

from typing import Any

Object = dict[str, Any]

POOL = "spec.supernodes.pools[0]"
SPEC = f"{POOL}.podTemplate.spec"
SUPERNODE = f"{SPEC}.containers[supernode]"


def _container(**fields: Any) -> Object:
    return {"spec": {"containers": [{"name": "supernode", **fields}]}}


def _volume(**source: Any) -> Object:
    return {"spec": {"volumes": [{"name": "v", **source}]}}


def _context(**fields: Any) -> Object:
    return _container(securityContext=fields)


def _pod(**fields: Any) -> Object:
    return {"spec": {"securityContext": fields}}


_PROBE = {"httpGet": {"host": "10.0.0.1", "port": 80}}

BEYOND: dict[str, Object] = {
    f"{SPEC}.hostNetwork": {"spec": {"hostNetwork": True}},
    f"{SPEC}.hostPID": {"spec": {"hostPID": True}},
    f"{SPEC}.hostIPC": {"spec": {"hostIPC": True}},
    f"{SPEC}.volumes[v].hostPath": {
        "spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}
    },
    f"{SPEC}.volumes[v].nfs": _volume(nfs={"path": "/", "server": "10.0.0.1"}),
    f"{SPEC}.securityContext.runAsNonRoot": _pod(runAsNonRoot=False),
    f"{SPEC}.securityContext.runAsUser": _pod(runAsUser=0),
    f"{SPEC}.securityContext.seccompProfile.type": _pod(seccompProfile={"type": "Unconfined"}),
    f"{SPEC}.securityContext.appArmorProfile.type": _pod(appArmorProfile={"type": "Unconfined"}),
    f"{SPEC}.securityContext.seLinuxOptions.type": _pod(seLinuxOptions={"type": "spc_t"}),
    f"{SPEC}.securityContext.seLinuxOptions.role": _pod(seLinuxOptions={"role": "system_r"}),
    f"{SPEC}.securityContext.sysctls[kernel.msgmax]": _pod(
        sysctls=[{"name": "kernel.msgmax", "value": "1"}]
    ),
    f"{SUPERNODE}.securityContext.privileged": _context(privileged=True),
    f"{SUPERNODE}.securityContext.allowPrivilegeEscalation": _context(
        allowPrivilegeEscalation=True
    ),
    f"{SUPERNODE}.securityContext.capabilities.add": _context(capabilities={"add": ["SYS_ADMIN"]}),
    f"{SUPERNODE}.securityContext.capabilities.drop": _context(capabilities={"drop": ["KILL"]}),
    f"{SUPERNODE}.securityContext.runAsUser": _context(runAsUser=0),
    f"{SUPERNODE}.securityContext.procMount": _context(procMount="Unmasked"),
    f"{SUPERNODE}.ports[80].hostPort": _container(
        ports=[{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    ),
    f"{SUPERNODE}.lifecycle.preStop.httpGet.host": _container(lifecycle={"preStop": _PROBE}),
    f"{SPEC}.initContainers[first].securityContext.capabilities.drop": {
        "spec": {
            "initContainers": [
                {
                    "name": "first",
                    "image": "busybox",
                    "securityContext": {"allowPrivilegeEscalation": False},
                }
            ]
        }
    },
    f"{POOL}.podTemplate.metadata.annotations"
    "['container.apparmor.security.beta.kubernetes.io/supernode']": {
        "metadata": {
            "annotations": {
                "container.apparmor.security.beta.kubernetes.io/supernode": "unconfined"
            }
        }
    },
}
# As far as they may go.
WITHIN: list[Object] = [
    {},
    _context(capabilities={"add": ["NET_BIND_SERVICE"]}),
    _pod(seccompProfile={"type": "Localhost", "localhostProfile": "flower.json"}),
    _pod(sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
    {"spec": {"nodeSelector": {"gpu": "true"}, "volumes": [{"name": "v", "emptyDir": {}}]}},
]
