"""What a status needs to know of a Federation's plan, small enough to keep for each."""

from dataclasses import dataclass
from datetime import timedelta

from ..api.rules import pool_name, serverapp_name, superlink_name
from ..api.types import Federation, IssuerRef, Mode, Rollout
from ..flower.commands import LOOPBACK
from ..render import Facts, Plan
from ..render.gateway import watches_certificate
from ..render.metadata import namespace_of
from ..render.network import control_notices
from ..render.persistence import keeps_state, persistence_notices
from ..render.releases import Assumed
from ..render.secrets import (
    name_notices,
    readable_key_notices,
    superexec_secret,
    supernode_certificate,
)
from ..render.serverapp import has_tls, is_apart, is_relayed, is_remote, serverapp_notices
from ..render.superlink import control_address
from ..trust.names import server_names, service_name, supernode_names

ROLLOUT = Rollout()
# A kubelet looks at the Secrets of its pods every 60 to 90 s, and may be busy.
REREAD_WITHIN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class PoolOutline:
    name: str
    workload: str
    kind: Mode
    replicas: int | None
    """Now; None: as many as there are nodes for it."""
    release: str
    launches_pods: bool
    """Whether its tasks are pods of their own."""
    hangs: bool = False
    """Whether a SuperNode that is refused hangs."""
    shares_secret: bool = False
    """Whether its SuperNodes and SuperExecs share one."""
    placement: str = ""
    """What selects the clusters that it runs on, where that is not this one."""
    position: int = 0
    """In the manifest."""
    size: int = 0
    """SuperNodes with a number, also while it is suspended."""
    rollout: Rollout = ROLLOUT
    """How what is new reaches its clusters, where it has a placement."""
    assumed: Assumed = ()


@dataclass(frozen=True, slots=True)
class Exposure:
    """How the SuperLink is reached from other clusters, as far as the manifest says it."""

    service_type: str
    address: str | None
    port: int
    node_port: int | None


@dataclass(frozen=True, slots=True)
class TlsOutline:
    """Where certificates come from, and what they are for."""

    secret: str | None = None
    """A Secret with a certificate that was made elsewhere."""
    issuer: IssuerRef | None = None
    demanded: tuple[str, ...] = ()
    """The names by which Flower itself connects, which no certificate may lack."""
    supernode: tuple[str, ...] = ()
    """What the certificate of SuperNodes is for, where their own API has TLS."""
    reread_within: timedelta | None = None
    """How soon a gateway serves a new certificate; None: the SuperLink is restarted for it."""


@dataclass(frozen=True, slots=True)
class Outline:
    superlink: str
    superlink_kind: str
    endpoint: str
    release: str
    pools: tuple[PoolOutline, ...]
    """Those of this cluster."""
    notices: tuple[str, ...]
    suspended: bool
    secure: bool
    launches_pods: bool
    """Whether the SuperLink's tasks are pods of their own."""
    serverapp: str | None = None
    """The Deployment of the SuperExec for ServerApps, where it is not in the SuperLink's pod."""
    names: tuple[str, ...] = ()
    """What the SuperLink's certificate is for, where it has one."""
    shares_secret: bool = False
    """Whether the SuperLink and the SuperExec for ServerApps, or relays, share one."""
    authenticated: bool = False
    """Whether SuperNodes have keys that are made and registered here."""
    tls: TlsOutline = TlsOutline()
    keeps_state: bool = False
    """Whether the SuperLink has a database."""
    max_wait: timedelta | None = None
    """How long a restart waits for runs; None: until they end."""
    placed: tuple[PoolOutline, ...] = ()
    """Pools of other clusters; their replicas are those on each."""
    exposure: Exposure | None = None
    """Where there are such pools."""
    interconnected: bool = False
    """Whether Skupper is to lead other clusters to the SuperLink."""
    external: bool = False
    """Whether the SuperLink runs elsewhere; `endpoint` is its address then."""
    assumed: Assumed = ()
    """Containers of the SuperLink whose release is a guess."""


def outline_of(federation: Federation, plan: Plan, facts: Facts) -> Outline:
    spec = federation.spec
    every = tuple(
        PoolOutline(
            name=pool.name,
            workload=pool_name(federation.name, pool.name),
            kind=spec.mode,
            replicas=0 if spec.suspend else pool.replicas,
            release=str(releases.supernode),
            launches_pods=pool.executor == "kubernetes",
            hangs=releases.supernode_dialect.refused_supernode_hangs,
            shares_secret=superexec_secret(federation, releases.supernode_dialect) is not None,
            placement=pool.placement.name if pool.placement else "",
            position=position,
            size=pool.replicas or 0,
            rollout=pool.placement.rollout if pool.placement else ROLLOUT,
            assumed=releases.assumed,
        )
        for position, (pool, releases) in enumerate(
            zip(spec.supernodes.pools, plan.releases.pools, strict=True)
        )
    )
    placed = tuple(pool for pool in every if pool.placement)
    names: tuple[str, ...] = ()
    external = spec.superlink.external
    if not spec.insecure and not external:
        namespace = namespace_of(federation, facts)
        others = [*spec.tls.subject_alt_names]
        if address := spec.superlink.service.external_address:
            others.append(address)
        names = server_names(federation.name, namespace, others)
    apart = is_apart(federation)
    return Outline(
        superlink=superlink_name(federation.name),
        superlink_kind="StatefulSet" if spec.superlink.has_claims else "Deployment",
        endpoint=external.address if external else control_address(federation, facts),
        release=str(plan.releases.superlink),
        pools=tuple(pool for pool in every if not pool.placement),
        notices=(
            *plan.notices,
            *control_notices(federation),
            *persistence_notices(federation, plan.releases.superlink_dialect),
            *serverapp_notices(federation),
            *name_notices(federation),
            *readable_key_notices(federation),
        ),
        suspended=spec.suspend,
        secure=not spec.insecure,
        launches_pods=spec.superlink.executor == "kubernetes",
        serverapp=serverapp_name(federation.name) if apart else None,
        names=names,
        shares_secret=not external and _shares_secret(federation, plan),
        authenticated=spec.supernode_auth.enabled and not external,
        tls=TlsOutline() if external else _tls(federation, plan, facts),
        keeps_state=keeps_state(federation, plan.releases.superlink_dialect),
        max_wait=spec.tls.rotation.longest,
        placed=placed,
        exposure=exposure_of(federation) if placed else None,
        interconnected=bool(spec.interconnect) and not external,
        external=external is not None,
        assumed=plan.releases.assumed,
    )


def _shares_secret(federation: Federation, plan: Plan) -> bool:
    secret = superexec_secret(federation, plan.releases.superlink_dialect)
    return secret is not None or is_relayed(federation, plan.releases)


def exposure_of(federation: Federation) -> Exposure:
    service = federation.spec.superlink.service
    return Exposure(
        service.type, service.external_address, service.ports.grpc, service.node_ports.grpc
    )


def _tls(federation: Federation, plan: Plan, facts: Facts) -> TlsOutline:
    spec, releases = federation.spec, plan.releases
    name, namespace = federation.name, namespace_of(federation, facts)
    demanded = [service_name(name, namespace)]
    beside = spec.isolation_mode == "process" and not is_remote(federation)
    if beside and has_tls(federation, releases):
        demanded.append(LOOPBACK)
    serves = any(supernode_certificate(federation, pool, facts) for pool in releases.pools)
    return TlsOutline(
        spec.tls.secret_name,
        spec.tls.issuer_ref,
        tuple(demanded),
        supernode_names(name, namespace) if serves else (),
        REREAD_WITHIN if watches_certificate(federation) else None,
    )
