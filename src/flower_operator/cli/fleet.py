"""Federations over many clusters, without a cluster to ask."""

from collections.abc import Callable, Sequence
from typing import TextIO

import click
from cryptography import x509

from ..api.types import Federation
from ..fleet.static import render_fleet
from ..render import Facts, Plan


def renderer(
    federations: Sequence[object], ca: TextIO | None
) -> Callable[[Federation, Facts], Plan]:
    if ca and len(federations) > 1:
        raise click.UsageError("--ca is of one Federation, and there are several")
    bundle = _bundle(ca) if ca else None
    return lambda federation, facts: render_fleet(federation, facts, bundle)


def _bundle(file: TextIO) -> str:
    """It goes out to every cluster, so a key that got into the file must not."""
    try:
        text = file.read()
        x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        raise click.UsageError(f"{file.name} holds no certificates in PEM") from None
    if "PRIVATE KEY" in text:
        raise click.UsageError(f"{file.name} holds a private key; leave only certificates in it")
    return text
