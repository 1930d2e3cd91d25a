"""What a status needs to know of a Federation's plan, small enough to keep for each."""

from dataclasses import dataclass
from datetime import timedelta

from ..api.rules import pool_name, superlink_name
from ..api.types import Federation, Mode
from ..render import Facts, Plan
from ..render.metadata import namespace_of
from ..render.persistence import keeps_state, persistence_notices
from ..render.secrets import superexec_secret
from ..render.superlink import control_address
from ..trust.names import server_names


@dataclass(frozen=True, slots=True)
class PoolOutline:
    name: str
    workload: str
    kind: Mode
    replicas: int | None
    """None: as many as there are nodes for it."""
    release: str
    launches_pods: bool
    """Whether its tasks are pods of their own."""
    hangs: bool = False
    """Whether a SuperNode that is refused hangs."""


@dataclass(frozen=True, slots=True)
class Outline:
    superlink: str
    superlink_kind: str
    endpoint: str
    release: str
    pools: tuple[PoolOutline, ...]
    notices: tuple[str, ...]
    suspended: bool
    secure: bool
    launches_pods: bool
    """Whether the SuperLink's tasks are pods of their own."""
    names: tuple[str, ...] = ()
    """What the SuperLink's certificate is for, where it has one."""
    shares_secret: bool = False
    """Whether SuperExecs share a secret with their owners."""
    authenticated: bool = False
    """Whether SuperNodes have keys."""
    keeps_state: bool = False
    """Whether the SuperLink has a database."""
    max_wait: timedelta | None = None
    """How long a restart waits for runs; None: until they end."""


def outline_of(federation: Federation, plan: Plan, facts: Facts) -> Outline:
    spec = federation.spec
    pools = tuple(
        PoolOutline(
            name=pool.name,
            workload=pool_name(federation.name, pool.name),
            kind=spec.mode,
            replicas=0 if spec.suspend else pool.replicas,
            release=str(releases.supernode),
            launches_pods=pool.executor == "kubernetes",
            hangs=releases.supernode_dialect.refused_supernode_hangs,
        )
        for pool, releases in zip(spec.supernodes.pools, plan.releases.pools, strict=True)
    )
    names: tuple[str, ...] = ()
    if not spec.insecure:
        namespace = namespace_of(federation, facts)
        names = server_names(federation.name, namespace, spec.tls.subject_alt_names)
    dialects = [plan.releases.superlink_dialect]
    dialects += [each.supernode_dialect for each in plan.releases.pools]
    return Outline(
        superlink=superlink_name(federation.name),
        superlink_kind="StatefulSet" if spec.superlink.has_claims else "Deployment",
        endpoint=control_address(federation, facts),
        release=str(plan.releases.superlink),
        pools=pools,
        notices=(
            *plan.notices,
            *persistence_notices(federation, plan.releases.superlink_dialect),
        ),
        suspended=spec.suspend,
        secure=not spec.insecure,
        launches_pods=spec.superlink.executor == "kubernetes",
        names=names,
        shares_secret=any(superexec_secret(federation, each) for each in dialects),
        authenticated=spec.supernode_auth.enabled,
        keeps_state=keeps_state(federation, plan.releases.superlink_dialect),
        max_wait=spec.tls.rotation.longest,
    )
