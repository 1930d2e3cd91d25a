"""YAML text to plain documents, read as kubectl reads it: strict about keys, JSON's types only."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import yaml

from .problems import join

# What an honest manifest never reaches; aliases can blow a few lines up beyond any size.
MAX_BYTES = 10 * 1024 * 1024
MOST_NODES = 400_000
DEEPEST = 100
TOO_LARGE = f"is larger than {MAX_BYTES // 1024**2} MiB; write fewer documents into one file"

Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableYaml(ValueError):
    """Text that holds no documents: why, and where if that is known."""

    def __init__(self, reason: str, mark: Any = None) -> None:
        self.reason = reason
        self.place = f"{mark.line + 1}:{mark.column + 1}" if mark else ""
        super().__init__(f"{self.place}: {reason}" if mark else reason)


@dataclass(frozen=True)
class Document:
    """One document of a text, with the lines of its fields."""

    value: Any
    node: yaml.Node = field(repr=False)

    def line_of(self, path: str) -> int:
        """The line of a field, or of the nearest one around it that is in the text."""
        while path and path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._lines[path]

    @cached_property
    def _lines(self) -> dict[str, int]:
        lines: dict[str, int] = {}
        waiting: list[tuple[tuple[str | int, ...], yaml.Node, int]] = [
            ((), self.node, self.node.start_mark.line)
        ]
        while waiting:
            path, node, line = waiting.pop()
            lines[join(path)] = line + 1
            if isinstance(node, yaml.MappingNode):
                waiting += [
                    ((*path, str(key.value)), value, key.start_mark.line)
                    for key, value in node.value
                ]
            elif isinstance(node, yaml.SequenceNode):
                waiting += [
                    ((*path, position), item, item.start_mark.line)
                    for position, item in enumerate(node.value)
                ]
        return lines


class _Loader(Base):  # type: ignore[misc]
    """Scalars as in JSON plus YAML 1.1's booleans: no dates, no sexagesimal numbers."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.flattened: set[yaml.Node] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put merged keys in, once: a key of the mapping's own wins over a merged one."""
        if node in self.flattened:
            return
        self.flattened.add(node)
        self._refuse_repeated_keys(node)
        super().flatten_mapping(node)
        node.value = list({self._key(pair[0]): pair for pair in node.value}.values())

    def _refuse_repeated_keys(self, node: yaml.MappingNode) -> None:
        keys = set()
        for key_node, _ in node.value:
            if key_node.tag != "tag:yaml.org,2002:merge":
                key = self._key(key_node)
                if key in keys:
                    raise UnreadableYaml(f"the key {key!r} is there twice", key_node.start_mark)
                keys.add(key)

    def _key(self, node: yaml.Node) -> str:
        key = self.construct_object(node, deep=True)
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, int | float):
            return str(key)
        if not isinstance(key, str):
            raise UnreadableYaml("a key must be a string", node.start_mark)
        return key

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        self.flatten_mapping(node)
        return {self._key(key): self.construct_object(value, deep) for key, value in node.value}

    def construct_plain_map(self, node: yaml.MappingNode) -> Iterator[dict[str, Any]]:
        result: dict[str, Any] = {}
        yield result
        result.update(self.construct_mapping(node))


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_plain_map)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in Base.yaml_implicit_resolvers.items()
}


def read_documents(text: str) -> list[Any]:
    """The values of the documents in `text`, empty ones left out."""
    return [document.value for document in locate_documents(text)]


def locate_documents(text: str) -> list[Document]:
    """The documents in `text`, empty ones left out."""
    if len(text) > MAX_BYTES:
        raise UnreadableYaml(TOO_LARGE)
    try:
        _refuse_oversized(text)
        documents = list(_load(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableYaml(error.problem or error.context or "is not YAML", mark) from None
    except yaml.YAMLError as error:
        raise UnreadableYaml(f"is not YAML: {error}".replace("\n", " ")) from None
    except UnreadableYaml:
        raise
    except (RecursionError, ValueError, OverflowError) as error:
        raise UnreadableYaml(f"is not YAML that can be read: {error}") from None
    for document in documents:
        _refuse_other_types(document.value)
    return [document for document in documents if document.value is not None]


def _load(text: str) -> Iterator[Document]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            yield Document(loader.construct_document(node), node)
    finally:
        loader.dispose()


def _refuse_oversized(text: str) -> None:
    """Refuse, before anything is built, a document that is too deep, and one that is too large
    when its aliases are written out."""
    for event in yaml.parse(text, Loader=Base):
        if isinstance(event, yaml.DocumentStartEvent):
            size = _Size()
        elif not isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent):
            size.add(event)


@dataclass
class _Size:
    """How large a document is so far, with its aliases written out."""

    nodes: int = 0
    characters: int = 0
    # Where each collection that is not closed yet began, and its anchor.
    waiting: list[tuple[str | None, int, int]] = field(default_factory=list)
    # The size of each anchor; None: it is not closed yet.
    anchors: dict[str, tuple[int, int] | None] = field(default_factory=dict)

    def add(self, event: Any) -> None:
        match event:
            case yaml.AliasEvent():
                size = self.anchors.get(event.anchor or "", (1, 0))
                if size is None:
                    reason = f"the alias *{event.anchor} is inside of what it stands for"
                    raise UnreadableYaml(reason, event.start_mark)
                self._grow(event, *size)
            case yaml.ScalarEvent():
                if event.anchor:
                    self.anchors[event.anchor] = (1, len(event.value))
                self._grow(event, 1, len(event.value))
            case yaml.CollectionStartEvent():
                if event.anchor:
                    self.anchors[event.anchor] = None
                self.waiting.append((event.anchor, self.nodes, self.characters))
                self._grow(event, 1, 0)
            case yaml.CollectionEndEvent():
                anchor, nodes, characters = self.waiting.pop()
                if anchor:
                    self.anchors[anchor] = (self.nodes - nodes, self.characters - characters)

    def _grow(self, event: Any, nodes: int, characters: int) -> None:
        self.nodes += nodes
        self.characters += characters
        if len(self.waiting) > DEEPEST:
            raise UnreadableYaml(f"is more than {DEEPEST} levels deep", event.start_mark)
        if self.nodes > MOST_NODES or self.characters > MAX_BYTES:
            raise UnreadableYaml(
                f"is too large: a document may have {MOST_NODES} keys and values and "
                f"{MAX_BYTES // 1024**2} MiB, with its aliases written out",
                event.start_mark,
            )


def _refuse_other_types(document: Any) -> None:
    """Refuse what JSON cannot say."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif value is not None and not isinstance(value, str | int | float):
            kind = type(value).__name__
            raise UnreadableYaml(f"holds a value of a type JSON has not: {kind}")
