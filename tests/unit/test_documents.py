"""YAML as kubectl reads it, and nothing that breaks the reader."""

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flower_operator.api.documents import UnreadableYaml, locate_documents, read_documents
from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.render import Facts, render
from tests.unit.federations import document


def test_several_documents_and_empty_ones() -> None:
    assert read_documents("---\na: 1\n---\n---\nb: [x]\n") == [{"a": 1}, {"b": ["x"]}]


def test_a_date_stays_text_and_a_number_key_becomes_text() -> None:
    assert read_documents("{a: 2026-01-01, 1: x, true: y}") == [
        {"a": "2026-01-01", "1": "x", "true": "y"}
    ]


def test_merge_keys_work() -> None:
    assert read_documents("a: &a {x: 1}\nb: {<<: *a, y: 2}") == [
        {"a": {"x": 1}, "b": {"x": 1, "y": 2}}
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "2:1: the key 'a' is there twice"),
        ("a: [1", "2:1: did not find expected ',' or ']'"),
        ("? [a]\n: b", "a key must be a string"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: !!binary aGk=", "holds a value of a type JSON has not: bytes"),
        ("a: &a [*a]", "1:8: the alias *a is inside of what it stands for"),
        ("a: &a {<<: *a}", "1:12: the alias *a is inside of what it stands for"),
        ("a: *b", "1:4: found undefined alias"),
        ("- " * 101, "1:201: is more than 100 levels deep"),
        ("- " * 300_000, "is more than 100 levels deep"),
        ("[" * 300_000, "is more than 100 levels deep"),
        ("- a\n" * 400_000, "is too large: a document may have 400000 keys and values"),
        ("- " + "a" * 10 * 1024**2, "is larger than 10 MiB"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(UnreadableYaml) as caught:
        read_documents(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("[x, x]", "[{0}, {0}]"),
        ("{k: x}", "{{<<: [{0}, {0}], k{1}: x}}"),
        (f'"{"x" * 1000}"', "[{0}, {0}]"),
    ],
)
def test_aliases_cannot_blow_a_document_up(first: str, later: str) -> None:
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} {later.format(f'*a{n - 1}', n)}" for n in range(1, 40)]
    with pytest.raises(UnreadableYaml, match=r"is too large: .* with its aliases written out"):
        read_documents("\n".join(lines))


def test_a_key_of_ones_own_wins_over_a_merged_one() -> None:
    """As kubectl has it; of several merged ones, the first wins."""
    merged = "a: &a {x: 1}\nb: &b {x: 2, y: 3}\nc: {<<: [*a, *b], z: 4}\nd: {<<: *b, x: 5}"
    (value,) = read_documents(merged)
    assert (value["c"], value["d"]) == ({"x": 1, "y": 3, "z": 4}, {"x": 5, "y": 3})


def test_fields_know_their_lines() -> None:
    text = "a: 1\n---\n# text\nb:\n  c.d: [x,\n    {e: y}]\n  f: &f {g: z}\nh: *f\n"
    first, second = locate_documents(text)
    assert (first.line_of(""), first.line_of("a")) == (1, 1)
    lines = {"": 4, "b": 4, "b['c.d'][0]": 5, "b['c.d'][1].e": 6, "b['c.d'][1].no.such": 6}
    lines |= {"b.f.g": 7, "h": 8, "h.g": 7, "h.missing": 8, "missing": 4, "b[3]": 4}
    assert {path: second.line_of(path) for path in lines} == lines


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)
SOUND = yaml.safe_dump(document())


def outcome(text: str) -> str:
    """Objects or problems: anything else is an error of ours."""
    try:
        documents = locate_documents(text)
    except UnreadableYaml as error:
        assert str(error)
        return "unreadable"
    for each in documents:
        try:
            render(parse(each.value), Facts())
        except InvalidFederation as error:
            assert error.problems
            assert all(problem.message for problem in error.problems)
            assert all(each.line_of(problem.path) > 0 for problem in error.problems)
            return "invalid"
    return "rendered"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(), st.text("{}[]&*!|>-:?#'\"%@`, \n\tab01")))
def test_any_text_gives_objects_or_problems(text: str) -> None:
    assert outcome(text)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values)
def test_any_value_gives_objects_or_problems(value: object) -> None:
    assert outcome(yaml.safe_dump(value, allow_unicode=True))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_damaged_manifest_gives_objects_or_problems(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(SOUND)))
    length = data.draw(st.integers(0, 10))
    piece = data.draw(st.text("{}[]&*!|>-:?#'\"%@`, \n\tab01", max_size=10))
    assert outcome(SOUND[:at] + piece + SOUND[at + length :])


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_manifest_with_any_value_anywhere_gives_objects_or_problems(data: st.DataObject) -> None:
    manifest = document(superlink={"service": {"ports": {}}}, pool={"gpu": {}, "nodeConfig": {}})
    path = data.draw(
        st.sampled_from(
            [
                ("spec",),
                ("spec", "version"),
                ("spec", "superlink", "podTemplate"),
                ("spec", "superlink", "service", "ports", "grpc"),
                ("spec", "supernodes", "pools"),
                ("spec", "supernodes", "pools", 0, "nodeConfig"),
                ("spec", "supernodes", "pools", 0, "volumes"),
                ("metadata",),
                ("metadata", "namespace"),
            ]
        )
    )
    place: Any = manifest
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = data.draw(values)
    assert outcome(yaml.safe_dump(manifest, allow_unicode=True))
