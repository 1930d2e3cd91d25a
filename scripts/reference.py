"""The reference: a Federation's fields from the schema of the CRD, options from their parser."""

import json
import re
from collections.abc import Iterator
from typing import Any

import click

from flower_operator.api.crd import federation_schema
from flower_operator.api.rules import RULES

Schema = dict[str, Any]

HEAD = """\
# Federation reference

`flwr.exalsius.ai/v1`, kind `Federation`, short name `fedf`. This page is generated from the
models (`make manifests`). A field of one of Kubernetes' own types takes whatever Kubernetes
takes there; a misspelt field inside it is refused.

"""
KUBERNETES = {
    "podTemplate": "PodTemplateSpec",
    "resources": "ResourceRequirements",
    "superexecResources": "ResourceRequirements",
    "supernodeResources": "ResourceRequirements",
    "env": "[]EnvVar",
    "volumes": "[]Volume",
    "volumeMounts": "[]VolumeMount",
    "superexecVolumeMounts": "[]VolumeMount",
    "volumeClaimTemplates": "[]PersistentVolumeClaim",
    "size": "Quantity",
    "maxConcurrency": "number or share",
    "maxFailures": "number or share",
    "egress": "[]NetworkPolicyEgressRule",
    "controlFrom": "[]NetworkPolicyPeer",
}


def reference() -> str:
    schema = federation_schema()["properties"]
    parts = [HEAD]
    for part in ("spec", "status"):
        parts.append(f"## {part}\n\n| field | type | default | meaning |\n|---|---|---|---|\n")
        parts += [f"| {' | '.join(row)} |\n" for row in rows(part, schema[part])]
        parts.append("\n")
    parts.append("## Rules\n\nRefused by the API server and by `flower-operator validate`:\n\n")
    parts += [f"- {rule.message}\n" for rule in RULES]
    return "".join(parts)


def rows(path: str, schema: Schema) -> Iterator[tuple[str, str, str, str]]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        own = f"{path}.{name}"
        default = "required" if name in required else default_of(field)
        yield f"`{own}`", type_of(name, field), default, field.get("description", "")
        if name in KUBERNETES:
            continue
        if "properties" in field:
            yield from rows(own, field)
        elif "properties" in field.get("items", {}):
            yield from rows(f"{own}[]", field["items"])


def type_of(name: str, field: Schema) -> str:
    if name in KUBERNETES:
        return KUBERNETES[name]
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"[]{type_of('', field['items'])}"
    if "additionalProperties" in field:
        return "map of strings"
    limits = [f"{word} {field[key]}" for key, word in LIMITS.items() if key in field]
    return ", ".join([field["type"], *limits])


LIMITS = {"minimum": "from", "maximum": "to", "maxLength": "at most"}


def default_of(field: Schema) -> str:
    return f"`{json.dumps(field['default']).strip(chr(34))}`" if "default" in field else ""


OPTIONS = re.compile(
    r"(<!-- options: generated, see scripts/reference.py -->\n).*?(<!-- end -->)", re.DOTALL
)


def with_options(page: str, command: click.Command) -> str:
    """The page with a table of the command's options in the place that is marked for it."""
    lines = ["| option | default | |\n", "|---|---|---|\n"]
    lines += [_option(each) for each in command.params if isinstance(each, click.Option)]
    result, places = OPTIONS.subn(lambda match: match[1] + "".join(lines) + match[2], page)
    if places != 1:
        raise ValueError(f"the page has {places} places for options instead of one")
    return result


def _option(option: click.Option) -> str:
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    value = "" if option.is_flag else option.metavar or "\\|".join(choices)
    default = f"`{option.default}`" if option.show_default else ""
    return f"| `{f'{option.opts[0]} {value}'.strip()}` | {default} | {option.help} |\n"
