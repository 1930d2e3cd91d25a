"""Kubernetes' own types, compiled from the schema that its API server publishes.

Values of these types stay plain dictionaries: what a user wrote is what is rendered.
`kubernetes.json` is written by scripts/kubernetes_schema.py.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, core_schema

from .limits import MAX_ITEMS, MAX_LABEL, MAX_NUMBER, MAX_STRING
from .lists import unique_by

Schema = dict[str, Any]

QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
SHARE = r"^((100|[0-9]{1,2})%|[0-9]+)$"
INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "maxLength": MAX_NUMBER,
    "x-kubernetes-int-or-string": True,
}
LEAVES: dict[str, Schema] = {
    "Quantity": {**INT_OR_STRING, "pattern": QUANTITY},
    "Share": {**INT_OR_STRING, "pattern": SHARE, "minimum": 0},
    "IntOrString": INT_OR_STRING,
    "Time": {"type": "string", "format": "date-time", "maxLength": MAX_NUMBER},
    "FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
# The API server's own limit is on all annotations together; kubectl keeps a whole manifest in one.
OWN_METADATA: Schema = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": 262_144},
    "maxProperties": 10_000,
}
# A key of a map-like list must be there or have a default; the API server fills in these.
MAP_KEY_DEFAULTS = {"protocol": "TCP", "name": ""}
LIMITS = {
    "string": ("maxLength", MAX_STRING),
    "array": ("maxItems", MAX_ITEMS),
    "object": ("maxProperties", MAX_ITEMS),
}
"""By type: the keyword and what it says where a definition says nothing else."""
INTEGER_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


@cache
def definitions() -> dict[str, Schema]:
    """Every definition by its short name, cut to what a Federation may say."""
    text = files(__package__).joinpath("kubernetes.json").read_text(encoding="utf-8")
    known: dict[str, Schema] = json.loads(text)
    metadata = known["ObjectMeta"]["properties"]
    labelled = {key: metadata[key] for key in ("annotations", "labels")}
    known["PodMetadata"] = {"type": "object", "properties": labelled}
    known["ClaimMetadata"] = {
        "type": "object",
        "properties": {
            **labelled,
            "name": {"type": "string", "minLength": 1, "maxLength": MAX_LABEL},
        },
        "required": ["name"],
    }
    known["VolumeClaimTemplate"] = {
        "type": "object",
        "properties": {
            "metadata": {"$ref": "ClaimMetadata"},
            "spec": {"$ref": "PersistentVolumeClaimSpec"},
        },
        "required": ["metadata", "spec"],
    }
    known["FederationMetadata"] = {
        "type": "object",
        "properties": metadata | dict.fromkeys(labelled, OWN_METADATA),
        "required": ["name"],
    }
    known["Volume"]["properties"]["name"] |= {"maxLength": MAX_LABEL}
    for template in ("PodTemplateSpec", "PersistentVolumeClaimTemplate"):
        known[template]["properties"]["metadata"] = {"$ref": "PodMetadata"}
    # A podTemplate adds to the operator's containers, so it need not bring any;
    # Kubernetes allows ephemeral containers in no template.
    pod = known["PodSpec"]
    pod["required"] = [name for name in pod["required"] if name != "containers"]
    del pod["properties"]["ephemeralContainers"]
    for definition in list(known.values()):
        for field in definition.get("properties", {}).values():
            _give_map_keys_defaults(known, field)
    return known


def _give_map_keys_defaults(known: dict[str, Schema], field: Schema) -> None:
    if field.get("x-kubernetes-list-type") != "map":
        return
    item = known[field["items"]["$ref"]]
    for key in field["x-kubernetes-list-map-keys"]:
        if key not in item.get("required", ()):
            item["properties"][key] = {**item["properties"][key], "default": MAP_KEY_DEFAULTS[key]}


def in_order(mapping: dict[str, Any]) -> dict[str, Any]:
    """Equal mappings in equal order, so that equal manifests render to equal bytes."""
    return dict(sorted(mapping.items()))


@dataclass(frozen=True)
class KubernetesType:
    """Annotates a field whose value is of a type that Kubernetes defines."""

    name: str

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_validator(self.name).validate_python)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return openapi(self.name)


def openapi(name: str) -> Schema:
    """The OpenAPI schema of a type as a CRD needs it: no references, no descriptions."""
    return _expand({"$ref": name})


def _expand(node: Schema) -> Schema:
    if "$ref" in node:
        name = node["$ref"]
        return LEAVES[name] if name in LEAVES else _expand(definitions()[name])
    result = {key: value for key, value in node.items() if not key.startswith("x-kubernetes-patch")}
    if "properties" in node:
        result["properties"] = {key: _expand(child) for key, child in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in node:
            result[key] = _expand(node[key])
    if node["type"] in LIMITS and "properties" not in node:
        keyword, limit = _limit(node)
        result[keyword] = limit
    if node.get("format") == "int32":  # a name only to the API server, which checks no range by it
        result["minimum"], result["maximum"] = INTEGER_RANGES["int32"]
    if not result.get("required", True):
        del result["required"]
    return result


def _limit(node: Schema) -> tuple[str, int]:
    keyword, usual = LIMITS[node["type"]]
    return keyword, node.get(keyword, usual)


def _reference(name: str) -> str:
    return f"kubernetes.{name}"


@cache
def _reachable(name: str) -> frozenset[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in found and current not in LEAVES:
            found.add(current)
            waiting += _references(definitions()[current])
    return frozenset(found)


def _references(node: Schema) -> list[str]:
    own = [node["$ref"]] if "$ref" in node else []
    children = list(node.get("properties", {}).values())
    children += [node[key] for key in ("items", "additionalProperties") if key in node]
    return own + [name for child in children for name in _references(child)]


@cache
def _validator(name: str) -> SchemaValidator:
    if name in LEAVES:
        return SchemaValidator(_compile_leaf(name))
    return SchemaValidator(
        core_schema.definitions_schema(
            core_schema.definition_reference_schema(_reference(name)),
            [_compile_definition(each) for each in sorted(_reachable(name))],
        )
    )


@cache
def _compile_definition(name: str) -> CoreSchema:
    definition = definitions()[name]
    required = definition.get("required", ())
    return core_schema.typed_dict_schema(
        {
            key: core_schema.typed_dict_field(_compile(child), required=key in required)
            for key, child in definition.get("properties", {}).items()
        },
        ref=_reference(name),
        extra_behavior="forbid",
    )


def _compile(node: Schema) -> CoreSchema:
    if "$ref" in node:
        name = node["$ref"]
        if name in LEAVES:
            return _compile_leaf(name)
        return core_schema.definition_reference_schema(_reference(name))
    match node["type"]:
        case "string":
            return core_schema.str_schema(
                strict=True, min_length=node.get("minLength"), max_length=_limit(node)[1]
            )
        case "boolean":
            return core_schema.bool_schema(strict=True)
        case "integer":
            low, high = INTEGER_RANGES[node["format"]]
            return core_schema.int_schema(strict=True, ge=low, le=high)
        case "array":
            items = core_schema.list_schema(
                _compile(node["items"]), strict=True, max_length=_limit(node)[1]
            )
            keys = node.get("x-kubernetes-list-map-keys", ())
            if not keys:
                return items
            properties = definitions()[node["items"]["$ref"]]["properties"]
            defaults = (properties[key].get("default") for key in keys)
            return unique_by(items, tuple(keys), tuple(defaults))
        case "object":
            values = _compile(node["additionalProperties"])
            mapping = core_schema.dict_schema(
                core_schema.str_schema(strict=True), values, max_length=_limit(node)[1]
            )
            return core_schema.no_info_after_validator_function(in_order, mapping)
    raise ValueError(f"Kubernetes' schema has a type that is not known here: {node}")


def _compile_leaf(name: str) -> CoreSchema:
    if name == "Quantity":
        return core_schema.no_info_plain_validator_function(_check_quantity)
    if name == "Share":
        return core_schema.no_info_plain_validator_function(_check_share)
    if name == "IntOrString":
        return core_schema.no_info_plain_validator_function(_check_int_or_string)
    if name == "Time":
        return core_schema.str_schema(strict=True, max_length=MAX_NUMBER)
    return core_schema.dict_schema(core_schema.str_schema(strict=True), core_schema.any_schema())


_QUANTITY = re.compile(QUANTITY)


def _check_quantity(value: object) -> object:
    if _is_integer(value) or (_is_short(value) and _QUANTITY.fullmatch(str(value))):
        return value
    raise PydanticCustomError("quantity", "must be a quantity such as 2, 500m or 1Gi")


_SHARE = re.compile(SHARE)


def _check_share(value: object) -> object:
    if _is_integer(value, 0) or (_is_short(value) and _SHARE.fullmatch(str(value))):
        return value
    raise PydanticCustomError("share", "must be a number or a share such as 25%")


def _check_int_or_string(value: object) -> object:
    if _is_integer(value) or (_is_short(value) and _is_unicode(str(value))):
        return value
    raise PydanticCustomError(
        "int_or_string", f"must be an integer or a string of {MAX_NUMBER} characters at most"
    )


def _is_integer(value: object, least: int = INTEGER_RANGES["int64"][0]) -> bool:
    """One that the API server can keep."""
    return type(value) is int and least <= value <= INTEGER_RANGES["int64"][1]


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_NUMBER


def _is_unicode(text: str) -> bool:
    """Whether JSON can carry it: YAML can write half of a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
