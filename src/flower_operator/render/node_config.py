"""A pool's node config as `--node-config` and what stands behind it in the pod."""

import difflib
import hashlib
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from ..api.problems import Problem, join
from ..api.types import Federation, Pool
from ..flower import node_config as toml
from .facts import Facts, Numbers

Object = dict[str, Any]

INDEX = "FLOWER_INDEX"
NODE = "FLOWER_NODE_NAME"
STATEFUL_ONLY = {"index", "replicas", "partition", "partitions"}
KNOWN = STATEFUL_ONLY | {"pool", "node", "cluster"}
INTEGERS = ("index", "partition", "partitions")

FOLDER = "/etc/flower/node-config"
VOLUME = "flower-node-config"
# A ConfigMap holds a mebibyte in all.
MOST_BYTES = 1_000_000
MAX_FILES_BYTES = 4_000_000
"""Of the files of all pools of a Federation."""

ENVIRONMENT: dict[str, Object] = {
    "index": {
        "name": INDEX,
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}},
    },
    "node": {"name": NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
}


POD_UID: Object = {
    "name": "FLOWER_POD_UID",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}},
}
"""What a pod on another cluster has its key by: there each pod has one of its own."""
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


def node_config_of(federation: Federation, position: int, facts: Facts) -> NodeConfig:
    """The node config of the pool at this position; `node_config_problems` has passed."""
    pool = federation.spec.supernodes.pools[position]
    if not pool.node_config:
        return NodeConfig()
    if _needs_files(federation, position, facts):
        files = {
            f"{index}.toml": _file(federation, position, index, facts)
            for index in range(pool.replicas or 0)
        }
        return NodeConfig(f"{FOLDER}/node.toml", [ENVIRONMENT["index"]], files)
    fixed, late = _values(federation, pool, facts)
    late["node"] = f"$({NODE})"
    if federation.spec.mode == "StatefulSet":
        late["index"] = f"$({INDEX})"
        late["partition"] = f"$({INDEX})"
        if facts.site and pool.replicas:
            late["partition"] = _number(federation, position, 0, facts)
    pairs = toml.items(pool.node_config, fixed, late, integers=INTEGERS, literal=_escape)
    used = _placeholders(pool)
    if "partition" in used and late["partition"] == late["index"]:
        used.add("index")
    env = [variable for name, variable in ENVIRONMENT.items() if name in used]
    return NodeConfig(" ".join(pairs), env)


def partitions_of(federation: Federation, position: int, facts: Facts) -> str | None:
    """The partitions that a pool's files speak of, where a hash of the files cannot tell."""
    if facts.site is None or facts.numbers is None:
        return None
    if not _needs_files(federation, position, facts):
        return None
    numbers = _given(federation, position, facts.numbers)
    return f"{','.join(numbers)} of {facts.numbers.total}"


def _needs_files(federation: Federation, position: int, facts: Facts) -> bool:
    """Kubernetes can put an ordinal into an argument but cannot add to it, so where a partition
    is another number than the ordinal each pod mounts the file of its own ordinal."""
    if "partition" not in _placeholders(federation.spec.supernodes.pools[position]):
        return False
    if facts.numbers is None:
        return _offset(federation, position) > 0
    numbers = _given(federation, position, facts.numbers)
    if facts.site and len(numbers) == 1:
        return False
    return any(number != str(index) for index, number in enumerate(numbers))


def _file(federation: Federation, position: int, index: int, facts: Facts) -> str:
    pool = federation.spec.supernodes.pools[position]
    fixed, late = _values(federation, pool, facts)
    fixed["index"] = str(index)
    partition = _number(federation, position, index, facts)
    (late if facts.site else fixed)["partition"] = partition
    return "\n".join(toml.items(pool.node_config, fixed, late, integers=INTEGERS)) + "\n"


def _values(
    federation: Federation, pool: Pool, facts: Facts
) -> tuple[dict[str, str], dict[str, str]]:
    """Of placeholders: what is known now, and what another cluster's template puts in."""
    fixed, late = {"pool": pool.name}, {}
    if facts.site:
        late["cluster"] = facts.site.cluster
    if federation.spec.mode == "StatefulSet":
        fixed["replicas"] = str(pool.replicas)
        (late if facts.site else fixed)["partitions"] = _total(federation, facts)
    return fixed, late


def _number(federation: Federation, position: int, index: int, facts: Facts) -> str:
    if facts.numbers:
        return _given(federation, position, facts.numbers)[index]
    return str(_offset(federation, position) + index)


def _given(federation: Federation, position: int, numbers: Numbers) -> tuple[str, ...]:
    pool = federation.spec.supernodes.pools[position]
    return dict(numbers.of_pools).get(pool.name, ())


def _total(federation: Federation, facts: Facts) -> str:
    if facts.numbers:
        return facts.numbers.total
    return str(_offset(federation, len(federation.spec.supernodes.pools)))


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
    unavailable = _unavailable(federation, pool)
    for key, value in pool.node_config.items():
        for name in sorted(toml.placeholders(value)):
            if reason := unavailable.get(name) or _unknown(name, KNOWN - unavailable.keys()):
                problems.append(Problem(join((*path, key)), f"{{{name}}} {reason}"))
    if (
        federation.spec.mode == "StatefulSet"
        and not problems
        and _may_need_files(federation, position)
    ):
        if "node" in _placeholders(pool):
            reason = "{partition} and {node} cannot stand together in a pool behind the first"
            problems.append(Problem(join(path), reason))
        if files_bytes(federation, position) > MOST_BYTES:
            reason = f"is too long for {pool.replicas} replicas with a {{partition}} each"
            problems.append(Problem(join(path), reason))
    return problems


def files_bytes(federation: Federation, position: int) -> int:
    """How much the files of a pool may come to, without making them; or what they are made of,
    where that is more: a placeholder may be longer than what comes in its place."""
    if not _may_need_files(federation, position):
        return 0
    pool = federation.spec.supernodes.pools[position]
    replicas = pool.replicas or 1
    longest = len(_file(federation, position, replicas - 1, Facts()).encode())
    source = sum(len(key) + len(value) for key, value in pool.node_config.items())
    return max(longest, source) * replicas


def _unavailable(federation: Federation, pool: Pool) -> dict[str, str]:
    """Placeholders that this pool has no value for, and why."""
    found = {}
    if federation.spec.mode == "DaemonSet":
        reason = "is not to be had in DaemonSet mode; use {node} or {pool}"
        found = dict.fromkeys(STATEFUL_ONLY, reason)
    if pool.placement is None:
        found["cluster"] = "is to be had only in pools with placement"
    return found


def _unknown(name: str, known: Set[str]) -> str | None:
    if name in known:
        return None
    remedy = f"rite {{{{{name}}}}} for the text {{{name}}}"
    if near := difflib.get_close_matches(name.lower(), sorted(known), n=1):
        return f"is not a placeholder; did you mean {{{near[0]}}}? W{remedy}"
    names = ", ".join(f"{{{each}}}" for each in sorted(known))
    return f"is not a placeholder; there are {names}; w{remedy}"


def _may_need_files(federation: Federation, position: int) -> bool:
    """Now, or with other numbers, which a Federation of several clusters may come to."""
    pools = federation.spec.supernodes.pools
    if "partition" not in _placeholders(pools[position]):
        return False
    if pools[position].placement:
        return (pools[position].replicas or 0) > 1
    placed = any(pool.placement for pool in pools)
    return placed or _offset(federation, position) > 0


def _placeholders(pool: Pool) -> set[str]:
    return {name for value in pool.node_config.values() for name in toml.placeholders(value)}


def _offset(federation: Federation, position: int) -> int:
    """The partition of a pool's first SuperNode: pools are numbered one after the other."""
    return sum(pool.replicas or 0 for pool in federation.spec.supernodes.pools[:position])


def _escape(text: str) -> str:
    """Keep Kubernetes from taking a user's text for a reference to a variable."""
    return text.replace("$", "$$")
