"""The connection for plain `flwr run`, printed or written."""

from pathlib import Path

from ..runs.connections import Target, connection_text, write_connection
from .terminal import echo, echo_content


def show_connection(target: Target, app: Path | None) -> None:
    if app is None:
        echo_content(connection_text(target))
    else:
        path = write_connection(target, app)
        echo(f"{path}: [{target.name}] is {target.address}")
