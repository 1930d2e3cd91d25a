"""The CustomResourceDefinition of Federation, generated from the models."""

import json
from typing import Any

from .rules import ITEM, NAMES, RULES
from .types import GROUP, KIND, VERSION, Federation

Schema = dict[str, Any]

PLURAL = "federations"
# Keywords that pydantic writes and a CRD has no use for.
UNUSED = {"title", "$defs"}


def custom_resource_definition() -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["fedf"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _printer_columns(),
                    "schema": {"openAPIV3Schema": federation_schema()},
                }
            ],
        },
    }


def federation_schema() -> Schema:
    """The OpenAPI schema of a Federation, in the structural form that a CRD demands."""
    generated = Federation.model_json_schema(by_alias=True)
    schema = _structural(generated, generated["$defs"])
    # The API server types these three itself and refuses a CRD that says more of them.
    schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    schema["required"] = ["spec"]
    # The operator writes it as a whole, so the API server need not keep book of who owns which
    # field of it.
    schema["properties"]["status"]["x-kubernetes-map-type"] = "atomic"
    for where in {rule.where for rule in RULES}:
        node = schema
        for step in where:
            node = node["items"] if step == ITEM else node["properties"][step]
        node["x-kubernetes-validations"] = [_validation(where)]
    return schema


def _validation(where: tuple[str, ...]) -> Schema:
    """All rules of one place as one, which tells of each that is broken: to evaluate one costs
    the API server much before it comes to what the rule says."""
    rules = [rule for rule in RULES if rule.where == where]
    holds = " && ".join(f"({rule.cel})" for rule in rules)
    message = " + ".join(f"({rule.cel} ? '' : {_quoted(rule.message + '. ')})" for rule in rules)
    for name, meaning in reversed(NAMES.get(where, {}).items()):
        holds = f"[{meaning}].all({name}, {holds})"
        message = f"[{meaning}].map({name}, {message})[0]"
    return {"rule": holds, "messageExpression": message}


def _quoted(text: str) -> str:
    """As CEL has it, which reads what JSON says."""
    return json.dumps(text, ensure_ascii=False)


def _printer_columns() -> list[Schema]:
    return [
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
        {"name": "Isolation", "type": "string", "jsonPath": ".spec.isolationMode"},
        {"name": "Supernodes", "type": "string", "jsonPath": ".status.supernodes"},
        {
            "name": "Ready",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def _structural(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """One node without references, titles, `const` and the `null` of optional fields."""
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = target | {key: value for key, value in node.items() if key != "$ref"}
    alternatives = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    if len(alternatives) == 1:
        rest = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
        return _structural(alternatives[0] | rest, definitions)
    result = {key: value for key, value in node.items() if key not in UNUSED}
    if "const" in result:  # a choice of one
        result["enum"] = [result.pop("const")]
    if result.get("additionalProperties") is False:  # the API server prunes or reports by itself
        del result["additionalProperties"]
    if isinstance(result.get("default"), dict | list):  # the fields below have their own
        del result["default"]
    if result.get("type") == "object" and "properties" in result:
        properties = result["properties"].items()
        result["properties"] = {name: _structural(child, definitions) for name, child in properties}
    for key in ("items", "additionalProperties"):
        if key in result:
            result[key] = _structural(result[key], definitions)
    return result
