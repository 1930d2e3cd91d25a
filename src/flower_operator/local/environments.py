"""A Python environment for each Flower release, made once with uv and found again offline."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..flower.releases import Release

COMPLETE = ".complete"


class EnvironmentUnavailable(RuntimeError):
    """A release that cannot be installed here, and why."""


def cache_folder() -> Path:
    """Where what can be made again is kept between runs."""
    if own := os.environ.get("FLOWER_OPERATOR_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flower-operator"


def environment(release: Release) -> Path:
    """The folder of a virtual environment with that flwr release in it."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_folder() / "flwr" / f"{release}-python{python}"
    if not (folder / COMPLETE).exists():
        with _lock(folder):
            if not (folder / COMPLETE).exists():
                _install(release, folder)
    return folder


def _install(release: Release, folder: Path) -> None:
    uv = _find_uv()
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], release)
    python = str(folder / "bin" / "python")
    # Compiled once here instead of by the first process of every start.
    options = ["--quiet", "--compile-bytecode", "--python", python]
    _run([uv, "pip", "install", *options, f"flwr=={release}"], release)
    (folder / COMPLETE).touch()


def _find_uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise EnvironmentUnavailable("uv is needed to install Flower: pip install uv")
    return found


def _run(command: list[str], release: Release) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip() or f"uv ended with status {done.returncode}"
        raise EnvironmentUnavailable(f"Flower {release} cannot be installed: {reason}")


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep two commands from making the same environment at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
