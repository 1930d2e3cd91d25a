"""How large a Federation may be, and that no larger one is rendered."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flower_operator.api.crd import federation_schema
from flower_operator.api.limits import (
    MAX_ITEMS,
    MAX_SPEC_BYTES,
    MAX_STRING,
    MAX_SUPERNODES,
)
from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.render import Facts, render
from flower_operator.render.node_config import MAX_FILES_BYTES
from tests.unit.federations import Document, document

POOLS = 16
# Of the rendered objects as JSON: the files of all pools, with their quotes escaped, and what every
# pool repeats of the rest of the spec, once for each of its containers.
MAX_RENDERED_BYTES = 2 * MAX_FILES_BYTES + POOLS * 2 * MAX_SPEC_BYTES


def problems(manifest: Any) -> list[str]:
    with pytest.raises(InvalidFederation) as caught:
        render(parse(manifest), Facts())
    return [str(problem) for problem in caught.value.problems]


def unbounded(schema: Document, path: str) -> Iterator[str]:
    """Paths of the strings, lists and maps that may be of any size."""
    kind = schema.get("type")
    if kind == "string" and "enum" not in schema and "maxLength" not in schema:
        yield path
    if schema.get("x-kubernetes-int-or-string") and "maxLength" not in schema:
        yield path
    if kind == "integer" and not {"minimum", "maximum", "format"} & schema.keys():
        yield path
    if kind == "array":
        yield from [] if "maxItems" in schema else [path]
        yield from unbounded(schema["items"], f"{path}[]")
    if kind == "object" and "additionalProperties" in schema:
        yield from [] if "maxProperties" in schema else [path]
        yield from unbounded(schema["additionalProperties"], f"{path}{{}}")
    for name, child in schema.get("properties", {}).items():
        yield from unbounded(child, f"{path}.{name}")


def test_every_string_list_and_map_of_a_spec_has_a_limit() -> None:
    assert list(unbounded(federation_schema()["properties"]["spec"], "spec")) == []


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (
            document(pool={"replicas": 100_000}),
            "spec.supernodes.pools[0].replicas: must be 10000 or less, not 100000",
        ),
        (
            document(pools=[{"name": "a", "replicas": 9_999}, {"name": "b", "replicas": 2}]),
            f"spec.supernodes.pools: replicas of all pools may add up to {MAX_SUPERNODES} at most",
        ),
        (
            document(superlink={"extraArgs": ["-v"] * (MAX_ITEMS + 1)}),
            f"spec.superlink.extraArgs: may have {MAX_ITEMS} entries at most",
        ),
        (
            document(superlink={"env": [{"name": "A", "value": "a" * (MAX_STRING + 1)}]}),
            f"spec.superlink.env[0].value: may have {MAX_STRING} characters at most",
        ),
        (
            document(pool={"nodeConfig": {f"k{at}": "" for at in range(MAX_ITEMS + 1)}}),
            "spec.supernodes.pools[0].nodeConfig: may have 256 entries at most",
        ),
        (
            document(pool={"podTemplate": {"spec": {"tolerations": [{}] * (MAX_ITEMS + 1)}}}),
            "spec.supernodes.pools[0].podTemplate.spec.tolerations: may have 256 entries at most",
        ),
        (
            document(
                pools=[
                    {"name": f"p{at}", "nodeConfig": {"text": "a" * MAX_STRING}} for at in range(5)
                ]
            ),
            "spec: has 16",
        ),
        (
            document(pool={"nodeConfig": {"a." * 1_000 + "a": "1"}}),
            "spec.supernodes.pools[0].nodeConfig[",
        ),
    ],
)
def test_a_field_that_is_too_large_is_named(manifest: Document, said: str) -> None:
    (problem,) = problems(manifest)
    assert problem.startswith(said)
    assert len(problem) < 4_000


def test_what_is_as_large_as_it_may_be_is_accepted() -> None:
    largest = document(
        superlink={"extraArgs": ["-v"] * MAX_ITEMS},
        pools=[
            {
                "name": "a",
                "replicas": MAX_SUPERNODES - 1,
                "env": [{"name": "A", "value": "a" * MAX_STRING}],
            },
            {"name": "b", "replicas": 1, "nodeConfig": {"partition-id": "{partition}"}},
        ],
    )
    assert render(parse(largest), Facts()).objects


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_that_json_cannot_carry_is_refused(number: int) -> None:
    (problem,) = problems(document(superlink={"resources": {"limits": {"cpu": number}}}))
    assert problem.startswith("spec.superlink.resources.limits.cpu: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": 600, "executor": "kubernetes"},
        {"replicas": 600, "nodeConfig": {"p": "{partition}", "text": "a" * 1_000}},
    ],
)
def test_files_of_all_pools_have_a_limit_too(fields: Document) -> None:
    manifest = document(
        isolation="process",
        version="1.41.0",
        pools=[{"name": f"p{at}", **fields} for at in range(POOLS)],
    )
    (problem,) = problems(manifest)
    assert problem.startswith("spec.supernodes.pools: nodeConfig with {partition} and executor")


def test_files_of_tasks_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def record(text: str, labels: dict[str, str]) -> str:
        made.append(text)
        return text

    monkeypatch.setattr("flower_operator.render.executor.labelled", record)
    manifest = document(
        isolation="process",
        version="1.41.0",
        pool={"executor": "kubernetes", "replicas": MAX_SUPERNODES},
    )
    (problem,) = problems(manifest)
    assert problem.startswith("spec.supernodes.pools[0].executor: kubernetes is not to be had for")
    assert len(made) < 10


texts = st.integers(0, 15).map(lambda size: 'a"{index}$' * (2**size // 10))
numbers = st.sampled_from([1, 2, 16, 600, 2_500, 9_000])


@st.composite
def large_manifests(draw: st.DrawFn) -> Document:
    """Large in a few ways at a time, up to and over what is accepted."""
    env = [{"name": f"V{at}", "value": "v" * 16} for at in range(draw(st.sampled_from([0, 256])))]
    executor = draw(st.sampled_from([{}, {"executor": "kubernetes"}]))
    config = draw(st.sampled_from([{}, {"partition-id": "{partition}"}]))
    value, shared = draw(texts), draw(texts)
    replicas = draw(numbers)
    pools = [
        {
            "name": f"p{at}",
            "replicas": replicas,
            "nodeConfig": {**config, "text": value},
            "env": [{"name": "TEXT", "value": value}],
            **executor,
        }
        for at in range(draw(st.sampled_from([1, 2, 4, 16])))
    ]
    return document(
        isolation="process",
        version="1.41.0",
        superlink={"env": env},
        supernodes={"env": [*env, {"name": "SHARED", "value": shared}]},
        pools=pools,
    )


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(large_manifests())
def test_no_manifest_that_is_accepted_becomes_large(manifest: Document) -> None:
    """What it becomes is bounded; bench/rendering.py says what that is in time and memory."""
    try:
        plan = render(parse(manifest), Facts())
    except InvalidFederation:
        assume(False)
    assert len(plan.objects) < 200
    size = sum(len(msgspec.json.encode(rendered)) for rendered in plan.objects)
    assert size < MAX_RENDERED_BYTES
