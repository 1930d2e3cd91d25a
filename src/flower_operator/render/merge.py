"""Strategic merge, as the API server does it: maps by key, named lists by name.

Which lists merge, and by which key, is in Kubernetes' published schema; other lists and
plain values are replaced.
"""

from typing import Any

from ..api.kubernetes import LEAVES, definitions

Object = dict[str, Any]


def merge(kind: str, base: Object, patch: Object) -> Object:
    """`base`, an object of this Kubernetes type, with `patch` laid over it."""
    if not patch:
        return base
    properties = definitions()[kind].get("properties", {})
    result = dict(base)
    for field, value in patch.items():
        result[field] = (
            _merge_field(properties[field], base[field], value) if field in base else value
        )
    return result


def merge_list(kind: str, key: str, base: list[Object], patch: list[Object]) -> list[Object]:
    """Two lists of one type by key: the base's order, then what only the patch has."""
    if not base:
        return patch
    patches = {item[key]: item for item in patch}
    merged = [merge(kind, item, patches.pop(item.get(key), {})) for item in base]
    return merged + list(patches.values())


def overlay(key: str, *layers: list[Object]) -> list[Object]:
    """Lists of named things, a later layer's item in the place of an earlier one's."""
    result: dict[Any, Object] = {}
    for layer in layers:
        for item in layer:
            result[item[key]] = item
    return list(result.values())


def _merge_field(schema: Object, base: Any, patch: Any) -> Any:
    if "$ref" in schema and schema["$ref"] not in LEAVES:
        atomic = definitions()[schema["$ref"]].get("x-kubernetes-map-type") == "atomic"
        return patch if atomic else merge(schema["$ref"], base, patch)
    strategy = schema.get("x-kubernetes-patch-strategy", "")
    if "merge" in strategy and "$ref" in schema.get("items", {}):
        key = schema["x-kubernetes-patch-merge-key"]
        if "retainKeys" in strategy:  # a volume is of one kind: the patch's replaces the base's
            return overlay(key, base, patch)
        return merge_list(schema["items"]["$ref"], key, base, patch)
    if "additionalProperties" in schema:
        return base | patch
    return patch
