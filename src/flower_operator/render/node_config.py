"""A pool's node config as `--node-config` and what stands behind it in the pod."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from ..api.problems import Problem, join
from ..api.types import Federation, Pool
from ..flower import node_config as toml

Object = dict[str, Any]

INDEX = "FLOWER_INDEX"
NODE = "FLOWER_NODE_NAME"
STATEFUL_ONLY = {"index", "replicas", "partition", "partitions"}
KNOWN = STATEFUL_ONLY | {"pool", "node"}

FOLDER = "/etc/flower/node-config"
VOLUME = "flower-node-config"
# A ConfigMap holds a mebibyte in all.
MOST_BYTES = 1_000_000

ENVIRONMENT: dict[str, Object] = {
    "index": {
        "name": INDEX,
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}},
    },
    "node": {"name": NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
}


OWN_NAME = {"StatefulSet": "index", "DaemonSet": "node"}
"""What tells the SuperNodes of a pool apart, by mode."""


@dataclass(frozen=True)
class NodeConfig:
    """What a pool's pods need for their node config."""

    argument: str | None = None
    env: list[Object] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """One file for each ordinal, where arguments alone cannot say it."""

    @property
    def hash(self) -> str:
        """Changes with the files, so that pods restart when they do."""
        return hashlib.sha256(repr(sorted(self.files.items())).encode()).hexdigest()[:16]


def node_config_of(federation: Federation, position: int) -> NodeConfig:
    """The node config of the pool at this position; `node_config_problems` has passed."""
    pool = federation.spec.supernodes.pools[position]
    if not pool.node_config:
        return NodeConfig()
    if _needs_files(federation, position):
        files = {
            f"{index}.toml": _file(federation, position, index)
            for index in range(pool.replicas or 0)
        }
        return NodeConfig(f"{FOLDER}/node.toml", [ENVIRONMENT["index"]], files)
    late = {"node": f"$({NODE})"}
    if federation.spec.mode == "StatefulSet":
        late["index"] = late["partition"] = f"$({INDEX})"
    pairs = toml.items(
        pool.node_config,
        _fixed(federation, pool),
        late,
        integers=("index", "partition"),
        literal=_escape,
    )
    needs = {"index" if name == "partition" else name for name in _placeholders(pool)}
    env = [variable for name, variable in ENVIRONMENT.items() if name in needs]
    return NodeConfig(" ".join(pairs), env)


def _needs_files(federation: Federation, position: int) -> bool:
    """Kubernetes can put an ordinal into an argument but cannot add to it, so each pod of a
    pool that begins at another partition than 0 mounts the file of its own ordinal."""
    pool = federation.spec.supernodes.pools[position]
    return "partition" in _placeholders(pool) and _offset(federation, position) > 0


def _file(federation: Federation, position: int, index: int) -> str:
    pool = federation.spec.supernodes.pools[position]
    own = {"index": str(index), "partition": str(_offset(federation, position) + index)}
    return "\n".join(toml.items(pool.node_config, _fixed(federation, pool) | own, {})) + "\n"


def _fixed(federation: Federation, pool: Pool) -> dict[str, str]:
    fixed = {"pool": pool.name}
    if federation.spec.mode == "StatefulSet":
        total = _offset(federation, len(federation.spec.supernodes.pools))
        fixed |= {"replicas": str(pool.replicas), "partitions": str(total)}
    return fixed


def config_map(metadata: Object, config: NodeConfig) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": config.files}


def volume(name: str) -> Object:
    return {"name": VOLUME, "configMap": {"name": name}}


def mount() -> Object:
    return {
        "name": VOLUME,
        "mountPath": f"{FOLDER}/node.toml",
        "subPathExpr": f"$({INDEX}).toml",
        "readOnly": True,
    }


def node_config_problems(federation: Federation, position: int) -> list[Problem]:
    """Everything that would be refused or lost on the way to the ClientApp."""
    pool = federation.spec.supernodes.pools[position]
    path = ("spec", "supernodes", "pools", position, "nodeConfig")
    problems = [
        Problem(join((*path, key)), f"the key {reason}")
        for key, reason in toml.unfit_keys(pool.node_config)
    ]
    problems += [
        Problem(join((*path, key)), f"the value {reason}")
        for key, reason in toml.unfit_values(pool.node_config)
    ]
    used = _placeholders(pool)
    if federation.spec.mode == "DaemonSet":
        for key, value in pool.node_config.items():
            for name in sorted(toml.placeholders(value) & STATEFUL_ONLY):
                problems.append(
                    Problem(
                        join((*path, key)),
                        f"{{{name}}} is not to be had in DaemonSet mode; use {{node}} or {{pool}}",
                    )
                )
    elif not problems and _needs_files(federation, position):
        if "node" in used:
            reason = "{partition} and {node} cannot stand together in a pool behind the first"
            problems.append(Problem(join(path), reason))
        last = _file(federation, position, (pool.replicas or 1) - 1)
        if len(last.encode()) * (pool.replicas or 1) > MOST_BYTES:
            reason = f"is too long for {pool.replicas} replicas with a {{partition}} each"
            problems.append(Problem(join(path), reason))
    return problems


def node_config_notices(federation: Federation, position: int) -> list[str]:
    """What looks like a placeholder and is none."""
    pool = federation.spec.supernodes.pools[position]
    path = ("spec", "supernodes", "pools", position, "nodeConfig")
    return [
        f"{join((*path, key))}: {{{name}}} is no placeholder and stays as it is; there are "
        + ", ".join(f"{{{known}}}" for known in sorted(KNOWN))
        for key, value in pool.node_config.items()
        for name in sorted(toml.placeholders(value) - KNOWN)
    ]


def _placeholders(pool: Pool) -> set[str]:
    return {name for value in pool.node_config.values() for name in toml.placeholders(value)}


def _offset(federation: Federation, position: int) -> int:
    """The partition of a pool's first SuperNode: pools are numbered one after the other."""
    return sum(pool.replicas or 0 for pool in federation.spec.supernodes.pools[:position])


def _escape(text: str) -> str:
    """Keep Kubernetes from taking a user's text for a reference to a variable."""
    return text.replace("$", "$$")
