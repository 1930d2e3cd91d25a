"""An app submitted to a SuperLink, its log streamed until it ends."""

import asyncio
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from .connections import RunError, Target, with_connection

# How flwr reports that a ServerApp ended badly.
FAILURE = re.compile(rb"Exit Code: [1-9]")
LONGEST_FAILURE = 16
# What is never part of an app and may be large.
LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__", "venv", "node_modules", "*.egg-info")


async def submit(
    target: Target,
    environment: Path,
    app: Path,
    options: tuple[str, ...],
    write: Callable[[bytes], None],
) -> int:
    """`flwr run` of a copy of the app, so that flwr changes nothing in the user's folder. `write`
    takes what it prints."""
    with tempfile.TemporaryDirectory(prefix="flower-operator-") as folder:
        copy, home = Path(folder) / app.resolve().name, Path(folder) / "flwr"
        home.mkdir()
        shutil.copytree(app, copy, ignore=LEFT_BEHIND)
        file = copy / "pyproject.toml" if target.in_app else home / "config.toml"
        before = file.read_text() if file.exists() else ""
        file.write_text(with_connection(before, target.section, target.connection))
        command = [f"{environment}/bin/flwr", "run", str(copy), target.name]
        variables = os.environ | {
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": os.environ.get("FLWR_TELEMETRY_ENABLED", "0"),
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        return await _stream([*command, "--stream", *options], variables, write)


async def _stream(
    command: list[str], variables: dict[str, str], write: Callable[[bytes], None]
) -> int:
    """Pass the output on. flwr's own status is 0 even where the app failed; its log tells."""
    running = await asyncio.create_subprocess_exec(
        *command,
        env=variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert running.stdout
    failed, end = False, b""
    try:
        while chunk := await running.stdout.read(1 << 16):
            write(chunk)
            failed = failed or FAILURE.search(end + chunk) is not None
            end = (end + chunk)[-LONGEST_FAILURE:]
        return await running.wait() or int(failed)
    finally:
        if running.returncode is None:
            running.terminate()
            await running.wait()


def check_app(app: Path) -> None:
    """Raise RunError unless the folder holds a Flower app."""
    file = app / "pyproject.toml"
    try:
        content = tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise RunError(f"{app} is no Flower app: it has no pyproject.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{file} is not TOML: {error}") from None
    if "app" not in content.get("tool", {}).get("flwr", {}):
        raise RunError(f"{app} is no Flower app: its pyproject.toml has no [tool.flwr.app]")
