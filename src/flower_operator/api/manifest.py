"""From a document to a Federation: parse, default, validate."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import ValidationError

from .crd import federation_schema
from .kubernetes import openapi
from .limits import MAX_SPEC_BYTES
from .problems import InvalidFederation, Path, Problem, explain, join
from .rules import RULES
from .types import GROUP, KIND, VERSION, Federation

Schema = dict[str, Any]

LONGEST_NUMBER = 4096
"""In bits. Python writes out no number of many more, and so could not say what is wrong."""


def is_federation(document: Any) -> bool:
    """Whether a document is meant as a Federation, by its kind or by its group."""
    if not isinstance(document, dict):
        return False
    group = str(document.get("apiVersion")).partition("/")[0]
    return str(document.get("kind")).casefold() == KIND.casefold() or group == GROUP


def parse(document: Any) -> Federation:
    """The Federation that a document describes, or InvalidFederation with every fault."""
    if isinstance(document, dict):  # the API server takes no status from a user either
        document = {key: value for key, value in document.items() if key != "status"}
    return _validated(_without_nulls(document, _described()))


def parse_stored(metadata: dict[str, Any], spec: Any) -> Federation:
    """The same for what the API server has, who keeps no nulls."""
    api_version = f"{GROUP}/{VERSION}"
    return _validated({"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": spec})


def _validated(document: Any) -> Federation:
    try:
        federation = Federation.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise InvalidFederation(explain(each, _fields_beside) for each in details) from None
    # The API server fills in defaults, so they do not count.
    size = len(federation.spec.model_dump_json(by_alias=True, exclude_defaults=True).encode())
    if size > MAX_SPEC_BYTES:
        raise InvalidFederation([too_large(size, MAX_SPEC_BYTES)])
    problems = [
        Problem(join(path), rule.message) for rule in RULES for path in rule.violations(federation)
    ]
    if problems:
        raise InvalidFederation(problems)
    return federation


def too_large(size: int, limit: int) -> Problem:
    return Problem("spec", f"has {size} bytes as JSON, and {limit} is the most it may have")


def _without_nulls(value: Any, schema: Schema) -> Any:
    """A known field that is null is a field that is not there: so says the API server."""
    if isinstance(value, dict):
        result = {}
        for key, child in value.items():
            own = _child(schema, key)
            if child is not None or own is None:
                result[key] = _without_nulls(child, own or {})
        return result
    if isinstance(value, list):
        return [_without_nulls(child, schema.get("items", {})) for child in value]
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER:
        raise InvalidFederation([Problem("", "holds a number of thousands of digits")])
    return value


def _child(schema: Schema, key: str) -> Schema | None:
    """The schema of a mapping's field, by name or as any field of that mapping."""
    field: Schema | None = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return field


def _fields_beside(path: Path) -> Iterable[str]:
    schema = _described()
    for step in path[:-1]:
        item = schema.get("items") if isinstance(step, int) else _child(schema, step)
        schema = item or {}
    fields: dict[str, Any] = schema.get("properties", {})
    return fields


@cache
def _described() -> Schema:
    schema = federation_schema()
    schema["properties"]["metadata"] = openapi("FederationMetadata")
    return schema
