"""From a document to a Federation: parse, default, validate."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import ValidationError

from .crd import federation_schema
from .kubernetes import openapi
from .problems import InvalidFederation, Path, Problem, explain, join
from .rules import RULES
from .types import GROUP, KIND, Federation


def is_federation(document: Any) -> bool:
    """Whether a document says that it is one of our Federations, of whatever version."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        return False
    return str(document.get("apiVersion", GROUP)).startswith(GROUP)


def parse(document: Any) -> Federation:
    """The Federation that a document describes, or InvalidFederation with every fault."""
    if isinstance(document, dict):  # the API server takes no status from a user either
        document = {key: value for key, value in document.items() if key != "status"}
    try:
        federation = Federation.model_validate(_without_nulls(document))
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise InvalidFederation(explain(each, _fields_beside) for each in details) from None
    problems = [
        Problem(join(path), rule.message) for rule in RULES for path in rule.violations(federation)
    ]
    if problems:
        raise InvalidFederation(problems)
    return federation


def _without_nulls(value: Any) -> Any:
    """A field that is null is a field that is not there: so says the API server."""
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value]
    return value


def _fields_beside(path: Path) -> Iterable[str]:
    schema = _described()
    for step in path[:-1]:
        if isinstance(step, int):
            schema = schema.get("items", {})
        else:
            values = schema.get("additionalProperties", {})
            schema = schema.get("properties", {}).get(step, values)
    fields: dict[str, Any] = schema.get("properties", {})
    return fields


@cache
def _described() -> dict[str, Any]:
    schema = federation_schema()
    schema["properties"]["metadata"] = openapi("FederationMetadata")
    return schema
