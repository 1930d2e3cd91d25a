"""What the API server and a kubelet refuse in a pod, said before it becomes processes and folders.

Also which variables a process of this machine does not take from a manifest.
"""

import re
from collections.abc import Iterator
from typing import Any

from ..api.problems import Path, Problem, join
from ..api.types import Federation
from .processes import COMMANDS

Object = dict[str, Any]

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
FILE_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")

NOT_A_LABEL = (
    "must be a DNS label: lower-case letters, digits and '-', 63 characters at most, not {!r}"
)
NOT_A_NAME = (
    "must be a DNS name: lower-case letters, digits, '-' and '.', 253 characters at most, not {!r}"
)
NOT_A_FILE_NAME = "is no name of a file; write letters, digits, '-', '_' and '.', 253 at most"
NOT_BELOW = "must be a relative path without '..', not {!r}"
NOT_ABSOLUTE = "must be an absolute path without '..', not {!r}"

# By these an interpreter, the linker or what a library starts runs other code than Flower's.
CODE_PREFIXES = ("PYTHON", "LD_", "DYLD_", "BASH_", "GIT_", "PERL", "RUBY", "OPENSSL_")
CODE_VARIABLES = {
    *("PATH", "SHELL", "ENV", "IFS", "PS4", "SHELLOPTS", "BASHOPTS"),
    *("BROWSER", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE"),
    *("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "OMP_TOOL_LIBRARIES", "CUDA_INJECTION64_PATH"),
    *("NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    *("CLASSPATH", "__PYVENV_LAUNCHER__"),
}
HARMLESS_VARIABLES = {
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONFAULTHANDLER"),
    *("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONOPTIMIZE", "PYTHONNOUSERSITE", "PYTHONSAFEPATH"),
    *("PYTHONMALLOC", "PYTHONTRACEMALLOC", "PYTHONASYNCIODEBUG", "PYTHONDEVMODE"),
}

# The objects that become folders, by where their names stand in a volume.
NAMES = (
    ("secret", "secretName"),
    ("configMap", "name"),
    ("persistentVolumeClaim", "claimName"),
)


def pod_problems(federation: Federation) -> Iterator[Problem]:
    """Every fault of volumes, mounts and variables, with its field."""
    for path, place in _places(federation):
        for index, volume in enumerate(place.get("volumes") or ()):
            yield from _volume_problems((*path, "volumes", index), volume)
        for field in ("volumeMounts", "superexecVolumeMounts"):
            for index, mount in enumerate(place.get(field) or ()):
                yield from _mount_problems((*path, field, index), mount)
        for index, variable in enumerate(place.get("env") or ()):
            if runs_code(variable["name"]):
                message = (
                    f"{variable['name']} can make a process run other code than Flower's, so `up` "
                    "does not take it from a manifest; remove it"
                )
                yield Problem(join((*path, "env", index)), message)
        for index, claim in enumerate(place.get("volumeClaimTemplates") or ()):
            name = claim["metadata"]["name"]
            where = (*path, "volumeClaimTemplates", index, "metadata", "name")
            yield from _unless(_is_name(name), where, NOT_A_NAME, name)


def runs_code(variable: str) -> bool:
    """Whether a variable can make a process run code that it would not run without it."""
    if variable in HARMLESS_VARIABLES:
        return False
    return variable in CODE_VARIABLES or variable.startswith(CODE_PREFIXES)


def is_file_name(key: str) -> bool:
    """Whether it may be a key of a Secret or ConfigMap, which becomes a file of that name."""
    return bool(FILE_NAME.fullmatch(key)) and key != "." and not key.startswith("..")


def _places(federation: Federation) -> Iterator[tuple[Path, Object]]:
    """Whatever has volumes, mounts or variables of processes that run here, by its field."""
    spec = federation.model_dump(by_alias=True)["spec"]
    yield ("spec", "supernodes"), spec["supernodes"]
    pools = enumerate(spec["supernodes"]["pools"])
    workloads = [(("spec", "supernodes", "pools", index), pool) for index, pool in pools]
    for path, workload in [(("spec", "superlink"), spec["superlink"]), *workloads]:
        yield path, workload
        template = (*path, "podTemplate", "spec")
        pod = workload["podTemplate"].get("spec") or {}
        yield template, pod
        for index, container in enumerate(pod.get("containers") or ()):
            if container["name"] in COMMANDS:
                yield (*template, "containers", index), container


def _volume_problems(path: Path, volume: Object) -> Iterator[Problem]:
    yield from _unless(_is_label(volume["name"]), (*path, "name"), NOT_A_LABEL, volume["name"])
    sources = sorted(volume.keys() - {"name"})
    if len(sources) > 1:
        yield Problem(join(path), f"has several sources: {', '.join(sources)}; keep one")
    for source, field in NAMES:
        name = (volume.get(source) or {}).get(field)
        if name is not None:
            yield from _unless(_is_name(name), (*path, source, field), NOT_A_NAME, name)
    host = (volume.get("hostPath") or {}).get("path")
    if host is not None:
        absolute = host.startswith("/") and _is_plain(host[1:])
        yield from _unless(absolute, (*path, "hostPath", "path"), NOT_ABSOLUTE, host)
    for where, step in _items(path, volume):
        yield from _unless(_is_plain(step), where, NOT_BELOW, step)


def _items(path: Path, volume: Object) -> Iterator[tuple[Path, str]]:
    """Under which paths a volume shows the keys of its sources."""
    sources = [(path, volume)]
    projected = (volume.get("projected") or {}).get("sources") or ()
    sources += [
        ((*path, "projected", "sources", index), each) for index, each in enumerate(projected)
    ]
    for place, source in sources:
        for kind in ("secret", "configMap", "downwardAPI"):
            for index, item in enumerate((source.get(kind) or {}).get("items") or ()):
                yield (*place, kind, "items", index, "path"), item["path"]


def _mount_problems(path: Path, mount: Object) -> Iterator[Problem]:
    for field in ("subPath", "subPathExpr"):
        step = mount.get(field)
        if step is not None:
            yield from _unless(_is_plain(step), (*path, field), NOT_BELOW, step)


def _unless(sound: bool, path: Path, message: str, value: str) -> Iterator[Problem]:
    if not sound:
        yield Problem(join(path), message.format(value))


def _is_label(name: str) -> bool:
    return bool(LABEL.fullmatch(name))


def _is_name(name: str) -> bool:
    return len(name) <= 253 and bool(NAME.fullmatch(name))


def _is_plain(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/") and "\0" not in path
