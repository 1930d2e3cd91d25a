"""Federations read from files, folders and standard input."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..api.documents import UnreadableYaml, read_documents
from ..api.manifest import is_federation, parse
from ..api.problems import InvalidFederation
from ..api.types import Federation
from ..render import Facts, Plan, render
from ..trust.layout import Files, decode_secret

SUFFIXES = {".yaml", ".yml", ".json"}


@dataclass(frozen=True)
class Rendered:
    source: str
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

    federations: list[tuple[str, Federation]] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def secrets(self) -> dict[str, Files]:
        """The files of each Secret, by its name."""
        return {
            str(each["metadata"]["name"]): decode_secret(each.get("data"))
            for each in self.others
            if isinstance(each, dict) and each.get("kind") == "Secret" and each.get("metadata")
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
                faults += [f"{source}: {problem}" for problem in error.problems]
        return rendered, faults


def read_manifests(paths: tuple[str, ...]) -> Manifests:
    manifests = Manifests()
    for path in paths:
        for name, text in _read(path, manifests.faults):
            _add(manifests, name, text)
    return manifests


def _read(path: str, faults: list[str]) -> list[tuple[str, str]]:
    if path == "-":
        return [("standard input", sys.stdin.read())]
    found = Path(path)
    try:
        if not found.is_dir():
            return [(path, found.read_text(encoding="utf-8"))]
        files = sorted(file for file in found.iterdir() if file.suffix in SUFFIXES)
        if not files:
            faults.append(f"{path}: holds no file that ends in {', '.join(sorted(SUFFIXES))}")
        return [(str(file), file.read_text(encoding="utf-8")) for file in files]
    except OSError as error:
        faults.append(f"{error.filename or path}: {error.strerror}")
    except UnicodeDecodeError as error:
        faults.append(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}")
    return []


def _add(manifests: Manifests, source: str, text: str) -> None:
    try:
        documents = read_documents(text)
    except UnreadableYaml as error:
        manifests.faults.append(f"{source}: {error.problem}")
        return
    for number, document in enumerate(documents, start=1):
        place = source if len(documents) == 1 else f"{source}, document {number}"
        for each in _members(document):
            _sort_in(manifests, place, each)


def _members(document: Any) -> list[Any]:
    """The items of a List, which is how kubectl prints several objects."""
    if isinstance(document, dict) and document.get("kind") == "List":
        items = document.get("items")
        return items if isinstance(items, list) else []
    return [document]


def _sort_in(manifests: Manifests, place: str, document: Any) -> None:
    if not is_federation(document):
        kind = document.get("kind", "no kind") if isinstance(document, dict) else "no object"
        manifests.others.append(document)
        manifests.skipped.append(f"{place}: skipped, not a Federation ({kind})")
        return
    try:
        manifests.federations.append((place, parse(document)))
    except InvalidFederation as error:
        manifests.faults += [f"{place}: {problem}" for problem in error.problems]
