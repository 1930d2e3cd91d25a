"""Merge patches and JSON patches (RFC 7386 and RFC 6902), as far as clients use them."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any


class JsonPatchTestFailed(Exception):
    """A `test` operation found another value."""


def merge_patch(body: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    result = dict(body) if isinstance(body, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(body: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """`test`, `add`, `replace` and `remove` of fields. Raises JsonPatchTestFailed."""
    result = copy.deepcopy(body)
    for operation in operations:
        *parents, name = operation["path"].strip("/").split("/")
        holder = result
        for parent in parents:
            holder = holder[parent]
        match operation["op"]:
            case "test":
                if holder.get(name) != operation["value"]:
                    raise JsonPatchTestFailed(f"testing value {operation['path']} failed")
            case "add" | "replace":
                holder[name] = operation["value"]
            case "remove":
                del holder[name]
            case other:
                raise NotImplementedError(other)
    return result
