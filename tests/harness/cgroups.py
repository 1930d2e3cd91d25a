"""A control group of the tests' own, in every hierarchy that the machine has."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .waiting import wait_for

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "flower-operator-node-"


@contextmanager
def own_control_group() -> Iterator[str]:
    """Its name. Its processes must have ended, or be about to, when the with-block is left."""
    name = f"{_PREFIX}{os.getpid()}"
    for parent in _hierarchies():
        for stale in parent.glob(f"{_PREFIX}*"):  # of tests that were killed
            _removed(stale)
    folders = [parent / name for parent in _hierarchies()]
    for folder in folders:
        folder.mkdir()
    try:
        yield name
    finally:
        wait_for(
            lambda: all(_removed(folder) for folder in folders),
            lambda: f"control groups with processes in them: {folders}",
            timeout=30,
        )


def _hierarchies() -> list[Path]:
    """One in version 2; one for each controller in version 1."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [each for each in _ROOT.iterdir() if each.is_dir() and not each.is_symlink()]


def _removed(folder: Path) -> bool:
    """Remove what can be removed; whether nothing is left."""
    below = sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True)
    for each in [*below, folder]:
        with suppress(OSError):
            each.rmdir()
    return not folder.exists()
