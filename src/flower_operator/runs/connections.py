"""How `flwr run` is told where a SuperLink is, by release."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from ..flower.dialects import Dialect

INSECURE = "insecure"
ROOT_CERTIFICATES = "root-certificates"


class RunError(RuntimeError):
    """What a user asked for cannot be run; the text says why and what to do."""


@dataclass(frozen=True)
class Target:
    """A SuperLink as `flwr run` sees it."""

    name: str
    address: str
    dialect: Dialect
    root_certificates: str | None = None
    """An absolute path to what `flwr run` must trust; None for no TLS."""

    @property
    def in_app(self) -> bool:
        """Whether this release reads the connection from the app's own file."""
        return self.dialect.connection_file == "pyproject.toml"

    @property
    def section(self) -> tuple[str, ...]:
        """Where the connection stands in the file that this release reads."""
        return (
            ("tool", "flwr", "federations", self.name) if self.in_app else ("superlink", self.name)
        )

    @property
    def connection(self) -> dict[str, Any]:
        trusted = self.root_certificates
        security = {ROOT_CERTIFICATES: trusted} if trusted else {INSECURE: True}
        return {"address": self.address, **security}


def connection_text(target: Target) -> str:
    """The section to paste."""
    lines = [f"[{'.'.join(target.section)}]"]
    lines += [
        f"{key} = {tomlkit.item(value).as_string()}" for key, value in target.connection.items()
    ]
    return "\n".join(lines) + "\n"


def connection_path(target: Target, app: Path) -> Path:
    if target.in_app:
        return app / "pyproject.toml"
    home = os.environ.get("FLWR_HOME") or Path.home() / ".flwr"
    return Path(home) / "config.toml"


def certificates_path(target: Target, app: Path) -> Path:
    """Where to keep what is trusted, for a connection that does not say: beside it."""
    return connection_path(target, app).absolute().parent / f"{target.name}-ca.crt"


def write_connection(target: Target, app: Path) -> Path:
    """Put the connection into its file; whatever else is there stays, comments too."""
    path = connection_path(target, app)
    if path.name == "pyproject.toml" and not path.exists():
        raise RunError(f"{path} does not exist; name the app's folder with --app")
    before = path.read_text() if path.exists() else ""
    try:
        after = with_connection(before, target.section, target.connection)
    except TOMLKitError as error:
        raise RunError(f"{path} is not TOML: {error}") from None
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
    # flwr refuses both at once.
    for key in {INSECURE, ROOT_CERTIFICATES} - values.keys():
        table.pop(key, None)
    for key, value in values.items():
        table[key] = value
    if own is not table:
        place[keys[-1]] = table
    return tomlkit.dumps(document)
