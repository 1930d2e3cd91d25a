"""The rendered pods as processes of this machine: pure, from a plan to command lines.

What a kubelet and a cluster's network would do is done here by rewriting: variables of the
downward API, `$(VAR)`, mounts (a path below a mount becomes one below the state folder) and
addresses (every port of a pod becomes a free port of 127.0.0.1).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..flower.dialects import Dialect, dialect_of
from ..flower.releases import Release
from ..render import Plan
from ..render.envoy import Location, envoy_arguments, gateway_files
from ..render.gateway import CONTAINER as GATEWAY
from ..render.relay import CONTAINER as RELAY
from ..trust.layout import Part
from .expansion import expand
from .files import OutsideError, below
from .process import LOOPBACK, Process
from .trust import trust_folder

Object = dict[str, Any]

COMMANDS = {
    "superlink": "flower-superlink",
    "supernode": "flower-supernode",
    "superexec-serverapp": "flower-superexec",
    "superexec-clientapp": "flower-superexec",
}
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
POOL_LABEL = "flower.flwr.ai/pool"
INDEX_FIELD = "metadata.labels['apps.kubernetes.io/pod-index']"
ADDRESS = re.compile(r"(?:0\.0\.0\.0|127\.0\.0\.1):(\d+)")
SERVICE = re.compile(r"([a-z0-9-]+)\.[a-z0-9-]+\.svc:(\d+)")


@dataclass(frozen=True)
class Machine:
    """What the processes depend on beside the plan."""

    folder: Path
    """The state folder of this Federation."""
    nodes: tuple[str, ...]
    """Names of the nodes that a DaemonSet runs on: this machine, however often."""
    port_of: Callable[[str, int], int]
    """The port of 127.0.0.1 that stands for a port of a pod."""
    environment_of: Callable[[Release], Path]
    """The virtual environment with a Flower release."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the certificates and secrets that lie in the state folder, by object."""
    envoy: Path | None = None
    """Envoy's program, for a plan with a gateway."""
    keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Public keys of SuperNodes, by keyring: the private ones lie there too."""


@dataclass(frozen=True)
class _Pod:
    name: str
    index: int
    node: str
    spec: Object
    release_of: Mapping[str, Release]


def processes(plan: Plan, machine: Machine) -> list[Process]:
    """Every container of every pod that the plan would run, as a process."""
    found = []
    for pod in _pods(plan, machine):
        for container in pod.spec["containers"]:
            if container["name"] in COMMANDS:
                try:
                    found.append(_process(plan, machine, pod, container))
                except OutsideError as error:
                    name = f"{pod.name}/{container['name']}"
                    raise OutsideError(f"{name}: {error}; write a path without '..'") from None
            elif container["name"] == GATEWAY:
                found.append(_gateway(plan, machine, pod))
    return found


def left_out(plan: Plan) -> list[str]:
    """Containers that are not Flower's own and so have no command here."""
    names = {
        container["name"]
        for workload in _workloads(plan)
        for container in workload["spec"]["template"]["spec"]["containers"]
    }
    # Here nobody is elsewhere, so there is nothing to relay.
    return sorted(names - COMMANDS.keys() - {GATEWAY, RELAY})


def control_address(plan: Plan, machine: Machine) -> str:
    """Where `flwr run` finds the SuperLink."""
    return f"{LOOPBACK}:{machine.port_of('superlink', plan.ports.control)}"


def fleet_address(plan: Plan, machine: Machine) -> str:
    """Where SuperNodes find it."""
    return f"{LOOPBACK}:{machine.port_of('superlink', plan.ports.fleet)}"


def host_paths(plan: Plan) -> Iterator[tuple[str, str]]:
    """What processes read of this machine itself: each volume and its path."""
    for workload in _workloads(plan):
        spec = workload["spec"]["template"]["spec"]
        paths = {
            each["name"]: each["hostPath"]["path"]
            for each in spec.get("volumes", [])
            if "hostPath" in each
        }
        for container in spec["containers"]:
            for mount in container.get("volumeMounts", []):
                if container["name"] in COMMANDS and mount["name"] in paths:
                    yield mount["name"], paths[mount["name"]]


def own_volume(folder: Path, pod: str, volume: str) -> Path:
    """What stands for a volume of a pod's own."""
    return below(folder, "volumes", pod, volume)


def _workloads(plan: Plan) -> list[Object]:
    return [each for each in plan.objects if each["kind"] in WORKLOADS]


def _pods(plan: Plan, machine: Machine) -> Iterator[_Pod]:
    pools = iter(plan.releases.pools)
    for workload in _workloads(plan):
        spec = workload["spec"]["template"]["spec"]
        pool = workload["metadata"]["labels"].get(POOL_LABEL)
        if pool is None:
            own = plan.releases
            releases = {"superlink": own.superlink, "superexec-serverapp": own.serverapp}
            yield _Pod("superlink", 0, machine.nodes[0], spec, releases)
            continue
        own_pool = next(pools)
        releases = {"supernode": own_pool.supernode, "superexec-clientapp": own_pool.clientapp}
        daemon = workload["kind"] == "DaemonSet"
        count = len(machine.nodes) if daemon else workload["spec"]["replicas"]
        for index in range(count):
            node = machine.nodes[index] if daemon else machine.nodes[0]
            yield _Pod(f"{pool}-{index}", index, node, spec, releases)


def _process(plan: Plan, machine: Machine, pod: _Pod, container: Object) -> Process:
    name = container["name"]
    mounts = _mounts(plan, machine, pod, container)
    folder = machine.environment_of(pod.release_of[name])
    variables = {
        variable["name"]: mounts.localize(_value(variable, pod))
        for variable in container.get("env", [])
    }
    arguments = [mounts.localize(expand(text, variables)) for text in container["args"]]
    dialect = dialect_of(pod.release_of[name])
    arguments = _local_addresses(plan, machine, pod, dialect, arguments)
    return Process(
        pod=pod.name,
        container=name,
        command=[str(folder / "bin" / COMMANDS[name]), *arguments],
        environment=variables,
        files=mounts.files,
        folders=sorted(set(mounts.folders.values()) - mounts.files.keys() - mounts.kept),
        mounted=mounts.versions,
        key=mounts.key,
        health=_following(arguments, dialect.health),
    )


def _gateway(plan: Plan, machine: Machine, pod: _Pod) -> Process:
    """Envoy in front of the SuperLink. It is not restarted for a new certificate: it watches it."""
    assert plan.gateway
    assert machine.envoy
    folder = own_volume(machine.folder, pod.name, GATEWAY)
    location = Location(
        host=LOOPBACK,
        port_of=partial(machine.port_of, pod.name),
        folder=str(folder),
        certificates=str(trust_folder(machine.folder) / Part.SERVER.object_name(plan.name)),
    )
    files = gateway_files(plan.gateway, location)
    return Process(
        pod=pod.name,
        container=GATEWAY,
        command=[str(machine.envoy), *envoy_arguments(str(folder))],
        environment={},
        files={str(below(folder, name)): text for name, text in files.items()},
        health=fleet_address(plan, machine),
    )


def _following(arguments: list[str], flag: str) -> str | None:
    return arguments[arguments.index(flag) + 1] if flag in arguments[:-1] else None


def _value(variable: Object, pod: _Pod) -> str:
    source = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    known = {INDEX_FIELD: str(pod.index), "spec.nodeName": pod.node, "metadata.name": pod.name}
    return str(variable.get("value", known.get(source, "")))


def _local_addresses(
    plan: Plan, machine: Machine, pod: _Pod, dialect: Dialect, arguments: list[str]
) -> list[str]:
    result: list[str] = []
    split = [api.flags for api in dialect.apis if len(api.flags) == 2]
    hosts, ports = {flags[0] for flags in split}, {flags[1] for flags in split}
    for text in arguments:
        before = result[-1] if result else ""
        if plan.external and before == dialect.superlink:
            pass
        elif match := ADDRESS.fullmatch(text):
            text = f"{LOOPBACK}:{machine.port_of(pod.name, int(match[1]))}"
        elif match := SERVICE.fullmatch(text):
            target = _target_port(plan, match[1], int(match[2]))
            if target is not None:  # else a Service of the user's own
                text = f"{LOOPBACK}:{machine.port_of('superlink', target)}"
        elif before in hosts:
            text = LOOPBACK
        elif before in ports and text.isdecimal():
            text = str(machine.port_of(pod.name, int(text)))
        result.append(text)
    return result


def _target_port(plan: Plan, service: str, port: int) -> int | None:
    targets = (
        each["targetPort"]
        for found in plan.objects
        if found["kind"] == "Service" and found["metadata"]["name"] == service
        for each in found["spec"]["ports"]
        if each["port"] == port
    )
    return next(targets, None)


@dataclass
class _Mounts:
    folders: dict[str, str] = field(default_factory=dict)
    """Mount path to the path that stands for it."""
    files: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """Of the paths those that are there already."""
    key: str | None = None

    def localize(self, text: str) -> str:
        flag, equals, path = text.partition("=") if text.startswith("--") else ("", "", text)
        for mount in sorted(self.folders, key=len, reverse=True):
            if path == mount or path.startswith(f"{mount}/"):
                below(Path(self.folders[mount]), path[len(mount) :].lstrip("/"))
                return f"{flag}{equals}{self.folders[mount]}{path[len(mount) :]}"
        return text


def _mounts(plan: Plan, machine: Machine, pod: _Pod, container: Object) -> _Mounts:
    volumes = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
    variables = {each["name"]: _value(each, pod) for each in container.get("env", [])}
    result = _Mounts()
    for mount in container.get("volumeMounts", []):
        volume = volumes.get(mount["name"], {"name": mount["name"]})
        root = _volume_folder(machine, pod, volume)
        step = mount.get("subPath") or expand(mount.get("subPathExpr", ""), variables)
        path = str(below(root, step))
        result.folders[mount["mountPath"]] = path
        if (source := _source(volume)) in machine.versions:
            result.versions[source] = machine.versions[source]
        if step in machine.keys.get(source, {}):
            result.key = machine.keys[source][step]
            result.kept.add(path)
        if "hostPath" in volume:
            result.kept.add(path)
        for file, text in _config_files(plan, volume).items():
            if step in ("", file):
                result.files[str(below(root, file))] = text
    return result


def _volume_folder(machine: Machine, pod: _Pod, volume: Object) -> Path:
    if "hostPath" in volume:
        return Path(volume["hostPath"]["path"])
    if "persistentVolumeClaim" in volume:
        claim: str = volume["persistentVolumeClaim"]["claimName"]
        return below(machine.folder, "claims", claim)
    if (source := _source(volume)) in (*machine.versions, *machine.keys):
        return below(trust_folder(machine.folder), source)
    return own_volume(machine.folder, pod.name, volume["name"])


def _source(volume: Object) -> str:
    """The Secret or ConfigMap that a volume shows, by name."""
    secret, config_map = volume.get("secret", {}), volume.get("configMap", {})
    name: str = secret.get("secretName") or config_map.get("name") or ""
    return name


def _config_files(plan: Plan, volume: Object) -> dict[str, str]:
    name = _source(volume)
    for each in plan.objects:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == name:
            files: dict[str, str] = each["data"]
            return files
    return {}
