"""A Python environment for each Flower release, made once with uv and found again offline."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..flower.releases import NEWEST, OLDEST, Release, parse_release

COMPLETE = ".complete"


class EnvironmentUnavailable(RuntimeError):
    """A release that cannot be installed here, and why."""


def cache_folder() -> Path:
    """Where what can be made again is kept between runs."""
    if own := os.environ.get("FLOWER_OPERATOR_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flower-operator"


def environment(
    release: Release, before_install: Callable[[], None] = lambda: None, *packages: str
) -> Path:
    """The folder of a virtual environment with that flwr release, and packages, in it."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = "-".join([str(release), f"python{python}", *sorted(packages)])
    folder = cache_folder() / "flwr" / name
    if not (folder / COMPLETE).exists():
        with _lock(folder):
            if not (folder / COMPLETE).exists():
                before_install()
                _install(release, folder, packages)
    return folder


def package_folder(
    name: str, version: str, requirement: str, before_install: Callable[[], None]
) -> Path:
    """The folder of a package that is a program rather than a library, by itself."""
    folder = cache_folder() / name / version
    if not (folder / COMPLETE).exists():
        with _lock(folder):
            if not (folder / COMPLETE).exists():
                before_install()
                command = [_find_uv(), "pip", "install", "--quiet", "--no-deps", "--target"]
                done = _uv([*command, str(folder), requirement])
                if done.returncode:
                    raise EnvironmentUnavailable(
                        f"{requirement} cannot be installed: {done.stderr.strip() or 'uv failed'}"
                    )
                (folder / COMPLETE).touch()
    return folder


def installed_release(folder: Path) -> Release:
    """The flwr release in an existing virtual environment."""
    python = folder / "bin" / "python"
    question = "import importlib.metadata as m; print(m.version('flwr'))"
    try:
        done = subprocess.run(
            [python, "-c", question], capture_output=True, text=True, check=True, timeout=60
        )
    except OSError:
        raise EnvironmentUnavailable(f"{folder} is no virtual environment") from None
    except subprocess.SubprocessError:
        raise EnvironmentUnavailable(f"{folder} has no flwr in it: pip install flwr") from None
    release = parse_release(done.stdout.strip())
    if release is None:
        raise EnvironmentUnavailable(f"{folder} has a flwr of unknown version {done.stdout!r}")
    return release


def _install(release: Release, folder: Path, packages: tuple[str, ...]) -> None:
    uv = _find_uv()
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], release)
    python = str(folder / "bin" / "python")
    # Compiled once here instead of by the first process of every start.
    options = ["--quiet", "--compile-bytecode", "--python", python]
    _run([uv, "pip", "install", *options, f"flwr=={release}", *packages], release)
    (folder / COMPLETE).touch()


def _find_uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise EnvironmentUnavailable("uv is needed to install Flower: pip install uv")
    return found


def _run(command: list[str], release: Release) -> None:
    done = _uv(command)
    if done.returncode:
        raise EnvironmentUnavailable(_why(release, done.stderr))


def _uv(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _why(release: Release, words: str) -> str:
    if "there is no version of flwr" in words:
        return f"there is no Flower {release} on PyPI; the nearest known is {nearest(release)}"
    reason = f"Flower {release} cannot be installed: {words.strip() or 'uv failed'}"
    if "No solution found" in words:
        reason += "\nif your index lacks one of its requirements, UV_OVERRIDE can name a file that "
        reason += "replaces a requirement"
    return reason


def nearest(release: Release) -> Release:
    """The known release that is closest to one that does not exist."""
    known = [Release(1, minor) for minor in range(OLDEST.minor, NEWEST.minor + 1)]
    return min(known, key=lambda each: (abs(each.minor - release.minor), -each.minor))


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep two commands from making the same environment at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
