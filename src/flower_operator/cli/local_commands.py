"""Commands that start and end Federations on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .errors import note, plain_errors
from .terminal import echo

if TYPE_CHECKING:
    from ..local.federations import Started
    from .live import LiveTable
    from .manifests import Manifests


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@click.option("-d", "--detach", is_flag=True, help="Leave it running and return when it is ready.")
@click.option(
    "--nodes",
    default=1,
    show_default=True,
    help="Nodes of a DaemonSet.",
    type=click.IntRange(1, 1000),
)
@click.option("--release", help="Flower release, for images that do not name one.")
@click.option(
    "--env",
    "environment",
    type=click.Path(path_type=Path),
    help="Virtual environment with Flower and what the apps need.",
)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of the Control API; a free one by default."
)
@click.option(
    "--timeout", default=120.0, show_default=True, help="Seconds until all must be connected."
)
def up(
    paths: tuple[str, ...],
    detach: bool,
    nodes: int,
    release: str | None,
    environment: Path | None,
    port: int | None,
    timeout: float,
) -> None:
    """Run Federations on this machine, as real flwr processes."""
    from ..api.problems import InvalidFederation
    from ..local.federations import LocalError, wait_until_ready
    from ..local.starting import Options, start
    from .live import LiveTable
    from .machine import table

    with plain_errors():
        manifests = _read_federations(paths)
        own = environment.absolute() if environment else None
        options = Options(nodes, release, own, port, manifests.secrets)
        started: list[Started] = []
        live = LiveTable(lambda: [line for one in started for line in table(one.record)])
        try:
            for source, federation in manifests.federations:
                try:
                    one = start(federation, options, attached=not detach, tell=note)
                except InvalidFederation as error:
                    raise LocalError("\n".join(source.explain(error.problems))) from None
                for notice in one.notices:
                    note(notice)
                started.append(one)
                wait_until_ready(one, timeout, live.refresh)
        except BaseException:
            _end_new(started)
            raise
        finally:
            live.finish()
        if not detach:
            _stay(started, live)


@click.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="All that run on this machine.")
def down(name: str | None, everything: bool) -> None:
    """End a Federation; its logs, databases and volumes stay."""
    from ..local.federations import end, find
    from ..local.state import records

    if bool(name) == everything:
        raise click.UsageError("say which Federation, or --all")
    with plain_errors():
        for own in records() if everything else [find(name)]:
            end(own)
            echo(f"{own.name} ended")


COMMANDS: list[click.Command] = [up, down]


def _read_federations(paths: tuple[str, ...]) -> Manifests:
    from .manifests import read_manifests

    manifests = read_manifests(paths)
    for fault in manifests.faults:
        echo(f"error: {fault}", err=True)
    if not manifests.faults and not manifests.federations:
        echo("error: no Federation found", err=True)
    if manifests.faults or not manifests.federations:
        sys.exit(1)
    return manifests


def _stay(started: list[Started], live: LiveTable) -> None:
    """Until Ctrl-C, or until all of them were ended by another command."""
    import time

    from ..local.federations import end

    echo("Ctrl-C ends it.", err=True)
    try:
        while any(one.record.is_running() for one in started):
            live.refresh(below=1)
            time.sleep(0.2)
    except KeyboardInterrupt:
        echo("ending", err=True)
    for one in started:
        end(one.record)


def _end_new(started: list[Started]) -> None:
    """Leave nothing running of what this command started; an update's federation stays."""
    from ..local.federations import end

    for one in started:
        if one.supervisor:
            end(one.record)
