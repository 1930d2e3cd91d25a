"""Label and field selectors."""

from collections.abc import Mapping
from typing import Any


def matches(body: Mapping[str, Any], parameters: Mapping[str, str]) -> bool:
    """Whether an object is selected by the `labelSelector` and `fieldSelector` of a request."""
    labels = body["metadata"].get("labels") or {}
    by_label = parameters.get("labelSelector", "")
    by_field = parameters.get("fieldSelector", "")
    return all(_holds(term, labels.get) for term in by_label.split(",") if term) and all(
        _holds(term, lambda path: _field(body, path)) for term in by_field.split(",") if term
    )


def _holds(term: str, read: Any) -> bool:
    """One of `a=b`, `a!=b`, `a` and `!a`."""
    if "!=" in term:
        name, _, value = term.partition("!=")
        return bool(read(name) != value)
    if "=" in term:
        name, _, value = term.partition("=")
        return bool(read(name) == value)
    if term.startswith("!"):
        return read(term[1:]) is None
    return read(term) is not None


def _field(body: Mapping[str, Any], path: str) -> Any:
    value: Any = body
    for name in path.split("."):
        value = value.get(name, "") if isinstance(value, Mapping) else ""
    return value
