"""A Federation started on this machine, or changed to what its manifest says now."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import SIGHUP

from ..api.problems import InvalidFederation
from ..api.rules import STATE_VOLUME
from ..api.types import Federation
from ..flower.commands import ENVOY_VERSION
from ..flower.compatibility import database_mismatch
from ..flower.node_config import fill_in
from ..flower.releases import Release, parse_release
from ..render import Facts, Plan, render
from ..runs.environments import environment, installed_release
from ..trust.keys import keyring_name
from ..trust.layout import Files
from .envoy import envoy_binary
from .federations import LocalError, Started
from .files import open_file, write_file
from .keys import Keys, Known, renew_keys, take_keys
from .ports import Ports
from .processes import (
    Machine,
    control_address,
    fleet_address,
    host_paths,
    left_out,
    own_volume,
    processes,
)
from .state import Desired, Record, allocation, record
from .trust import Trust, renew_secrets, renew_trust
from .validation import pod_problems

LEAST_BYTES = 200 * 1024 * 1024
MOST_SUPERNODES = 1000
RELEASE_FILE = "flower-release"
"""Beside a database: what used it last."""

# What a pool with placement reads as its {cluster}.
CLUSTER = "local"


@dataclass(frozen=True)
class Options:
    nodes: int = 1
    release: str | None = None
    environment: Path | None = None
    port: int | None = None
    secrets: Mapping[str, Files] = field(default_factory=dict)
    """What came with the manifests beside Federations, by name."""


def start(
    federation: Federation, options: Options, *, attached: bool, tell: Callable[[str], None]
) -> Started:
    """Start a Federation, or change it to this if it runs; `tell` hears what takes long.

    Raises InvalidFederation."""
    federation = _with_release(federation, options)
    if problems := list(pod_problems(federation)):
        raise InvalidFederation(problems)
    plan = render(_for_this_machine(federation), Facts())
    own = record(federation.name)
    database = _database(federation, own)
    _refuse_database(database, plan.releases.superlink)
    _refuse_too_many(federation, options)
    _refuse_missing_gpus(federation)
    _refuse_missing_folders(plan)
    _refuse_full_disk(own.folder)
    _install(plan, options, tell)
    with allocation():
        before = own.read_desired()
        told = _ask(federation, own, before)
        trust = _trust(federation, own, before, told)
        keys = _keys(federation, options, own, before, told)
        own.write_desired(_desired(federation, plan, own, options, before, trust, keys))
        if database:
            write_file(own.folder, database / RELEASE_FILE, str(plan.releases.superlink))
    notices = (*plan.notices, *_cluster_notices(federation), *_container_notices(plan))
    notices += (*(trust.notices if trust else ()), *keys.notices)
    if own.is_running():
        own.signal(SIGHUP)
        return Started(own, notices, None)
    (own.folder / "status.json").unlink(missing_ok=True)
    return Started(own, notices, _spawn(own, attached))


def _install(plan: Plan, options: Options, tell: Callable[[str], None]) -> None:
    """Everything that may take minutes, before anything is promised to anyone."""
    if plan.gateway:
        envoy_binary(partial(tell, f"installing Envoy {ENVOY_VERSION}, once"))
    if options.environment:
        return
    own = plan.releases
    needed = {own.superlink, own.serverapp}
    needed.update(release for pool in own.pools for release in (pool.supernode, pool.clientapp))
    for release in sorted(needed):
        environment(release, partial(tell, f"installing Flower {release}, once"))


def _ask(federation: Federation, own: Record, before: Desired | None) -> Known:
    if federation.spec.insecure or before is None or not own.is_running():
        return Known()
    if federation.spec.superlink.external or before.external:
        return Known()
    from .superlink import ask

    return ask(before)


def _trust(
    federation: Federation, own: Record, before: Desired | None, told: Known
) -> Trust | None:
    if federation.spec.insecure:
        return None
    pools = [pool.name for pool in federation.spec.supernodes.pools]
    if federation.spec.superlink.external:
        return renew_secrets(own.folder, federation.name, pools)
    running = before.processes if before and own.is_running() else []
    limit = federation.spec.tls.rotation.longest
    return renew_trust(
        own.folder,
        federation.name,
        running,
        pools,
        busy=told.busy,
        max_wait=limit,
        gateway=federation.spec.superlink.gateway.enabled,
    )


def _keys(
    federation: Federation,
    options: Options,
    own: Record,
    before: Desired | None,
    told: Known,
) -> Keys:
    if not federation.spec.supernode_auth.enabled:
        return Keys({}, ())
    if federation.spec.superlink.external:
        pools = {pool.name: pool.replicas or 0 for pool in federation.spec.supernodes.pools}
        return take_keys(own.folder, federation.name, pools, options.secrets)
    daemons = federation.spec.mode == "DaemonSet"
    nodes = _node_names(options.nodes)
    names = {
        pool.name: nodes if daemons else [str(index) for index in range(pool.replicas or 0)]
        for pool in federation.spec.supernodes.pools
    }
    rings = before.keyrings if before else {}
    limit = federation.spec.tls.rotation.longest
    return renew_keys(own.folder, federation.name, names, rings, told, limit)


def _desired(
    federation: Federation,
    plan: Plan,
    own: Record,
    options: Options,
    before: Desired | None,
    trust: Trust | None,
    keys: Keys,
) -> Desired:
    name = federation.name
    ports = Ports(before.ports if before else {}, kept=own.is_running())
    if options.port and not plan.external:
        ports.reserve("superlink", plan.ports.control, options.port)
    machine = Machine(
        folder=own.folder,
        nodes=_node_names(options.nodes),
        port_of=ports.port_of,
        environment_of=lambda release: options.environment or environment(release),
        envoy=envoy_binary() if plan.gateway else None,
        versions=trust.versions if trust else {},
        keys={keyring_name(name, pool): ring.keys for pool, ring in keys.rings.items()},
    )
    found = processes(plan, machine)
    control, fleet = "", plan.external
    if fleet is None:
        control = control_address(plan, machine)
        fleet = fleet_address(plan, machine)
    return Desired(
        name=name,
        release=str(plan.releases.superlink),
        control=control,
        fleet=fleet,
        supernodes=sum(process.container == "supernode" for process in found),
        processes=found,
        ports=ports.given,
        environment=str(machine.environment_of(plan.releases.superlink)),
        restarts=before.restarts if before else {},
        root_certificates=str(roots) if (roots := trust and trust.root_certificates) else None,
        keyrings={} if plan.external else keys.rings,
        renewal=trust.due if trust else None,
        manifest=federation.model_dump(by_alias=True, exclude_unset=True),
        external=plan.external is not None,
    )


def _node_names(count: int) -> tuple[str, ...]:
    host = socket.gethostname().partition(".")[0].lower() or "localhost"
    return (host,) if count == 1 else tuple(f"{host}-{number}" for number in range(count))


def _with_release(federation: Federation, options: Options) -> Federation:
    version = options.release
    if options.environment:
        found = installed_release(options.environment)
        asked = parse_release(version) if version else None
        if asked and asked.line != found.line:
            raise LocalError(f"{options.environment} has Flower {found}, not {version}")
        version = str(found)
    if version is None:
        return federation
    return federation.model_copy(
        update={"spec": federation.spec.model_copy(update={"version": version})}
    )


def _for_this_machine(federation: Federation) -> Federation:
    """There are no pods to be had here: SuperExecs run their tasks as they do if not told. Nor are
    there Secrets or issuers: certificates are made. It stands for one cluster of each Placement."""
    spec, untold = federation.spec, {"executor": None}
    pools = [
        pool.model_copy(
            update=untold
            | {"placement": None}
            | ({"node_config": _with_cluster(pool.node_config)} if pool.placement else {})
        )
        for pool in spec.supernodes.pools
    ]
    changes = {
        "superlink": spec.superlink.model_copy(update=untold),
        "supernodes": spec.supernodes.model_copy(update={"pools": pools}),
        "tls": spec.tls.model_copy(update={"secret_name": None, "issuer_ref": None}),
    }
    return federation.model_copy(update={"spec": spec.model_copy(update=changes)})


def _with_cluster(node_config: dict[str, str]) -> dict[str, str]:
    return {key: fill_in(value, "cluster", CLUSTER) for key, value in node_config.items()}


def _cluster_notices(federation: Federation) -> list[str]:
    executors = [federation.spec.superlink.executor]
    executors += [pool.executor for pool in federation.spec.supernodes.pools]
    notices = []
    if "kubernetes" in executors:
        notices.append("executor kubernetes is for clusters; here tasks are processes like others")
    if federation.spec.tls.from_elsewhere and not federation.spec.insecure:
        notices.append("spec.tls.secretName and issuerRef are for clusters; here a CA is made")
    if any(pool.placement for pool in federation.spec.supernodes.pools):
        notices.append(f"this machine stands for each placement's one cluster, {CLUSTER!r}")
    if federation.spec.interconnect:
        notices.append("spec.interconnect is for clusters; here everyone is at one machine")
    return notices


def _container_notices(plan: Plan) -> list[str]:
    names = left_out(plan)
    return [f"container {name} is not one of Flower's and does not run here" for name in names]


def _refuse_too_many(federation: Federation, options: Options) -> None:
    pools = federation.spec.supernodes.pools
    total = sum(pool.replicas or options.nodes for pool in pools)
    if total > MOST_SUPERNODES:
        raise LocalError(
            f"{total} SuperNodes are too many for one machine; {MOST_SUPERNODES} may run here"
        )


def _refuse_missing_gpus(federation: Federation) -> None:
    devices = {"nvidia": Path("/dev/nvidiactl"), "amd": Path("/dev/kfd")}
    for pool in federation.spec.supernodes.pools:
        vendor = pool.gpu.vendor or "nvidia"
        if (pool.gpu.enabled or pool.gpu.mount_all) and not devices[vendor].exists():
            raise LocalError(
                f"pool {pool.name} asks for {vendor} GPUs and this machine has none; "
                "set gpu.enabled: false to run it here"
            )


def _refuse_missing_folders(plan: Plan) -> None:
    """Nothing is made outside the state folder, whatever the hostPath's type."""
    for volume, path in host_paths(plan):
        if not Path(path).exists():
            raise LocalError(
                f"volume {volume}: hostPath: {path} does not exist on this machine; make it first"
            )


def _database(federation: Federation, own: Record) -> Path | None:
    """The folder that outlives the SuperLink, if there is one."""
    kept = federation.spec.superlink.persistence
    return own_volume(own.folder, "superlink", STATE_VOLUME) if kept else None


def _refuse_database(folder: Path | None, superlink: Release) -> None:
    if folder is None or not (folder / RELEASE_FILE).exists():
        return
    last = parse_release((folder / RELEASE_FILE).read_text())
    if last and (mismatch := database_mismatch(last, superlink)):
        raise LocalError(f"{mismatch}; run {last} again, or remove {folder} to begin without it")


def _refuse_full_disk(folder: Path) -> None:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if shutil.disk_usage(existing).free < LEAST_BYTES:
        raise LocalError(f"{existing} has less than {LEAST_BYTES >> 20} MiB free")


def _spawn(own: Record, attached: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "flower_operator.local.supervisor", str(own.folder)]
    with open_file(own.folder, own.folder / "supervisor.log", "wb") as log:
        return subprocess.Popen(
            command + ["attached"] * attached,
            stdin=subprocess.PIPE if attached else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
