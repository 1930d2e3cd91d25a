"""Small Federations for tests to change."""

from typing import Any

from flower_operator.api.manifest import parse
from flower_operator.render import Facts, Plan, render

Document = dict[str, Any]


def document(
    mode: str = "StatefulSet",
    isolation: str = "subprocess",
    *,
    superlink: Document | None = None,
    supernodes: Document | None = None,
    pool: Document | None = None,
    pools: list[Document] | None = None,
    **spec: Any,
) -> Document:
    """A sound manifest, with these fields laid over it."""
    process = isolation == "process"
    images = {"superexecClientApp": "flwr/superexec:1.25.0"} if process else {}
    usual: Document = {"name": "default", "images": images}
    if mode == "StatefulSet":
        usual["replicas"] = 2
    link: Document = {"image": "flwr/superlink:1.25.0"}
    if process:
        link["superexecImage"] = "flwr/superexec:1.25.0"
    every = [usual | each for each in pools] if pools is not None else [usual | (pool or {})]
    return {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "metadata": {"name": "fed"},
        "spec": {
            "mode": mode,
            "isolationMode": isolation,
            "superlink": link | (superlink or {}),
            "supernodes": {"image": "flwr/supernode:1.25.0", "pools": every, **(supernodes or {})},
            **spec,
        },
    }


def plan(*args: Any, **fields: Any) -> Plan:
    return render(parse(document(*args, **fields)), Facts(namespace="team"))


def find(rendered: Plan, kind: str, name: str) -> Document:
    (found,) = (
        each
        for each in rendered.objects
        if each["kind"] == kind and each["metadata"]["name"] == name
    )
    return found


def pod(rendered: Plan, kind: str, name: str) -> Document:
    spec: Document = find(rendered, kind, name)["spec"]["template"]["spec"]
    return spec


def container(pod_spec: Document, name: str) -> Document:
    (found,) = (each for each in pod_spec["containers"] if each["name"] == name)
    result: Document = found
    return result


def value_of(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]
