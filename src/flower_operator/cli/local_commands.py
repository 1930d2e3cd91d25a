"""Commands for Federations on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..api.types import Federation
    from ..local.federations import Started
    from ..local.state import Desired, Record
    from .live import LiveTable

NAME = click.argument("name")


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
    from ..local.federations import wait_until_ready
    from ..local.starting import Options, start
    from .live import LiveTable

    with _plain_errors():
        found = _read_federations(paths)
        own = environment.absolute() if environment else None
        options = Options(nodes=nodes, release=release, environment=own, port=port)
        started: list[Started] = []
        live = LiveTable(lambda: [line for one in started for line in _table(one.record)])
        try:
            for federation in found:
                one = start(federation, options, attached=not detach, tell=_note)
                for notice in one.notices:
                    _note(notice)
                started.append(one)
                wait_until_ready(one, timeout, live.refresh)
        except BaseException:
            _end_new(started)
            raise
        finally:
            live.finish()
        if not detach:
            _stay(started, live)


@click.command(name="list")
def list_() -> None:
    """List the Federations that run on this machine."""
    from ..local.state import records
    from .table import list_table

    found = [
        (desired, each.read_status()) for each in records() if (desired := each.read_desired())
    ]
    click.echo("\n".join(list_table(found)) if found else "No Federation runs on this machine.")


@click.command()
@NAME
def status(name: str) -> None:
    """Show a Federation's pools, nodes, states and restarts."""
    with _plain_errors():
        own, _ = _running(name)
        click.echo("\n".join(_table(own)))
        own_status = own.read_status()
    sys.exit(0 if own_status and own_status.ready else 1)


@click.command()
@NAME
@click.argument("component", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written.")
def logs(name: str, component: str | None, follow: bool) -> None:
    """Print what a Federation's processes wrote."""
    from ..local.federations import LocalError, matching, unknown_component
    from .logs import print_logs

    with _plain_errors():
        own, desired = _running(name)
        names = [process.name for process in desired.processes]
        if component:
            names = matching(desired, component)
            if not names:
                raise LocalError(unknown_component(desired, component))
        print_logs(own, names, follow)


@click.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="All that run on this machine.")
def down(name: str | None, everything: bool) -> None:
    """End a Federation; its logs, databases and volumes stay."""
    from ..local.federations import end, find
    from ..local.state import records

    if bool(name) == everything:
        raise click.UsageError("say which Federation, or --all")
    with _plain_errors():
        for own in records() if everything else [find(name)]:
            end(own)
            click.echo(f"{own.name} ended")


@click.command()
@NAME
@click.argument("component")
def restart(name: str, component: str) -> None:
    """Restart a process (POD/CONTAINER), a pod or a pool."""
    from ..local import federations as local

    with _plain_errors():
        for process in local.restart(local.find(name), component):
            click.echo(f"{process} restarts")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("app", type=click.Path(path_type=Path))
@click.option("--federation", "name", help="Name of a running Federation; the only one by default.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[FLWR RUN OPTIONS]...")
def run(app: Path, name: str | None, options: tuple[str, ...]) -> None:
    """Submit a Flower app to a Federation of this machine and stream its log."""
    from ..local.federations import find
    from ..local.runs import submit

    with _plain_errors():
        status = submit(find(name), app, options)
    sys.exit(status)


@click.command()
@NAME
@click.option("--write", is_flag=True, help="Put it where that release of flwr reads it.")
@click.option(
    "--app",
    type=click.Path(path_type=Path),
    default=Path(),
    help="The app's folder, for releases that read it from there.",
)
def config(name: str, write: bool, app: Path) -> None:
    """Print the connection for plain `flwr run`, in the form of the release."""
    from ..local.connections import connection_text, write_connection

    with _plain_errors():
        _, desired = _running(name)
        if write:
            path = write_connection(desired, app)
            click.echo(f"{path}: [{desired.name}] is {desired.control}")
        else:
            click.echo(connection_text(desired), nl=False)


COMMANDS: list[click.Command] = [up, list_, status, logs, down, restart, run, config]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What a user did wrong is said in a line, not shown as a traceback."""
    from ..local.environments import EnvironmentUnavailable
    from ..local.federations import LocalError
    from ..local.ports import PortInUse

    try:
        yield
    except (LocalError, EnvironmentUnavailable, PortInUse, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo(err=True)
        sys.exit(130)


def _read_federations(paths: tuple[str, ...]) -> list[Federation]:
    from .manifests import read_manifests

    manifests = read_manifests(paths)
    for fault in manifests.faults:
        click.echo(f"error: {fault}", err=True)
    if not manifests.faults and not manifests.federations:
        click.echo("error: no Federation found", err=True)
    if manifests.faults or not manifests.federations:
        sys.exit(1)
    return [federation for _, federation in manifests.federations]


def _running(name: str) -> tuple[Record, Desired]:
    from ..local.federations import LocalError, find

    own = find(name)
    desired = own.read_desired()
    if desired is None:
        raise LocalError(f"{name} is ending")
    return own, desired


def _table(own: Record) -> list[str]:
    from .table import federation_table

    desired = own.read_desired()
    return federation_table(desired, own.read_status()) if desired else []


def _stay(started: list[Started], live: LiveTable) -> None:
    """Until Ctrl-C, or until all of them were ended by another command."""
    import time

    from ..local.federations import end

    click.echo("Ctrl-C ends it.", err=True)
    try:
        while any(one.record.is_running() for one in started):
            live.refresh(below=1)
            time.sleep(0.2)
    except KeyboardInterrupt:
        click.echo("ending", err=True)
    for one in started:
        end(one.record)


def _end_new(started: list[Started]) -> None:
    """Leave nothing running of what this command started; an update's federation stays."""
    from ..local.federations import end

    for one in started:
        if one.supervisor:
            end(one.record)


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
