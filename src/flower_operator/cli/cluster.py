"""What the commands do with a Federation of a cluster."""

import asyncio
import logging
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import msgspec

from ..api import types as api
from ..cluster import federations, joining, logs, runs
from ..cluster.errors import ClusterError, explain
from ..cluster.federations import Federation
from ..cluster.following import following
from ..cluster.pods import matching
from ..cluster.trust import read_bundle
from ..kube.client import Client
from ..kube.connection import Connection, ConnectionFault, NoKubeconfig, connect
from ..kube.errors import ApiError, Unreachable
from ..render.joining import Joining
from ..runs.connections import certificates_path
from ..runs.submission import check_app
from .cluster_table import federation_table, finding_lines, list_table
from .connection import show_connection
from .errors import note
from .joining import show_joining
from .live import LiveTable
from .places import Where
from .terminal import ContentWriter, echo, echo_content, one_line

MANAGER = "kubectl-flower"


def show_list(where: Where, all_namespaces: bool) -> None:
    async def listed() -> tuple[list[Federation], str]:
        async with _cluster(where) as (client, namespace, _):
            found = await federations.list_federations(
                client, None if all_namespaces else namespace
            )
            return found, "the cluster" if all_namespaces else f"namespace {namespace}"

    found, place = asyncio.run(listed())
    if found:
        echo("\n".join(list_table(found, time.time(), namespaces=all_namespaces)))
    else:
        echo(f"No Federation is in {place}.")


def show_status(where: Where, name: str, watch: bool) -> bool:
    """Says whether it is ready."""
    return asyncio.run(_watch(where, name) if watch else _show_status(where, name))


async def _show_status(where: Where, name: str) -> bool:
    async with _federation(where, name) as (client, federation):
        pods = await federations.list_pods(client, federation)
    echo("\n".join(federation_table(federation, pods, time.time(), _width())))
    return federation.ready


async def _watch(where: Where, name: str) -> NoReturn:
    lines: list[str] = []
    fault: list[str] = []
    live = LiveTable(lambda: lines + fault, each=True)

    def tell(text: str) -> None:
        """In the table, where there is one: anything beside it would be written over."""
        nonlocal fault
        if width := _width():
            fault = textwrap.wrap(f"{time.strftime('%X')} {one_line(text)}", width - 1)
            live.refresh()
        else:
            note(text)

    async with (
        _federation(where, name) as (client, federation),
        following(client, federation.metadata.namespace, name) as found,
    ):
        _tell_faults(tell)
        async for current, pods in found.views():
            if current is None:
                break
            lines, fault = federation_table(current, pods, time.time(), _width()), []
            live.refresh()
    raise ClusterError(f"{name} was deleted")


def show_logs(where: Where, name: str, component: str | None, follow: bool, previous: bool) -> None:
    async def shown() -> None:
        async with _federation(where, name) as (client, federation):
            pods = await federations.list_pods(client, federation)
            # One that is followed may get its first pods later.
            meant = matching(pods, component) if pods or not follow else []
            printer = _Printer([f"{pod.title}/{each}" for pod, own in meant for each in own])
            if follow:
                _tell_faults(note)
                await logs.follow_logs(client, federation, component, printer.put)
            else:
                await logs.read_logs(client, meant, printer.put, note, previous=previous)

    asyncio.run(shown())


def restart(where: Where, name: str, component: str | None) -> None:
    async def restarted() -> None:
        async with _federation(where, name) as (client, federation):
            if component is None:
                await federations.restart(client, federation)
                echo(f"{name}: the operator restarts every pod")
                return
            if "/" in component:
                raise ClusterError(
                    "a container of a pod cannot be restarted by itself; "
                    f"name the pod: {component.partition('/')[0]}"
                )
            pods = await federations.list_pods(client, federation)
            for pod, _ in matching(pods, component):
                await federations.restart_pod(client, pod)
                echo(f"{pod.name} restarts")

    asyncio.run(restarted())


def run(where: Where, name: str | None, app: Path, options: tuple[str, ...]) -> int:
    async def ran() -> int:
        async with _federation(where, name) as (client, federation):
            check_app(app)
            write = ContentWriter().write
            return await runs.run(client, federation, app, options, write, note)

    return asyncio.run(ran())


def show_config(where: Where, name: str, app: Path | None) -> None:
    """Printed after the commands that make it lead somewhere, or written for an app."""

    async def found() -> tuple[Federation, str | None]:
        async with _federation(where, name) as (client, federation):
            secure = not federation.spec.insecure
            return federation, await read_bundle(client, federation) if secure else None

    federation, bundle = asyncio.run(found())
    target, arguments = runs.forwarded(federation)
    context = f" --context {shlex.quote(where.context)}" if where.context else ""
    echo(f"# kubectl{context} {arguments}")
    if bundle is None:
        show_connection(target, app)
        return
    path = certificates_path(target, app or Path())
    target = replace(target, root_certificates=str(path))
    if app is None:
        place = f"{name} -n {federation.metadata.namespace}{context}"
        echo(f"# kubectl flower ca {place} > {shlex.quote(str(path))}")
    show_connection(target, app)
    if app is not None:
        path.write_text(bundle)


def show_authority(where: Where, name: str) -> None:
    async def found() -> str:
        async with _federation(where, name) as (client, federation):
            return await read_bundle(client, federation)

    echo_content(asyncio.run(found()))


def join(where: Where, name: str, cluster: str, replicas: int) -> None:
    async def joined() -> tuple[api.Federation, Joining]:
        async with _federation(where, name) as (client, federation):
            return await joining.join(client, federation, cluster, replicas, note)

    show_joining(*asyncio.run(joined()))


def set_suspended(where: Where, name: str, suspended: bool) -> None:
    async def changed() -> bool:
        async with _federation(where, name) as (client, federation):
            return await federations.set_suspended(client, federation, suspended)

    if not asyncio.run(changed()):
        echo(f"{name} is {'suspended' if suspended else 'not suspended'} already")
    elif suspended:
        echo(f"{name} is suspended: its SuperNodes end, its SuperLink goes on")
    else:
        echo(f"{name} is resumed: its SuperNodes start")


def examine(where: Where, name: str | None) -> bool:
    """Says whether nothing is wrong."""
    from ..cluster.examination import examine
    from ..cluster.gathering import gather

    async def examined() -> bool:
        async with _cluster(where) as (client, namespace, connection):
            evidence = await gather(client, connection.server, namespace, name)
        findings = examine(evidence)
        echo("\n".join(finding_lines(findings)))
        return all(each.verdict != "wrong" for each in findings)

    return asyncio.run(examined())


@asynccontextmanager
async def _cluster(where: Where) -> AsyncIterator[tuple[Client, str, Connection]]:
    try:
        connection = connect(context=where.context)
    except ConnectionFault as error:
        raise ClusterError(str(error)) from error
    try:
        async with Client(connection, MANAGER) as client:
            yield client, where.namespace or connection.namespace, connection
    except (ApiError, Unreachable) as error:
        raise ClusterError(explain(error, connection.server)) from None
    except msgspec.MsgspecError as error:
        message = f"the answer of the cluster at {connection.server} cannot be read: {error}"
        raise ClusterError(message) from None


@asynccontextmanager
async def _federation(where: Where, name: str | None) -> AsyncIterator[tuple[Client, Federation]]:
    """The Federation, by all means: where none of that name runs here, that is said too."""
    found = None
    try:
        async with _cluster(where) as (client, namespace, _):
            found = await federations.find(client, namespace, name)
            yield client, found
    except ClusterError as error:
        if found or where.on_cluster:
            raise
        missing = f"no Federation {name} runs on this machine" if name else "none runs here"
        remedy = ""
        if isinstance(error.__cause__, NoKubeconfig):
            remedy = "; to run one here: flower-operator up FILE"
        raise ClusterError(f"{missing}, and {error}{remedy}") from None


class _Printer:
    """Lines of several containers, each with its container in front."""

    def __init__(self, titles: list[str]) -> None:
        self._width = max(map(len, titles), default=0)

    def put(self, title: str, line: bytes) -> None:
        title = one_line(title)
        self._width = max(self._width, len(title))
        echo_content(f"{title:<{self._width}} | {line.decode(errors='replace')}\n")


class _Faults(logging.Handler):
    """What keeps the watches from their work, each once in a row."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text != self._last:
            self._last = text
            self._tell(text)


def _tell_faults(tell: Callable[[str], None]) -> None:
    log = logging.getLogger("flower_operator.kube")
    log.addHandler(_Faults(tell))
    log.propagate = False


def _width() -> int | None:
    """Columns of the terminal, if it is one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
