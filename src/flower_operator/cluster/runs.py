"""Runs submitted to a Federation of a cluster, over a forwarded port."""

import asyncio
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..api.rules import superlink_name
from ..kube.client import Client
from ..kube.forward import HOST, forward
from ..runs.connections import Target
from ..runs.environments import environment
from ..runs.submission import submit
from .federations import Federation, list_pods
from .pods import superlink_pod
from .trust import read_bundle


async def run(
    client: Client,
    federation: Federation,
    app: Path,
    options: tuple[str, ...],
    write: Callable[[bytes], None],
    tell: Callable[[str], None],
) -> int:
    """`flwr run` through the API server; its exit status. `write` takes its output, `tell` hears
    what takes long or fails."""
    federation.check_superlink()
    bundle = None if federation.spec.insecure else await read_bundle(client, federation)
    pod = superlink_pod(federation.name, await list_pods(client, federation))
    release, dialect = federation.release, federation.dialect
    told = partial(tell, f"installing Flower {release}, once")
    folder = await asyncio.to_thread(environment, release, told)
    namespace = federation.metadata.namespace
    with tempfile.NamedTemporaryFile("w", suffix=".crt") as trusted:
        trusted.write(bundle or "")
        trusted.flush()
        async with forward(client, namespace, pod, federation.ports.control, tell) as port:
            path = trusted.name if bundle else None
            target = Target(federation.name, f"{HOST}:{port}", dialect, path)
            return await submit(target, folder, app, options, write)


def forwarded(federation: Federation) -> tuple[Target, str]:
    """The connection for a port forwarded by hand, and the arguments of kubectl to do so."""
    federation.check_superlink()
    dialect, endpoint = federation.dialect, federation.status.endpoints.superlink_service
    port = endpoint.rpartition(":")[2]
    service = f"service/{superlink_name(federation.name)}"
    arguments = f"port-forward -n {federation.metadata.namespace} {service} {port}"
    return Target(federation.name, f"{HOST}:{port}", dialect), arguments
