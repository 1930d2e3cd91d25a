"""Write the part of Kubernetes' published schema that a Federation uses.

    python scripts/kubernetes_schema.py < openapi-v2.json

The input is what an API server answers at /openapi/v2. Descriptions are left out: the
result is data to validate, merge and generate the CRD from, not documentation.
"""

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src/flower_operator/api/kubernetes.json"
PREFIXES = (
    "io.k8s.api.core.v1.",
    "io.k8s.api.networking.v1.",
    "io.k8s.apimachinery.pkg.apis.meta.v1.",
)
ROOTS = (
    "PodTemplateSpec",
    "PersistentVolumeClaimSpec",
    "ObjectMeta",
    "NetworkPolicyEgressRule",
    "NetworkPolicyPeer",
)
KEPT = {
    "type",
    "format",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "$ref",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
}


def short(name: str) -> str:
    return name.rpartition(".")[2]


def trim(node: dict[str, Any]) -> dict[str, Any]:
    """One schema node with the kept keywords only and references by short name."""
    result: dict[str, Any] = {}
    for keyword in sorted(KEPT & node.keys()):
        value = node[keyword]
        if keyword == "properties":
            value = {name: trim(child) for name, child in sorted(value.items())}
        elif keyword in ("items", "additionalProperties"):
            value = trim(value)
        elif keyword == "$ref":
            value = short(value)
        result[keyword] = value
    return result


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for child in node.values() for found in references(child)]
    return []


def collect(definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions reachable from ROOTS, by short name."""
    by_short = {
        short(name): definition
        for name, definition in definitions.items()
        if name.startswith(PREFIXES) or name.endswith((".Quantity", ".IntOrString"))
    }
    kept: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = trim(by_short[name])
            waiting += references(kept[name])
    return dict(sorted(kept.items()))


def dumps(definitions: dict[str, Any]) -> str:
    """One definition a line: small, and a change shows as the line it is."""
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in definitions.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    TARGET.write_text(dumps(collect(json.load(sys.stdin)["definitions"])))
