"""Every file that is written on this machine: below the state folder, for its owner alone."""

import os
from pathlib import Path
from typing import IO, Any


class OutsideError(OSError):
    """A path that leads out of the folder that it has to stay in."""


def below(folder: Path, *names: str) -> Path:
    """The path of these names in a folder; each may have several steps, and none leads up."""
    path = folder
    for name in names:
        if name.startswith("/") or ".." in name.split("/") or "\0" in name:
            raise OutsideError(f"{name!r} leads out of {path}")
        path /= name
    return path


def inside(root: Path, path: Path) -> Path:
    """Where a path really is, which must be below `root`: symbolic links may lead elsewhere."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise OutsideError(f"{path} leads out of {root}, to {real}: remove it")
    return real


def make_folder(root: Path, path: Path) -> Path:
    """Make a folder and those above it that are missing."""
    real = inside(root, path)
    missing = [each for each in (real, *real.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    return real


def open_file(root: Path, path: Path, mode: str) -> IO[Any]:
    """Open a file to write to; what is missing is made."""
    target = make_folder(root, path.parent) / path.name
    return open(target, mode, opener=_private)


def write_file(root: Path, path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a file."""
    target = make_folder(root, path.parent) / path.name
    new = target.with_name(f".new-{os.getpid()}")
    new.unlink(missing_ok=True)
    with open_file(root, new, "x") as file:
        file.write(text)
    new.replace(target)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
