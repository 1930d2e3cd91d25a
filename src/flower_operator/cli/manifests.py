"""Federations read from files, folders and standard input."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..api.documents import MAX_BYTES, TOO_LARGE, Document, UnreadableYaml, locate_documents
from ..api.manifest import is_federation, parse
from ..api.problems import InvalidFederation, Problem
from ..api.types import Federation
from ..render import Facts, Plan, render
from ..trust.layout import Files, decode_secret

SUFFIXES = {".yaml", ".yml", ".json"}


@dataclass(frozen=True)
class Source:
    """Where an object was read: its file, its document there, its item of a List."""

    file: str
    number: int | None
    """None: the file has one document."""
    document: Document
    item: str = ""
    """The path of the item in its document."""

    def __str__(self) -> str:
        return f"{self.file}, document {self.number}" if self.number else self.file

    def explain(self, problems: Iterable[Problem]) -> list[str]:
        """The problems of the object, each with its line."""
        return [f"{self.file}:{self._line_of(problem)}: {problem}" for problem in problems]

    def _line_of(self, problem: Problem) -> int:
        return self.document.line_of(".".join(part for part in (self.item, problem.path) if part))


@dataclass(frozen=True)
class Rendered:
    source: Source
    federation: Federation
    plan: Plan

    @property
    def name(self) -> str:
        return self.federation.name

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        return self.plan.objects

    @property
    def notices(self) -> tuple[str, ...]:
        return self.plan.notices


@dataclass
class Manifests:
    """What was found: Federations, other objects, and what could not be read."""

    federations: list[tuple[Source, Federation]] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def secrets(self) -> dict[str, Files]:
        """The files of each Secret, by its name."""
        secrets = [
            each for each in self.others if isinstance(each, dict) and each.get("kind") == "Secret"
        ]
        return {
            str(metadata["name"]): decode_secret(secret.get("data"))
            for secret in secrets
            if isinstance(metadata := secret.get("metadata"), dict) and "name" in metadata
        }

    def render(
        self, facts: Facts, renderer: Callable[[Federation, Facts], Plan] = render
    ) -> tuple[list[Rendered], list[str]]:
        """Every Federation that can be rendered, and the faults of those that cannot."""
        rendered, faults = [], []
        for source, federation in self.federations:
            try:
                rendered.append(Rendered(source, federation, renderer(federation, facts)))
            except InvalidFederation as error:
                faults += source.explain(error.problems)
        return rendered, faults


def read_manifests(paths: tuple[str, ...]) -> Manifests:
    manifests = Manifests()
    for path in paths:
        for file in _files(path, manifests.faults):
            name = "standard input" if file == "-" else file
            try:
                _add(manifests, name, locate_documents(_text(file)))
            except OSError as error:
                manifests.faults.append(f"{name}: {error.strerror}")
            except UnreadableYaml as error:
                place = f"{name}:{error.place}" if error.place else name
                manifests.faults.append(f"{place}: {error.reason}")
    return manifests


def _files(path: str, faults: list[str]) -> list[str]:
    """The files that a path stands for: itself, or those of a folder."""
    folder = Path(path)
    try:
        if path == "-" or not folder.is_dir():
            return [path]
        files = sorted(str(file) for file in folder.iterdir() if file.suffix in SUFFIXES)
    except OSError as error:
        faults.append(f"{path}: {error.strerror}")
        return []
    if not files:
        faults.append(f"{path}: holds no file that ends in {', '.join(sorted(SUFFIXES))}")
    return files


def _text(file: str) -> str:
    if file == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UnreadableYaml(TOO_LARGE)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text: {error.reason} at byte {error.start}"
        raise UnreadableYaml(reason) from None


def _add(manifests: Manifests, file: str, documents: list[Document]) -> None:
    for number, document in enumerate(documents, start=1):
        source = Source(file, number if len(documents) > 1 else None, document)
        for item, value in _members(document.value):
            _sort_in(manifests, replace(source, item=item), value)


def _members(document: Any) -> Iterator[tuple[str, Any]]:
    """The items of a List, which is how kubectl prints several objects, each with its path."""
    if isinstance(document, dict) and document.get("kind") == "List":
        items = document.get("items")
        for position, item in enumerate(items if isinstance(items, list) else []):
            yield f"items[{position}]", item
    else:
        yield "", document


def _sort_in(manifests: Manifests, source: Source, document: Any) -> None:
    if not is_federation(document):
        kind = document.get("kind", "no kind") if isinstance(document, dict) else "no object"
        manifests.others.append(document)
        manifests.skipped.append(f"{source}: skipped, not a Federation ({kind})")
        return
    try:
        manifests.federations.append((source, parse(document)))
    except InvalidFederation as error:
        manifests.faults += source.explain(error.problems)
