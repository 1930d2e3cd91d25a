"""Where a Federation is: on this machine, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from ..local.state import Record


ONLY_CLUSTER = object()
"""What the click context of `kubectl flower` holds."""


class Where(NamedTuple):
    """What the user said of the place."""

    namespace: str | None
    context: str | None
    only_cluster: bool

    @property
    def on_cluster(self) -> bool:
        return bool(self.only_cluster or self.namespace or self.context)


def somewhere(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that name a cluster; the command gets them as `where`."""

    @click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Namespace on the cluster; the context's by default.",
    )
    @click.option(
        "--context", metavar="NAME", help="Context of the kubeconfig; the current one by default."
    )
    @wraps(command)
    def placed(namespace: str | None, context: str | None, **arguments: Any) -> Any:
        only_cluster = click.get_current_context().find_root().obj is ONLY_CLUSTER
        return command(where=Where(namespace, context, only_cluster), **arguments)

    return placed


def here(name: str | None, where: Where) -> Record | None:
    """The Federation of this machine that is meant; None: one of a cluster."""
    from ..local.federations import find
    from ..local.state import records

    if where.on_cluster:
        return None
    names = [each.name for each in records()]
    return find(name) if name in names or (name is None and names) else None
