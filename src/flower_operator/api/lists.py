"""Lists whose items are told apart by a key, as Kubernetes' map-like lists are."""

from collections.abc import Callable
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class Keyed:
    """Annotates a list in which no two items may have the same values of these keys."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return unique_by(handler(source), self.keys, (None,) * len(self.keys))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        extensions = {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(self.keys),
        }
        return handler(schema) | extensions


def unique_by(items: CoreSchema, keys: tuple[str, ...], defaults: tuple[Any, ...]) -> CoreSchema:
    """`items` (the schema of a list), refusing two entries with the same key."""
    return core_schema.no_info_after_validator_function(_check(keys, defaults), items)


def _check(keys: tuple[str, ...], defaults: tuple[Any, ...]) -> Callable[[list[Any]], list[Any]]:
    def check(items: list[Any]) -> list[Any]:
        seen = set()
        for item in items:
            fields = item if isinstance(item, dict) else item.__dict__
            key = tuple(fields.get(k, d) for k, d in zip(keys, defaults, strict=True))
            if key in seen:
                raise PydanticCustomError(
                    "duplicate",
                    "two entries have the same {keys}: {key}",
                    {"keys": " and ".join(keys), "key": ", ".join(map(str, key))},
                )
            seen.add(key)
        return items

    return check
