"""Rules that span several fields: each once for the API server (CEL), once for Python.

A rule's two forms stand side by side because they must agree; a test sends generated
manifests through both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .limits import MAX_SUPERNODES

if TYPE_CHECKING:
    from .types import Federation, Pool, SuperLink

Path = tuple[str | int, ...]
POOLS: Path = ("spec", "supernodes", "pools")

# A name becomes the value of a label, 63 characters at most; a StatefulSet's gets the
# eleven characters of a revision hash behind it first.
LONGEST_NAME = 63
LONGEST_STATEFUL_NAME = 52

# Names that the operator gives to volumes of its own; a user's of that name would replace them.
OWN_VOLUMES = (
    "flower-ca",
    "flower-executor",
    "flower-gateway",
    "flower-keys",
    "flower-node-config",
    "flower-superexec",
    "flower-supernode-tls",
    "flower-tls",
    "flower-token",
)
STATE_VOLUME = "state"
"""The claim of persistence."""
# ConfigMaps that a pool with placement has on its clusters, named after the pool's workload.
PLACED_SUFFIXES = ("-admitted", "-ca", "-report")

ITEM = "[]"
ROOT: tuple[str, ...] = ()
SPEC = ("spec",)
SUPERLINK = (*SPEC, "superlink")
SERVICE = (*SUPERLINK, "service")
TLS = (*SPEC, "tls")
SUPERNODES = (*SPEC, "supernodes")
POOL = (*SUPERNODES, "pools", ITEM)

# Names that the rules of a place share in CEL. Each look at a field costs the API server, at every
# write of a Federation and of its status, so it looks once for all of them.
NAMES: dict[tuple[str, ...], dict[str, str]] = {
    ROOT: {"name": "self.metadata.name"},
    SPEC: {
        "stateful": "self.mode == 'StatefulSet'",
        "process": "self.isolationMode == 'process'",
        "insecure": "self.insecure",
        "superlink": "self.superlink",
        "external": "has(superlink.external)",
        "pools": "self.supernodes.pools",
        "keys": "has(self.supernodeAuth) && has(self.supernodeAuth.enabled) && "
        "self.supernodeAuth.enabled",
    },
    SUPERLINK: {
        "external": "has(self.external)",
        "launches_pods": "has(self.executor) && self.executor == 'kubernetes'",
    },
    POOL: {
        "launches_pods": "has(self.executor) && self.executor == 'kubernetes'",
        "mounts_all": "has(self.gpu) && has(self.gpu.mountAll) && self.gpu.mountAll",
    },
}
# One field by two names: the API server copies the old one into the new.
ACCOUNT_FIELDS = ("serviceAccountName", "serviceAccount")
NO_ACCOUNT = "!has(self.podTemplate) || !has(self.podTemplate.spec) || " + " && ".join(
    f"!has(self.podTemplate.spec.{field})" for field in ACCOUNT_FIELDS
)
NO_POOL_LAUNCHES_PODS = "pools.all(p, !has(p.executor) || p.executor != 'kubernetes')"


@dataclass(frozen=True)
class Rule:
    message: str
    where: tuple[str, ...]
    """The part of a Federation that is `self` in CEL: the smallest that has all it speaks of."""
    cel: str
    """May use the NAMES of that place. What holds for most comes first."""
    violations: Callable[[Federation], Iterator[Path]]
    """Yields the path of each field that breaks the rule."""


def superlink_name(federation: str) -> str:
    return f"{federation}-superlink"


def serverapp_name(federation: str) -> str:
    """Of what is there for ServerApps alone."""
    return f"{federation}-serverapp"


def supernodes_name(federation: str) -> str:
    """Of the Service that gives each SuperNode a name, where tasks in other pods need one."""
    return f"{federation}-supernodes"


def pool_name(federation: str, pool: str) -> str:
    return f"{federation}-supernode-{pool}"


def superexec_name(federation: str, pool: str) -> str:
    """Of what runs a pool's ClientApps on another cluster; no longer than the pool's own."""
    return f"{federation}-superexec-{pool}"


def _pools(
    applies: Callable[[Federation], bool], broken: Callable[[Pool], bool], *field: str
) -> Callable[[Federation], Iterator[Path]]:
    def violations(federation: Federation) -> Iterator[Path]:
        if applies(federation):
            for position, pool in enumerate(federation.spec.supernodes.pools):
                if broken(pool):
                    yield (*POOLS, position, *field)

    return violations


def _stateful(federation: Federation) -> bool:
    return federation.spec.mode == "StatefulSet"


def _daemon(federation: Federation) -> bool:
    return federation.spec.mode == "DaemonSet"


def _process(federation: Federation) -> bool:
    return federation.spec.isolation_mode == "process"


def _subprocess(federation: Federation) -> bool:
    return federation.spec.isolation_mode == "subprocess"


def _always(federation: Federation) -> bool:
    return True


def _no_pools(federation: Federation) -> Iterator[Path]:
    if not federation.spec.supernodes.pools:
        yield POOLS


def _too_many_supernodes(federation: Federation) -> Iterator[Path]:
    if sum(pool.replicas or 0 for pool in federation.spec.supernodes.pools) > MAX_SUPERNODES:
        yield POOLS


def _is_external(federation: Federation) -> bool:
    return federation.spec.superlink.external is not None


def _image_missing(federation: Federation) -> Iterator[Path]:
    if not federation.spec.superlink.image and not _is_external(federation):
        yield ("spec", "superlink", "image")


def _superlink_twice(federation: Federation) -> Iterator[Path]:
    superlink = federation.spec.superlink
    given = {
        "image": superlink.image,
        "superexecImage": superlink.superexec_image,
        "executor": superlink.executor,
        "persistence": superlink.persistence,
        "volumeClaimTemplates": superlink.volume_claim_templates,
        "gateway": superlink.gateway.enabled,
    }
    if _is_external(federation):
        yield from (("spec", "superlink", field) for field, value in given.items() if value)


def _authority_missing(federation: Federation) -> Iterator[Path]:
    external = federation.spec.superlink.external
    if external and not federation.spec.insecure and not external.ca:
        yield ("spec", "superlink", "external", "ca")


def _keys_for_nodes(federation: Federation) -> Iterator[Path]:
    enabled = federation.spec.supernode_auth.enabled
    if _is_external(federation) and enabled and _daemon(federation):
        yield ("spec", "supernodeAuth", "enabled")


def _superexec_image_missing(federation: Federation) -> Iterator[Path]:
    if _is_external(federation):
        return
    if _process(federation) and not federation.spec.superlink.superexec_image:
        yield ("spec", "superlink", "superexecImage")


def _superexec_image_given(federation: Federation) -> Iterator[Path]:
    if _subprocess(federation) and federation.spec.superlink.superexec_image:
        yield ("spec", "superlink", "superexecImage")


def _superlink_executor_in_subprocess(federation: Federation) -> Iterator[Path]:
    if _subprocess(federation) and federation.spec.superlink.executor == "kubernetes":
        yield ("spec", "superlink", "executor")


def _certified_elsewhere(federation: Federation) -> bool:
    elsewhere = federation.spec.tls.from_elsewhere or _is_external(federation)
    return not federation.spec.insecure and elsewhere


def _launches_pods(pool: Pool) -> bool:
    return pool.executor == "kubernetes"


def _account_of_superlink(federation: Federation) -> Iterator[Path]:
    superlink = federation.spec.superlink
    if superlink.executor == "kubernetes":
        for field in _named_accounts(superlink.pod_template):
            yield ("spec", "superlink", "podTemplate", "spec", field)


def _accounts_of_pools(federation: Federation) -> Iterator[Path]:
    for position, pool in enumerate(federation.spec.supernodes.pools):
        if _launches_pods(pool):
            for field in _named_accounts(pool.pod_template):
                yield (*POOLS, position, "podTemplate", "spec", field)


def _named_accounts(pod_template: dict[str, Any]) -> list[str]:
    return [field for field in ACCOUNT_FIELDS if field in pod_template.get("spec", {})]


def _authenticated_without_tls(federation: Federation) -> Iterator[Path]:
    if federation.spec.insecure and federation.spec.supernode_auth.enabled:
        yield ("spec", "supernodeAuth", "enabled")


def _keys_that_apps_can_read(federation: Federation) -> Iterator[Path]:
    authentication = federation.spec.supernode_auth
    allowed = _process(federation) or authentication.allow_subprocess
    if authentication.enabled and not allowed:
        yield ("spec", "supernodeAuth", "enabled")


def _two_sources_of_certificates(federation: Federation) -> Iterator[Path]:
    if federation.spec.tls.secret_name and federation.spec.tls.issuer_ref:
        yield ("spec", "tls", "issuerRef")


def _node_ports_inside(federation: Federation) -> Iterator[Path]:
    service = federation.spec.superlink.service
    if service.type == "ClusterIP" and service.node_ports.any_given:
        yield ("spec", "superlink", "service", "nodePorts")


def _ports_twice(federation: Federation) -> Iterator[Path]:
    ports = federation.spec.superlink.service.ports
    if ports.grpc == ports.extra:
        yield (*SERVICE, "ports", "extra")


def _runtime_port_twice(federation: Federation) -> Iterator[Path]:
    ports = federation.spec.superlink.service.ports
    if _process(federation) and ports.server_app_io in (ports.grpc, ports.extra):
        yield (*SERVICE, "ports", "serverAppIO")


def _node_ports_twice(federation: Federation) -> Iterator[Path]:
    ports = federation.spec.superlink.service.node_ports
    fixed = [port for port in (ports.grpc, ports.server_app_io, ports.extra) if port]
    if len(set(fixed)) < len(fixed):
        yield (*SERVICE, "nodePorts")


def _each(
    where: Path,
    broken: Callable[[SuperLink | Pool], Iterator[Path]],
    applies: Callable[[Federation], bool] = _always,
) -> Callable[[Federation], Iterator[Path]]:
    """Violations of the SuperLink, or of each pool, as paths within it."""

    def violations(federation: Federation) -> Iterator[Path]:
        if not applies(federation):
            return
        if where == SUPERLINK:
            yield from ((*where, *path) for path in broken(federation.spec.superlink))
            return
        for position, pool in enumerate(federation.spec.supernodes.pools):
            yield from ((*POOLS, position, *path) for path in broken(pool))

    return violations


def _claim_names(part: SuperLink | Pool) -> list[str]:
    return [claim["metadata"]["name"] for claim in part.volume_claim_templates]


def _claims_twice(part: SuperLink | Pool) -> Iterator[Path]:
    names = _claim_names(part)
    if len(set(names)) < len(names):
        yield ("volumeClaimTemplates",)


def _volumes_and_claims(part: SuperLink | Pool) -> Iterator[Path]:
    claims = _claim_names(part)
    for position, volume in enumerate(part.volumes):
        if volume["name"] in claims:
            yield ("volumes", position, "name")


def _own_volumes(part: SuperLink | Pool) -> Iterator[Path]:
    for position, volume in enumerate(part.volumes):
        if volume["name"] in OWN_VOLUMES:
            yield ("volumes", position, "name")
    for position, name in enumerate(_claim_names(part)):
        if name in OWN_VOLUMES:
            yield ("volumeClaimTemplates", position, "metadata", "name")


def _state_twice(federation: Federation) -> Iterator[Path]:
    superlink = federation.spec.superlink
    if superlink.persistence is None:
        return
    if STATE_VOLUME in _claim_names(superlink):
        yield (*SUPERLINK, "volumeClaimTemplates")
    if any(volume["name"] == STATE_VOLUME for volume in superlink.volumes):
        yield (*SUPERLINK, "volumes")


def _pool_names_taken(federation: Federation) -> Iterator[Path]:
    pools = federation.spec.supernodes.pools
    taken = {pool.name + suffix for pool in pools if pool.placement for suffix in PLACED_SUFFIXES}
    for position, pool in enumerate(pools):
        if pool.name in taken:
            yield (*POOLS, position, "name")


def _name_unfit(federation: Federation) -> Iterator[Path]:
    if not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", federation.name):
        yield ("metadata", "name")


def _superlink_name_too_long(federation: Federation) -> Iterator[Path]:
    limit = LONGEST_STATEFUL_NAME if federation.spec.superlink.has_claims else LONGEST_NAME
    if len(superlink_name(federation.name)) > limit:
        yield ("metadata", "name")


def _pool_name_too_long(federation: Federation) -> Iterator[Path]:
    limit = LONGEST_STATEFUL_NAME if _stateful(federation) else LONGEST_NAME
    for position, pool in enumerate(federation.spec.supernodes.pools):
        if len(pool_name(federation.name, pool.name)) > limit:
            yield (*POOLS, position, "name")


CLAIMANTS = (("spec.superlink", SUPERLINK), ("spec.supernodes.pools[*]", POOL))
VOLUMES_APART = (
    "!has({part}.volumes) || !has({part}.volumeClaimTemplates) || "
    "{part}.volumes.all(v, {part}.volumeClaimTemplates.all(c, c.metadata.name != v.name))"
)

RULES = (
    Rule(
        "spec.supernodes.pools must contain at least one pool",
        SUPERNODES,
        "size(self.pools) > 0",
        _no_pools,
    ),
    Rule(
        "replicas must not be set for pools when mode is DaemonSet",
        SPEC,
        "stateful || pools.all(p, !has(p.replicas))",
        _pools(_daemon, lambda pool: pool.replicas is not None, "replicas"),
    ),
    Rule(
        "replicas must be set (>=1) for every pool when mode is StatefulSet",
        SPEC,
        "!stateful || pools.all(p, has(p.replicas))",
        _pools(_stateful, lambda pool: pool.replicas is None, "replicas"),
    ),
    Rule(
        f"replicas of all pools may add up to {MAX_SUPERNODES} at most",
        SUPERNODES,
        f"self.pools.map(p, has(p.replicas) ? p.replicas : 0).sum() <= {MAX_SUPERNODES}",
        _too_many_supernodes,
    ),
    Rule(
        "spec.superlink.image is required unless spec.superlink.external is set",
        SUPERLINK,
        "external || has(self.image)",
        _image_missing,
    ),
    Rule(
        "image, superexecImage, executor, persistence, volumeClaimTemplates and gateway must not "
        "be set beside spec.superlink.external: that SuperLink runs elsewhere",
        SUPERLINK,
        "!external || !has(self.image) && "
        "(!has(self.superexecImage) || size(self.superexecImage) == 0) && "
        "!has(self.executor) && !has(self.persistence) && "
        "(!has(self.volumeClaimTemplates) || size(self.volumeClaimTemplates) == 0) && "
        "(!has(self.gateway) || !has(self.gateway.enabled) || !self.gateway.enabled)",
        _superlink_twice,
    ),
    Rule(
        "spec.superlink.external.ca is required when insecure=false: SuperNodes trust nothing else",
        SPEC,
        "!external || insecure || has(superlink.external.ca)",
        _authority_missing,
    ),
    Rule(
        "spec.supernodeAuth.enabled needs mode StatefulSet with spec.superlink.external: keys come "
        "with the manifest, one for each replica",
        SPEC,
        "!keys || stateful || !external",
        _keys_for_nodes,
    ),
    Rule(
        "spec.supernodes.pools[*].placement must not be set with spec.superlink.external: clusters "
        "are placed from where the SuperLink is",
        SPEC,
        "!external || pools.all(p, !has(p.placement))",
        _pools(_is_external, lambda pool: pool.placement is not None, "placement"),
    ),
    Rule(
        "spec.superlink.superexecImage is required when isolationMode=process",
        SPEC,
        "!process || external || has(superlink.superexecImage) && superlink.superexecImage != ''",
        _superexec_image_missing,
    ),
    Rule(
        "spec.supernodes.pools[*].images.superexecClientApp is required when isolationMode=process",
        SPEC,
        "!process || pools.all(p, has(p.images) && "
        "[p.images].all(i, has(i.superexecClientApp) && i.superexecClientApp != ''))",
        _pools(
            _process,
            lambda pool: not pool.images.superexec_client_app,
            "images",
            "superexecClientApp",
        ),
    ),
    Rule(
        "spec.superlink.superexecImage must be empty when isolationMode=subprocess",
        SPEC,
        "process || !has(superlink.superexecImage) || superlink.superexecImage == ''",
        _superexec_image_given,
    ),
    Rule(
        "spec.supernodes.pools[*].images.superexecClientApp must be empty when "
        "isolationMode=subprocess",
        SPEC,
        "process || pools.all(p, !has(p.images) || !has(p.images.superexecClientApp) || "
        "p.images.superexecClientApp == '')",
        _pools(
            _subprocess,
            lambda pool: bool(pool.images.superexec_client_app),
            "images",
            "superexecClientApp",
        ),
    ),
    Rule(
        "spec.supernodes.pools[*].gpu.vendor is required when gpu.mountAll=true",
        POOL,
        "!mounts_all || has(self.gpu.vendor)",
        _pools(
            _always, lambda pool: pool.gpu.mount_all and pool.gpu.vendor is None, "gpu", "vendor"
        ),
    ),
    Rule(
        "spec.superlink.executor may be kubernetes only when isolationMode=process",
        SPEC,
        "process || !has(superlink.executor) || superlink.executor != 'kubernetes'",
        _superlink_executor_in_subprocess,
    ),
    Rule(
        "spec.supernodes.pools[*].executor may be kubernetes only when isolationMode=process",
        SPEC,
        f"process || {NO_POOL_LAUNCHES_PODS}",
        _pools(_subprocess, _launches_pods, "executor"),
    ),
    Rule(
        "spec.supernodes.pools[*].executor may be kubernetes only when mode is StatefulSet: a "
        "task of a DaemonSet's pod could land on another node than its data",
        SPEC,
        f"stateful || {NO_POOL_LAUNCHES_PODS}",
        _pools(_daemon, _launches_pods, "executor"),
    ),
    Rule(
        "spec.supernodes.pools[*].executor may be kubernetes with spec.tls.secretName, issuerRef "
        "or spec.superlink.external only when insecure=true: no CA could sign certificates for "
        "SuperNodes, so their tasks would reach them in plain text",
        SPEC,
        "insecure || !external && (!has(self.tls) || !has(self.tls.secretName) && "
        f"!has(self.tls.issuerRef)) || {NO_POOL_LAUNCHES_PODS}",
        _pools(_certified_elsewhere, _launches_pods, "executor"),
    ),
    Rule(
        "spec.supernodes.pools[*].gpu.mountAll must be false when executor=kubernetes: use "
        "gpu.enabled, which requests GPUs for each task",
        POOL,
        "!launches_pods || !mounts_all",
        _pools(
            _always, lambda pool: _launches_pods(pool) and pool.gpu.mount_all, "gpu", "mountAll"
        ),
    ),
    Rule(
        "spec.superlink.podTemplate must not name a ServiceAccount when executor=kubernetes: the "
        "operator makes one, which may start pods and read Secrets",
        SUPERLINK,
        f"!launches_pods || {NO_ACCOUNT}",
        _account_of_superlink,
    ),
    Rule(
        "spec.supernodes.pools[*].podTemplate must not name a ServiceAccount when "
        "executor=kubernetes: the operator makes one, which may start pods and read Secrets",
        POOL,
        f"!launches_pods || {NO_ACCOUNT}",
        _accounts_of_pools,
    ),
    Rule(
        "spec.supernodeAuth.enabled may be true only when insecure=false: a SuperLink without TLS "
        "cannot tell SuperNodes apart",
        SPEC,
        "!keys || !insecure",
        _authenticated_without_tls,
    ),
    Rule(
        "spec.supernodeAuth.enabled needs isolationMode=process or "
        "spec.supernodeAuth.allowSubprocess=true: in subprocess isolation ClientApps can read "
        "their SuperNode's private key",
        SPEC,
        "!keys || process || has(self.supernodeAuth.allowSubprocess) && "
        "self.supernodeAuth.allowSubprocess",
        _keys_that_apps_can_read,
    ),
    Rule(
        "spec.tls.issuerRef must not be set when spec.tls.secretName is: the certificate comes "
        "from one of them",
        TLS,
        "!has(self.secretName) || !has(self.issuerRef)",
        _two_sources_of_certificates,
    ),
    Rule(
        "spec.superlink.service.nodePorts may be set only when type is NodePort or LoadBalancer",
        SERVICE,
        "!has(self.nodePorts) || self.type != 'ClusterIP' || !has(self.nodePorts.grpc) && "
        "!has(self.nodePorts.serverAppIO) && !has(self.nodePorts.extra)",
        _node_ports_inside,
    ),
    Rule(
        "spec.superlink.service.ports.grpc and extra must not be the same port: each leads to "
        "another API",
        SERVICE,
        "!has(self.ports) || self.ports.grpc != self.ports.extra",
        _ports_twice,
    ),
    Rule(
        "spec.superlink.service.ports.serverAppIO must not be the port of grpc or extra when "
        "isolationMode=process: each leads to another API",
        SPEC,
        "!process || !has(superlink.service) || !has(superlink.service.ports) || "
        "[superlink.service.ports].all(p, p.serverAppIO != p.grpc && p.serverAppIO != p.extra)",
        _runtime_port_twice,
    ),
    Rule(
        "spec.superlink.service.nodePorts must be different ports",
        SERVICE,
        "!has(self.nodePorts) || [self.nodePorts].all(p, "
        "(!has(p.grpc) || !has(p.extra) || p.grpc != p.extra) && "
        "(!has(p.serverAppIO) || (!has(p.grpc) || p.grpc != p.serverAppIO) && "
        "(!has(p.extra) || p.extra != p.serverAppIO)))",
        _node_ports_twice,
    ),
    *(
        Rule(
            f"{path}.volumeClaimTemplates must have different names",
            where,
            "!has(self.volumeClaimTemplates) || self.volumeClaimTemplates.all(c, "
            "self.volumeClaimTemplates.exists_one(d, d.metadata.name == c.metadata.name))",
            _each(where, _claims_twice),
        )
        for path, where in CLAIMANTS
    ),
    *(
        Rule(
            f"{path}.volumes and volumeClaimTemplates must not have the names of the operator's "
            f"own volumes: {', '.join(OWN_VOLUMES)}",
            where,
            f"(!has(self.volumes) || self.volumes.all(v, !(v.name in {list(OWN_VOLUMES)}))) && "
            "(!has(self.volumeClaimTemplates) || self.volumeClaimTemplates.all(c, "
            f"!(c.metadata.name in {list(OWN_VOLUMES)})))",
            _each(where, _own_volumes),
        )
        for path, where in CLAIMANTS
    ),
    Rule(
        "spec.superlink.volumes must not have the name of one of its volumeClaimTemplates",
        SUPERLINK,
        VOLUMES_APART.format(part="self"),
        _each(SUPERLINK, _volumes_and_claims),
    ),
    Rule(
        "spec.supernodes.pools[*].volumes must not have the name of one of its "
        "volumeClaimTemplates when mode is StatefulSet",
        SPEC,
        "!stateful || pools.all(p, " + VOLUMES_APART.format(part="p") + ")",
        _each(POOL, _volumes_and_claims, _stateful),
    ),
    Rule(
        f"spec.superlink.volumes and volumeClaimTemplates must not hold {STATE_VOLUME!r} when "
        "persistence is set: its claim has that name",
        SUPERLINK,
        "!has(self.persistence) || (!has(self.volumes) || "
        f"self.volumes.all(v, v.name != '{STATE_VOLUME}')) && (!has(self.volumeClaimTemplates) || "
        f"self.volumeClaimTemplates.all(c, c.metadata.name != '{STATE_VOLUME}'))",
        _state_twice,
    ),
    Rule(
        "spec.supernodes.pools[*].name must not be that of a pool with placement and one of "
        f"{', '.join(PLACED_SUFFIXES)} behind it: objects of that pool have these names",
        SPEC,
        "pools.all(p, !has(p.placement) || pools.all(q, "
        "!(q.name in [p.name + '-admitted', p.name + '-ca', p.name + '-report'])))",
        _pool_names_taken,
    ),
    Rule(
        "spec.supernodes.pools[*].executor may not be kubernetes in pools with placement: no "
        "rights to make pods are given out on managed clusters",
        POOL,
        "!launches_pods || !has(self.placement)",
        _pools(
            _always,
            lambda pool: pool.placement is not None and _launches_pods(pool),
            "executor",
        ),
    ),
    Rule(
        "metadata.name must start with a letter, end with a letter or digit and hold only "
        "lower-case letters, digits and '-': Services are named after it",
        ROOT,
        "name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        _name_unfit,
    ),
    Rule(
        f"metadata.name is too long: <name>-superlink may have {LONGEST_NAME} characters, "
        f"{LONGEST_STATEFUL_NAME} with persistence or volumeClaimTemplates",
        ROOT,
        f"size(name + '-superlink') <= {LONGEST_STATEFUL_NAME} || "
        f"size(name + '-superlink') <= {LONGEST_NAME} && "
        "!has(self.spec.superlink.persistence) && "
        "(!has(self.spec.superlink.volumeClaimTemplates) || "
        "size(self.spec.superlink.volumeClaimTemplates) == 0)",
        _superlink_name_too_long,
    ),
    Rule(
        f"names are too long: <name>-supernode-<pool> may have {LONGEST_NAME} characters, "
        f"{LONGEST_STATEFUL_NAME} in StatefulSet mode",
        ROOT,
        "self.spec.supernodes.pools.all(p, "
        f"size(name + '-supernode-' + p.name) <= {LONGEST_STATEFUL_NAME} || "
        "self.spec.mode != 'StatefulSet' && "
        f"size(name + '-supernode-' + p.name) <= {LONGEST_NAME})",
        _pool_name_too_long,
    ),
)
