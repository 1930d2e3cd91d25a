"""The connection for plain `flwr run`, printed or written."""

from pathlib import Path

import click

from ..runs.connections import Target, connection_text, write_connection


def show_connection(target: Target, app: Path | None) -> None:
    if app is None:
        click.echo(connection_text(target), nl=False)
    else:
        path = write_connection(target, app)
        click.echo(f"{path}: [{target.name}] is {target.address}")
