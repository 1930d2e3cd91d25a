"""The Flower releases that tests run: the last patch of every line known."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from flower_operator.flower.dialects import NEWEST, OLDEST
from flower_operator.flower.releases import Release

LAST_PATCHES = {(1, 26): 1, (1, 32): 1}

RELEASES = [
    Release(1, minor, LAST_PATCHES.get((1, minor), 0))
    for minor in range(OLDEST.minor, NEWEST.minor + 1)
]

QUICK = ("1.23.0", "1.34.0", str(RELEASES[-1]))
"""The oldest, a middle and the newest one: what `make test` trains on."""

WIRE_CHANGES = ("1.23.0", "1.25.0", "1.34.0", "1.36.0", "1.38.0", "1.40.0", str(RELEASES[-1]))
"""Those between which Flower's protocols changed; releases of one group behave alike."""


QUICK_RELEASES = [release for release in RELEASES if str(release) in QUICK]


def override_requirements() -> None:
    """Let uv install releases that require more than the package index has."""
    os.environ.setdefault("UV_OVERRIDE", str(Path(__file__).with_name("uv-overrides.txt")))


def extended_unless(quick: Iterable[Any], parameters: Iterable[Any]) -> list[Any]:
    """Parameters of a test; it runs in `make test` with those that are quick, else in test-all."""
    chosen = list(quick)
    return [
        each if each in chosen else pytest.param(*_values(each), marks=pytest.mark.extended)
        for each in parameters
    ]


def _values(parameter: Any) -> tuple[Any, ...]:
    return parameter if isinstance(parameter, tuple) else (parameter,)
