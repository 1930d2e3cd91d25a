"""What the commands do with a Federation of this machine."""

import asyncio
import time
from pathlib import Path
from typing import NoReturn

from ..local import federations, joining
from ..local.federations import LocalError, matching, unknown_component
from ..local.state import Desired, Record, records
from ..runs.submission import check_app, submit
from .connection import show_connection
from .joining import show_joining
from .live import LiveTable
from .logs import print_logs
from .table import federation_table, list_table
from .terminal import ContentWriter, echo, echo_content

LOOK_SECONDS = 0.2


def show_list() -> None:
    found = [
        (desired, each.read_status()) for each in records() if (desired := each.read_desired())
    ]
    echo("\n".join(list_table(found)) if found else "No Federation runs on this machine.")


def show_status(own: Record, watch: bool) -> bool:
    """Says whether it is ready."""
    _desired(own)
    if watch:
        _watch(own)
    echo("\n".join(table(own)))
    status = own.read_status()
    return bool(status and status.ready)


def _watch(own: Record) -> NoReturn:
    live = LiveTable(lambda: table(own), each=True)
    while own.is_running():
        live.refresh()
        time.sleep(LOOK_SECONDS)
    raise LocalError(f"{own.name} ended")


def show_logs(own: Record, component: str | None, follow: bool, previous: bool) -> None:
    if previous:
        raise LocalError("a log of this machine goes on over restarts: leave --previous out")
    desired = _desired(own)
    names = [process.name for process in desired.processes]
    if component:
        names = matching(desired, component)
        if not names:
            raise LocalError(unknown_component(desired, component))
    print_logs(own, names, follow)


def restart(own: Record, component: str | None) -> None:
    for process in federations.restart(own, component):
        echo(f"{process} restarts")


def run(own: Record, app: Path, options: tuple[str, ...]) -> int:
    desired = _with_superlink(own)
    check_app(app)
    environment, write = Path(desired.environment), ContentWriter().write
    return asyncio.run(submit(desired.target, environment, app, options, write))


def show_config(own: Record, app: Path | None) -> None:
    """Printed, or written for an app."""
    show_connection(_with_superlink(own).target, app)


def show_authority(own: Record) -> None:
    trusted = _with_superlink(own).root_certificates
    if trusted is None:
        raise LocalError(f"{own.name} has insecure: true: it has no certificates")
    echo_content(Path(trusted).read_text())


def join(own: Record, cluster: str, replicas: int) -> None:
    show_joining(*joining.join(_with_superlink(own), cluster, replicas))


def refuse_suspension(own: Record) -> None:
    raise LocalError(
        f"{own.name} runs on this machine, where it can only be ended: flower-operator down "
        f"{own.name}; for one on a cluster name its namespace with -n"
    )


def table(own: Record) -> list[str]:
    desired = own.read_desired()
    return federation_table(desired, own.read_status()) if desired else []


def _with_superlink(own: Record) -> Desired:
    desired = _desired(own)
    if desired.external:
        raise LocalError(
            f"the SuperLink of {own.name} runs elsewhere, at {desired.fleet}: ask there"
        )
    return desired


def _desired(own: Record) -> Desired:
    desired = own.read_desired()
    if desired is None:
        raise LocalError(f"{own.name} is ending")
    return desired
