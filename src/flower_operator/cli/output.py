"""Objects as YAML and JSON text."""

import json
from collections.abc import Iterable
from typing import Any

import yaml

Object = dict[str, Any]
Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(Base):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Flow(dict[str, Any]):
    """A mapping to be written on one line."""


def _represent_text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_flow(dumper: Any, mapping: _Flow) -> Any:
    return dumper.represent_mapping("tag:yaml.org,2002:map", mapping.items(), flow_style=True)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(_Flow, _represent_flow)


def to_yaml(objects: Iterable[Any]) -> str:
    return "---\n".join(
        yaml.dump(each, Dumper=_Dumper, sort_keys=False, width=4096, allow_unicode=True)
        for each in objects
    )


def to_json(objects: Iterable[Any]) -> str:
    """A List, so that several objects are one document for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2) + "\n"


def crd_to_yaml(crd: Object) -> str:
    """The fields of a Federation as a block, each of Kubernetes' own types on one line:
    written out they would be over the 262,144 bytes that `kubectl apply` can store."""
    return to_yaml([_fold(crd)])


def _fold(node: Any) -> Any:
    if isinstance(node, list):
        return [_fold(child) for child in node]
    if not isinstance(node, dict):
        return node
    if "type" in node and not _described(node):
        return _Flow(node)
    return {key: _fold(child) for key, child in node.items()}


def _described(node: Any) -> bool:
    """Whether a schema is of our own writing: those have descriptions."""
    if isinstance(node, list):
        return any(map(_described, node))
    if isinstance(node, dict):
        return "description" in node or any(map(_described, node.values()))
    return False
