"""What was applied, written on the object itself: a hash of it and the generation it led to.

Equal hash and untouched generation mean that there is nothing to do, also after a restart.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Owner:
    """Whose child an object is: deleted with it."""

    api_version: str
    kind: str
    name: str
    uid: str


def owned(rendered: Object, owner: Owner) -> dict[str, Any]:
    """The object as a child of its owner."""
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**rendered, "metadata": {**rendered["metadata"], "ownerReferences": [reference]}}


def digest(child: Object) -> str:
    return hashlib.sha256(msgspec.json.encode(child)).hexdigest()[:16]


def mark(hash_: str, generation: int) -> str:
    """The note that goes onto an object: what was applied, and its generation from then on."""
    return f"{hash_}.{generation}"


def marked(child: Object, annotation: str, note: str) -> dict[str, Any]:
    metadata = child["metadata"]
    annotations = {**metadata.get("annotations", {}), annotation: note}
    return {**child, "metadata": {**metadata, "annotations": annotations}}


def sole_manager(entries: list[dict[str, Any]], manager: str) -> list[dict[str, Any]]:
    """Who owns which fields, changed so that one manager's apply owns all but the status."""
    fields: dict[str, Any] = {}
    others = []
    for entry in entries:
        if entry.get("subresource"):
            others.append(entry)
        else:
            fields = _union(fields, entry["fieldsV1"])
            ours = {**entry, "manager": manager, "operation": "Apply"}
    return [{**ours, "fieldsV1": fields}, *others] if fields else others


def _union(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {key: _union(one[key], other[key]) for key in one.keys() & other.keys()}
    return {**one, **other, **both}


def includes(whole: Any, part: Any) -> bool:
    """Whether everything in `part` is in `whole` too, where the server may have added more."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(
            key in whole and includes(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list) and part and isinstance(part[0], Mapping):
        return isinstance(whole, list) and all(
            any(includes(has, wanted) for has in whole) for wanted in part
        )
    return bool(whole == part)


def with_live_selector(live: Object, wanted: Object) -> dict[str, Any] | None:
    """What is wanted, with the selector of the workload that exists: it cannot be changed. None if
    it is the same, or if it would not select the pods that are wanted."""
    selector, labels = live["spec"]["selector"], selector_of(live)
    pods = wanted["spec"]["template"]["metadata"]["labels"]
    if selector != {"matchLabels": labels} or labels == selector_of(wanted):
        return None
    if not selector_of(wanted).items() <= labels.items() <= pods.items():
        return None
    return {**wanted, "spec": {**wanted["spec"], "selector": selector}}


def selector_of(workload: Object) -> dict[str, str]:
    return workload["spec"]["selector"].get("matchLabels") or {}
