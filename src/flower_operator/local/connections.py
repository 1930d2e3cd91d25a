"""How `flwr run` is told where a SuperLink is, by release."""

import os
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from .federations import LocalError
from .state import Desired


def section(desired: Desired) -> tuple[str, ...]:
    """Where the connection stands in the file that this release reads."""
    if desired.dialect.connection_file == "pyproject.toml":
        return ("tool", "flwr", "federations", desired.name)
    return ("superlink", desired.name)


def connection(desired: Desired) -> dict[str, Any]:
    return {"address": desired.control, "insecure": True}


def connection_text(desired: Desired) -> str:
    """The section to paste."""
    lines = [f"[{'.'.join(section(desired))}]"]
    lines += [
        f"{key} = {tomlkit.item(value).as_string()}" for key, value in connection(desired).items()
    ]
    return "\n".join(lines) + "\n"


def connection_path(desired: Desired, app: Path) -> Path:
    if desired.dialect.connection_file == "pyproject.toml":
        return app / "pyproject.toml"
    home = os.environ.get("FLWR_HOME") or Path.home() / ".flwr"
    return Path(home) / "config.toml"


def write_connection(desired: Desired, app: Path) -> Path:
    """Put the connection into its file; whatever else is there stays, comments too."""
    path = connection_path(desired, app)
    if path.name == "pyproject.toml" and not path.exists():
        raise LocalError(f"{path} does not exist; name the app's folder with --app")
    before = path.read_text() if path.exists() else ""
    try:
        after = with_connection(before, section(desired), connection(desired))
    except TOMLKitError as error:
        raise LocalError(f"{path} is not TOML: {error}") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".toml.new")
    temporary.write_text(after)
    temporary.replace(path)
    return path


def with_connection(text: str, keys: tuple[str, ...], values: dict[str, Any]) -> str:
    """The TOML text with these values in the section that `keys` lead to."""
    document = tomlkit.parse(text)
    place: Any = document
    for key in keys[:-1]:
        if key not in place:
            place[key] = tomlkit.table(is_super_table=True)
        place = place[key]
    own = place.get(keys[-1])
    table: Any = own if isinstance(own, Table) else tomlkit.table()
    for key, value in values.items():
        table[key] = value
    if own is not table:
        place[keys[-1]] = table
    return tomlkit.dumps(document)
