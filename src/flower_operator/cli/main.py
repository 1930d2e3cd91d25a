"""Commands and what they print."""

from __future__ import annotations

import sys
from typing import TextIO

import click

from .. import __version__
from .agent import agent
from .commands import COMMANDS
from .controller import controller
from .local_commands import COMMANDS as LOCAL_COMMANDS
from .terminal import echo, echo_content

PATHS = click.argument("paths", metavar="PATH...", nargs=-1, required=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="flower-operator", message="%(prog)s %(version)s")
def main() -> None:
    """Run Flower federations from one manifest."""


@main.command()
@PATHS
def validate(paths: tuple[str, ...]) -> None:
    """Check Federations: files, folders, or - for standard input."""
    from ..render import Facts
    from .manifests import read_manifests

    manifests = read_manifests(paths)
    for note in manifests.skipped:
        echo(note, err=True)
    valid, faults = manifests.render(Facts())
    for federation in valid:
        echo(f"{federation.source}: federation {federation.name} is valid")
        _echo_notices(federation.notices)
    _exit_with(manifests.faults + faults, found=len(manifests.federations))


@main.command()
@PATHS
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    help="For Federations that name none.",
)
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True
)
@click.option("--all", "everything", is_flag=True, help="Pass other objects through, untouched.")
@click.option("--fleet", is_flag=True, help="Also what clusters of pools with placement share.")
@click.option(
    "--ca",
    metavar="FILE",
    type=click.File(encoding="utf-8"),
    help="With --fleet: certificates that those clusters are to trust.",
)
def render(
    paths: tuple[str, ...],
    namespace: str,
    output: str,
    everything: bool,
    fleet: bool,
    ca: TextIO | None,
) -> None:
    """Print the Kubernetes objects that Federations become."""
    from ..render import Facts
    from .manifests import read_manifests
    from .output import to_json, to_yaml

    if ca and not fleet:
        raise click.UsageError("--ca is for --fleet")
    manifests = read_manifests(paths)
    facts = Facts(namespace=namespace)
    if fleet:
        from .fleet import renderer

        valid, faults = manifests.render(facts, renderer(manifests.federations, ca))
    else:
        valid, faults = manifests.render(facts)
    objects = [each for federation in valid for each in federation.objects]
    if everything:
        objects = manifests.others + objects
    else:
        for note in manifests.skipped:
            echo(note, err=True)
    for federation in valid:
        _echo_notices(federation.notices)
    _exit_with(manifests.faults + faults, found=len(manifests.federations) + len(manifests.others))
    echo_content(to_yaml(objects) if output == "yaml" else to_json(objects))


@main.command()
def crd() -> None:
    """Print the CustomResourceDefinition of Federation."""
    from ..api.crd import custom_resource_definition
    from .output import crd_to_yaml

    echo_content(crd_to_yaml(custom_resource_definition()))


@main.command()
def releases() -> None:
    """Show the Flower releases that are known and how they differ."""
    from .releases import release_table

    echo(release_table())


def _echo_notices(notices: tuple[str, ...]) -> None:
    for notice in notices:
        echo(f"  note: {notice}", err=True)


def _exit_with(faults: list[str], *, found: int) -> None:
    for fault in faults:
        echo(f"error: {fault}", err=True)
    if not faults and not found:
        echo("error: no Federation found", err=True)
    if faults or not found:
        sys.exit(1)


main.add_command(agent)
main.add_command(controller)
for command in LOCAL_COMMANDS + COMMANDS:
    main.add_command(command)
