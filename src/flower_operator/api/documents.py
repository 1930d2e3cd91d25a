"""YAML text to plain documents, read as kubectl reads it: strict about keys, JSON's types only."""

from collections.abc import Iterator
from typing import Any

import yaml

from .problems import Problem

# What an honest manifest never reaches; aliases can blow a few lines up beyond any size.
MOST_NODES = 200_000
DEEPEST = 100

Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableYaml(ValueError):
    """Text that holds no documents; `problem` says where and why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class _Loader(Base):  # type: ignore[misc]
    """Scalars as in JSON plus YAML 1.1's booleans: no dates, no sexagesimal numbers."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        self.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, bool):
                key = str(key).lower()
            elif isinstance(key, int | float):
                key = str(key)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a string", key_node.start_mark
                )
            if key in result:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is there twice", key_node.start_mark
                )
            result[key] = self.construct_object(value_node, deep=deep)
        return result

    def construct_plain_map(self, node: yaml.MappingNode) -> Iterator[dict[str, Any]]:
        result: dict[str, Any] = {}
        yield result  # so that an alias inside the mapping can refer to it
        result.update(self.construct_mapping(node))


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_plain_map)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in Base.yaml_implicit_resolvers.items()
}


def read_documents(text: str) -> list[Any]:
    """The documents in `text`, empty ones left out."""
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        raise UnreadableYaml(_locate(error)) from None
    except yaml.YAMLError as error:
        raise UnreadableYaml(Problem("", f"is not YAML: {error}".replace("\n", " "))) from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise UnreadableYaml(Problem("", f"is not YAML that can be read: {error}")) from None
    for document in documents:
        _refuse_unfit(document)
    return [document for document in documents if document is not None]


def _locate(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return Problem(place, error.problem or error.context or "is not YAML")


def _refuse_unfit(document: Any) -> None:
    """Refuse what JSON cannot say and what aliases blew up."""
    count = 0
    waiting = [(document, 0)]
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if count > MOST_NODES or depth > DEEPEST:
            raise UnreadableYaml(Problem("", "is too large or too deep: write aliases out"))
        if isinstance(value, dict):
            waiting += [(child, depth + 1) for child in value.values()]
        elif isinstance(value, list):
            waiting += [(child, depth + 1) for child in value]
        elif value is not None and not isinstance(value, str | int | float):
            kind = type(value).__name__
            raise UnreadableYaml(Problem("", f"holds a value of a type JSON has not: {kind}"))
