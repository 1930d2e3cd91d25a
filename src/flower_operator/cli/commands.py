"""Commands for Federations wherever they run: on this machine, or on a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .errors import plain_errors
from .places import Where, here, somewhere

NAME = click.argument("name")
COMPONENT = click.argument("component", required=False)


@click.command(name="list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces of the cluster.")
@somewhere
def list_(all_namespaces: bool, where: Where) -> None:
    """List Federations.

    Those of this machine, or with -n, -A or --context those of a cluster.
    """
    with plain_errors():
        if where.on_cluster or all_namespaces:
            from . import cluster

            cluster.show_list(where, all_namespaces)
        else:
            from . import machine

            machine.show_list()


@click.command()
@NAME
@click.option("-w", "--watch", is_flag=True, help="Show it again when it changes, until Ctrl-C.")
@somewhere
def status(name: str, watch: bool, where: Where) -> None:
    """Show a Federation's pools and what is wrong.

    The exit status is 0 if it is ready, else 1. With --watch, Ctrl-C ends it with 0.
    """
    with plain_errors():
        try:
            if own := here(name, where):
                from . import machine

                ready = machine.show_status(own, watch)
            else:
                from . import cluster

                ready = cluster.show_status(where, name, watch)
        except KeyboardInterrupt:
            if not watch:
                raise
            ready = True  # this is how it is meant to end
    sys.exit(0 if ready else 1)


@click.command()
@NAME
@COMPONENT
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written.")
@click.option("-p", "--previous", is_flag=True, help="Of the containers before their last restart.")
@somewhere
def logs(name: str, component: str | None, follow: bool, previous: bool, where: Where) -> None:
    """Print what a Federation wrote.

    All of it, or that of a COMPONENT: superlink, POOL, POD or POD/CONTAINER; on a cluster also
    serverapp, if ServerApps have a pod of their own.
    """
    if follow and previous:
        raise click.UsageError("what has ended cannot be followed: -f or --previous")
    with plain_errors():
        if own := here(name, where):
            from . import machine

            machine.show_logs(own, component, follow, previous)
        else:
            from . import cluster

            cluster.show_logs(where, name, component, follow, previous)


@click.command()
@NAME
@COMPONENT
@somewhere
def restart(name: str, component: str | None, where: Where) -> None:
    """Restart a Federation or a component.

    A COMPONENT is superlink, POOL or POD; on this machine POD/CONTAINER too. On a cluster its
    pods are deleted and made anew, all at once; without it, the operator rolls every workload.
    """
    with plain_errors():
        if own := here(name, where):
            from . import machine

            machine.restart(own, component)
        else:
            from . import cluster

            cluster.restart(where, name, component)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("app", type=click.Path(path_type=Path))
@click.option("--federation", "name", help="Name of the Federation; the only one by default.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[FLWR RUN OPTIONS]...")
@somewhere
def run(app: Path, name: str | None, options: tuple[str, ...], where: Where) -> None:
    """Submit a Flower app and stream its log."""
    with plain_errors():
        if own := here(name, where):
            from . import machine

            ended = machine.run(own, app, options)
        else:
            from . import cluster

            ended = cluster.run(where, name, app, options)
    sys.exit(ended)


@click.command()
@NAME
@click.option("--write", is_flag=True, help="Put it where that release of flwr reads it.")
@click.option(
    "--app",
    type=click.Path(path_type=Path),
    default=Path(),
    help="The app's folder, for releases that read it from there.",
)
@somewhere
def config(name: str, write: bool, app: Path, where: Where) -> None:
    """Print the connection for plain `flwr run`.

    It is in the form of the Federation's release. For one on a cluster, the command that forwards
    the port comes first.
    """
    with plain_errors():
        if own := here(name, where):
            from . import machine

            machine.show_config(own, app if write else None)
        else:
            from . import cluster

            cluster.show_config(where, name, app if write else None)


@click.command()
@NAME
@somewhere
def ca(name: str, where: Where) -> None:
    """Print what clients of a secure Federation must trust.

    Its CA's certificate as PEM; while it is rotated, that of the old and of the new one.
    """
    with plain_errors():
        if own := here(name, where):
            from . import machine

            machine.show_authority(own)
        else:
            from . import cluster

            cluster.show_authority(where, name)


@click.command()
@NAME
@click.option("--for", "cluster", metavar="CLUSTER", required=True, help="Who joins: its pool.")
@click.option(
    "--replicas",
    default=1,
    show_default=True,
    help="Number of its SuperNodes.",
    type=click.IntRange(1, 1000),
)
@somewhere
def join(name: str, cluster: str, replicas: int, where: Where) -> None:
    """Print the manifest with which another cluster joins.

    Apply it there, where the operator runs too, or give it to `flower-operator up`. Where
    SuperNodes have keys, it holds new ones, which the SuperLink is told of: keep it secret.
    """
    with plain_errors():
        if own := here(name, where):
            from . import machine

            machine.join(own, cluster, replicas)
        else:
            from . import cluster as clusters

            clusters.join(where, name, cluster, replicas)


@click.command()
@NAME
@somewhere
def suspend(name: str, where: Where) -> None:
    """End a Federation's SuperNodes for a while.

    On a cluster only. Its SuperLink and its state stay.
    """
    _set_suspended(name, where, True)


@click.command()
@NAME
@somewhere
def resume(name: str, where: Where) -> None:
    """Start a Federation's SuperNodes again."""
    _set_suspended(name, where, False)


def _set_suspended(name: str, where: Where, suspended: bool) -> None:
    with plain_errors():
        if own := here(name, where):
            from . import machine

            machine.refuse_suspension(own)
        else:
            from . import cluster

            cluster.set_suspended(where, name, suspended)


@click.command()
@click.argument("name", required=False)
@somewhere
def doctor(name: str | None, where: Where) -> None:
    """Look for what is wrong on a cluster.

    The cluster, the operator, what you may do, and each Federation of the namespace, or one: a
    line for each check. The exit status is 1 if anything is wrong.
    """
    from . import cluster

    with plain_errors():
        well = cluster.examine(where, name)
    sys.exit(0 if well else 1)


COMMANDS: list[click.Command] = [
    list_,
    status,
    logs,
    restart,
    run,
    config,
    ca,
    join,
    suspend,
    resume,
    doctor,
]
