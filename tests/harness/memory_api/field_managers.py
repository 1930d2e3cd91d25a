"""Field ownership of server-side apply: who owns which fields, merging, conflicts, removal.

A set of fields is a set of paths, and each path is a tuple of the path elements of `fieldsV1`:
`f:name` for a field, `k:{...}` for a list item by its keys, `v:...` for a member of a set, `.` for
the existence of a list item.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Path = tuple[str, ...]
Fields = frozenset[Path]

MISSING = object()

# Metadata that the API server sets; nobody owns it.
_SERVER_METADATA = {
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
}
_LIST_KEYS = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "schedulingGates": ("name",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_KEY_DEFAULTS = {"protocol": "TCP"}
_ATOMIC_MAPS = {
    "configMapKeyRef",
    "fieldRef",
    "labelSelector",
    "nodeSelector",
    "resourceFieldRef",
    "roleRef",
    "secretKeyRef",
    "selector",
}


@dataclass(frozen=True)
class Manager:
    """One entry of `managedFields`."""

    name: str
    operation: str
    subresource: str = ""


class ApplyConflict(Exception):
    """Another manager owns fields that an apply would change."""


def managers_of(body: Mapping[str, Any]) -> dict[Manager, Fields]:
    """The owners of an object's fields, as its `managedFields` list them."""
    return {
        Manager(entry["manager"], entry["operation"], entry.get("subresource", "")): frozenset(
            _paths(entry["fieldsV1"])
        )
        for entry in body["metadata"].get("managedFields") or []
    }


def managed_fields(managers: Mapping[Manager, Fields], api_version: str, now: str) -> list[Object]:
    return [
        {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": api_version,
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": _nested(fields),
            **({"subresource": manager.subresource} if manager.subresource else {}),
        }
        for manager, fields in managers.items()
        if fields
    ]


def apply(
    live: Object, applied: Object, managers: Mapping[Manager, Fields], manager: Manager, force: bool
) -> tuple[Object, dict[Manager, Fields]]:
    """Server-side apply: the merged object and its owners. Raises ApplyConflict."""
    kind = applied["kind"]
    wanted = frozenset(leaves(applied))
    others = {other: fields for other, fields in managers.items() if other != manager}
    merged = _merge(kind, live, applied, ())
    lapsed = managers.get(manager, frozenset()) - wanted - frozenset().union(*others.values())
    _remove(kind, merged, lapsed, others)
    changed = _changed(live, merged)
    conflicts = {other.name for other, fields in others.items() if fields & changed & wanted}
    if conflicts and not force:
        raise ApplyConflict(f"conflicts with {', '.join(sorted(conflicts))}")
    existing = frozenset(leaves(merged))
    owners = {other: (fields - changed) & existing for other, fields in others.items()}
    return merged, {**owners, manager: wanted}


def update(
    live: Object, new: Object, managers: Mapping[Manager, Fields], manager: Manager
) -> dict[Manager, Fields]:
    """The owners after a write that is no apply: a changed field belongs to its writer."""
    # Most writes change one part of an object, and the leaves of a pod template are many.
    parts = {name for name in live.keys() | new.keys() if live.get(name) != new.get(name)}
    before = leaves({"kind": live["kind"], **{name: live[name] for name in parts & live.keys()}})
    after = leaves({"kind": new["kind"], **{name: new[name] for name in parts & new.keys()}})
    changed = frozenset(path for path, value in after.items() if before.get(path, MISSING) != value)
    gone = frozenset(before) - frozenset(after)
    owners = {other: fields - changed - gone for other, fields in managers.items()}
    owners[manager] = owners.get(manager, frozenset()) | changed
    return owners


def leaves(body: Mapping[str, Any]) -> dict[Path, Any]:
    """Every field of an object that can have an owner, with its value."""
    found: dict[Path, Any] = {}
    for name, value in body.items():
        if name == "metadata":
            tracked = {key: value[key] for key in value if key not in _SERVER_METADATA}
            if tracked:
                _collect(body["kind"], tracked, ("f:metadata",), found)
        elif name not in ("apiVersion", "kind"):
            _collect(body["kind"], value, (f"f:{name}",), found)
    return found


def _collect(kind: str, value: Any, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and not _is_atomic(kind, path):
        for name, member in value.items():
            _collect(kind, member, (*path, f"f:{name}"), found)
    elif isinstance(value, list) and value and (keys := _list_keys(kind, path, value)):
        for item in value:
            item_path = (*path, _item_element(item, keys))
            found[(*item_path, ".")] = True
            _collect(kind, item, item_path, found)
    elif isinstance(value, list) and path[-1] == "f:finalizers":
        for member in value:
            found[(*path, f"v:{json.dumps(member)}")] = True
    elif value is not None:
        found[path] = value


def _is_atomic(kind: str, path: Path) -> bool:
    name = path[-1].removeprefix("f:")
    in_reference = path[-1].startswith("k:") and path[-2] == "f:ownerReferences"
    return in_reference or name in _ATOMIC_MAPS or (kind == "NetworkPolicy" and name == "spec")


def _list_keys(kind: str, path: Path, items: list[Any]) -> tuple[str, ...]:
    """The keys by which a list's items are merged; none: the list is replaced as a whole."""
    name = path[-1].removeprefix("f:")
    keys: tuple[str, ...] = _LIST_KEYS.get(name, ())
    if name == "ports":
        keys = ("port", "protocol") if kind == "Service" else ("containerPort", "protocol")
    complete = all(
        isinstance(item, dict) and all(key in item or key in _KEY_DEFAULTS for key in keys)
        for item in items
    )
    return keys if complete else ()


def _item_element(item: Mapping[str, Any], keys: Iterable[str]) -> str:
    values = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in keys}
    return f"k:{json.dumps(values, separators=(',', ':'), sort_keys=True)}"


def _merge(kind: str, live: Any, applied: Any, path: Path) -> Any:
    if (
        isinstance(live, dict)
        and isinstance(applied, dict)
        and not (path and _is_atomic(kind, path))
    ):
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = _merge(kind, live.get(name), value, (*path, f"f:{name}"))
        return merged
    if isinstance(live, list) and isinstance(applied, list):
        if path[-1] == "f:finalizers":
            return [*live, *(member for member in applied if member not in live)]
        if keys := _list_keys(kind, path, [*live, *applied]):
            return _merge_items(kind, live, applied, path, keys)
    return _copy(applied)


def _merge_items(
    kind: str, live: list[Any], applied: list[Any], path: Path, keys: tuple[str, ...]
) -> list[Any]:
    """The applied items in their order, then those that only others own."""
    existing = {_item_element(item, keys): item for item in live}
    merged = []
    for item in applied:
        element = _item_element(item, keys)
        merged.append(_merge(kind, existing.pop(element, None), item, (*path, element)))
    return [*merged, *existing.values()]


def _remove(
    kind: str, body: Object, lapsed: Iterable[Path], others: Mapping[Manager, Fields]
) -> None:
    """Take fields out that their last owner no longer applies: whole list items first."""
    owned = {
        path[:length]
        for fields in others.values()
        for path in fields
        for length in range(1, len(path) + 1)
    }
    for path in sorted(lapsed, key=lambda path: (path[-1] != ".", len(path))):
        if path[-1] == ".":
            if path[:-1] not in owned:
                _delete(kind, body, path[:-1], ())
        elif not _is_list_key(path):
            _delete(kind, body, path, ())


def _is_list_key(path: Path) -> bool:
    """Whether a field is part of the key of its list item."""
    item, name = (*path, "")[-3], path[-1].removeprefix("f:")
    return item.startswith("k:") and name in json.loads(item[2:])


def _delete(kind: str, holder: Any, path: Path, above: Path) -> None:
    element, rest, here = path[0], path[1:], (*above, path[0])
    if isinstance(holder, list):
        _delete_item(kind, holder, path, above)
        return
    name = element.removeprefix("f:")
    if not isinstance(holder, dict) or name not in holder:
        return
    if rest:
        holder[name] = _copy(holder[name])
        _delete(kind, holder[name], rest, here)
        if holder[name] not in ({}, []):
            return
    del holder[name]


def _delete_item(kind: str, items: list[Any], path: Path, above: Path) -> None:
    element, rest = path[0], path[1:]
    if element.startswith("v:"):
        items[:] = [item for item in items if item != json.loads(element[2:])]
        return
    keys = _list_keys(kind, above, items)
    for item in [item for item in items if keys and _item_element(item, keys) == element]:
        if rest:
            _delete(kind, item, rest, (*above, element))
        else:
            items.remove(item)


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Fields:
    before = leaves(old)
    return frozenset(
        path for path, value in leaves(new).items() if before.get(path, MISSING) != value
    )


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(member) for name, member in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _paths(fields: Mapping[str, Any], above: Path = ()) -> Iterable[Path]:
    for element, members in fields.items():
        if members:
            yield from _paths(members, (*above, element))
        else:
            yield (*above, element)


def _nested(fields: Fields) -> Object:
    nested: Object = {}
    for path in sorted(fields):
        holder = nested
        for element in path:
            holder = holder.setdefault(element, {})
    return nested
