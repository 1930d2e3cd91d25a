"""`kubectl flower`: the commands for Federations, on clusters alone."""

import click

from .. import __version__
from .commands import COMMANDS
from .places import ONLY_CLUSTER

NAME = "kubectl flower"


@click.group(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "obj": ONLY_CLUSTER,
    }
)
@click.version_option(__version__, prog_name=NAME, message="%(prog)s %(version)s")
def plugin() -> None:
    """Look after Flower Federations on a cluster."""


for command in COMMANDS:
    plugin.add_command(command)


def main() -> None:
    plugin(prog_name=NAME)
