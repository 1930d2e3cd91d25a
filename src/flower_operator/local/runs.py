"""Runs submitted to a Federation of this machine, with its release's own `flwr`."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from .connections import connection, section, with_connection
from .federations import LocalError
from .state import Record

# How flwr reports that a ServerApp ended badly.
FAILURE = re.compile(rb"Exit Code: [1-9]")
# What is never part of an app and may be large.
LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__", "venv", "node_modules", "*.egg-info")


def submit(own: Record, app: Path, options: tuple[str, ...]) -> int:
    """`flwr run` of a copy of the app, so that flwr changes nothing in the user's folder."""
    desired = own.read_desired()
    if desired is None:
        raise LocalError(f"{own.name} is ending")
    check_app(app)
    with tempfile.TemporaryDirectory(prefix="flower-operator-") as folder:
        copy, home = Path(folder) / app.resolve().name, Path(folder) / "flwr"
        home.mkdir()
        shutil.copytree(app, copy, ignore=LEFT_BEHIND)
        in_app = desired.dialect.connection_file == "pyproject.toml"
        file = copy / "pyproject.toml" if in_app else home / "config.toml"
        before = file.read_text() if file.exists() else ""
        file.write_text(with_connection(before, section(desired), connection(desired)))
        command = [f"{desired.environment}/bin/flwr", "run", str(copy), desired.name]
        environment = os.environ | {
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": os.environ.get("FLWR_TELEMETRY_ENABLED", "0"),
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        return _stream([*command, "--stream", *options], environment)


def _stream(command: list[str], environment: dict[str, str]) -> int:
    """Pass the output on. flwr's own status is 0 even where the app failed; its log tells."""
    failed = False
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        assert running.stdout
        for line in running.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            failed = failed or FAILURE.search(line) is not None
    return running.returncode or int(failed)


def check_app(app: Path) -> None:
    """Raise LocalError unless the folder holds a Flower app."""
    file = app / "pyproject.toml"
    try:
        content = tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise LocalError(f"{app} is no Flower app: it has no pyproject.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LocalError(f"{file} is not TOML: {error}") from None
    if "app" not in content.get("tool", {}).get("flwr", {}):
        raise LocalError(f"{app} is no Flower app: its pyproject.toml has no [tool.flwr.app]")
