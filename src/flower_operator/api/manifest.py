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
    try:
        federation = Federation.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise InvalidFederation(explain(each, _fields_beside) for each in details) from None
    problems = [
        Problem(join(path), rule.message) for rule in RULES for path in rule.violations(federation)
    ]
    if problems:
        raise InvalidFederation(problems)
    return federation


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
