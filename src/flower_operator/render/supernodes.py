"""A pool of SuperNodes: its workload, and the node config of its pods."""

from typing import Any

from ..api.rules import pool_name, supernodes_name
from ..api.types import Federation, Pool
from ..flower.commands import (
    HEALTH_PORT,
    SUPEREXEC_HEALTH_PORT,
    beside,
    superexec_arguments,
    supernode_arguments,
)
from ..trust.layout import BUNDLE_FILE, SECRET_FILE, SERVER_FILES
from . import executor, gpus, node_config, pods, secrets
from .executor import Tasks
from .facts import Facts
from .merge import overlay
from .metadata import (
    PREFIX,
    clientapp_labels,
    namespace_of,
    pool_labels,
    pool_metadata,
    restart_annotations,
    superexec_labels,
    superexec_metadata,
    supernode_labels,
    with_release,
)
from .node_config import NodeConfig
from .releases import PoolReleases
from .superlink import superlink_address

Object = dict[str, Any]


def pool_tasks(federation: Federation, position: int) -> Tasks | None:
    """The ClientApps of a pool, if they are pods of their own."""
    pool = federation.spec.supernodes.pools[position]
    if not _launches(pool):
        return None
    return Tasks(
        where=f"spec.supernodes.pools[{position}]",
        container="superexec-clientapp",
        account=f"{federation.name}-clientapp-{pool.name}",
        labels=clientapp_labels(federation, pool),
        resources=gpus.requests(pool.gpu, pool.superexec_resources),
        annotations=pool.pod_template.get("metadata", {}).get("annotations", {}),
        explicit_mounts=bool(pool.superexec_volume_mounts),
        count=pool.replicas or 0,
    )


def pool_objects(
    federation: Federation, position: int, facts: Facts, releases: PoolReleases
) -> list[Object]:
    """Everything that one pool becomes."""
    pool = federation.spec.supernodes.pools[position]
    config = node_config.node_config_of(federation, position, facts)
    metadata = pool_metadata(federation, pool, facts)
    objects = [node_config.config_map(metadata, config)] if config.files else []
    annotations = restart_annotations(federation)
    if config.files:
        annotations[f"{PREFIX}/node-config"] = config.hash
    if partitions := node_config.partitions_of(federation, position, facts):
        annotations[f"{PREFIX}/partitions"] = partitions
    if not federation.spec.insecure:
        secret = secrets.superexec_secret(federation, releases.supernode_dialect)
        serves = secrets.supernode_certificate(federation, releases, facts) is not None
        annotations |= secrets.client_annotations(
            federation, facts, pool.name, shares=secret is not None, serves=serves
        )
    keyed = federation.spec.supernode_auth.enabled
    annotations |= secrets.key_annotations(facts, pool.name) if keyed else {}
    tasks = pool_tasks(federation, position)
    account = {"serviceAccountName": metadata["name"]} if tasks else {}
    template = pods.pod_template(
        pool_labels(federation, pool),
        _containers(federation, pool, facts, releases, config, tasks),
        _volumes(federation, pool, facts, releases, config, metadata["name"], tasks) + pool.volumes,
        pool.pod_template,
        facts,
        annotations=annotations,
        spec=gpus.pod_fields(pool.gpu)
        | account
        | (secrets.gates(federation, facts) if keyed else {}),
    )
    if tasks:
        dialect = releases.clientapp_dialect
        text = executor.config_text(tasks, template, metadata["namespace"], dialect)
        files = executor.files_by_index(tasks, text)
        objects.append(executor.config_map(metadata, tasks, files))
        objects += executor.access(metadata, tasks, template)
        template = pods.annotated(template, {executor.HASH: executor.config_hash(text)})
    metadata = with_release(metadata, releases.supernode)
    labels = pool_labels(federation, pool)
    return [*objects, _workload(federation, pool, facts, labels, metadata, template)]


def superexec_objects(
    federation: Federation, position: int, facts: Facts, releases: PoolReleases
) -> list[Object]:
    """What runs a pool's ClientApps on another cluster: as many pods as it has SuperNodes."""
    pool = federation.spec.supernodes.pools[position]
    metadata, labels = (
        superexec_metadata(federation, pool, facts),
        superexec_labels(federation, pool),
    )
    template = pods.pod_template(
        labels,
        [_superexec_container(federation, pool, facts, releases, None)],
        gpus.volumes(pool.gpu)
        + _superexec_volumes(federation, pool, facts, releases)
        + pool.volumes,
        pool.pod_template,
        facts,
        annotations=restart_annotations(federation),
        spec=gpus.pod_fields(pool.gpu),
    )
    workload = _workload(federation, pool, facts, labels, metadata, template)
    return [workload | {"metadata": with_release(metadata, releases.clientapp)}]


def supernodes_service(federation: Federation, facts: Facts) -> list[Object]:
    """Names for SuperNodes, by which tasks in other pods trust them; where that is called for."""
    if federation.spec.insecure or not any(map(_launches, federation.spec.supernodes.pools)):
        return []
    labels = supernode_labels(federation)
    metadata = {
        "name": supernodes_name(federation.name),
        "namespace": namespace_of(federation, facts),
        "labels": labels,
    }
    # A SuperExec asks for the name before anything in its pod is ready.
    spec = {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True}
    return [{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}]


def site_service(
    federation: Federation, position: int, facts: Facts, releases: PoolReleases
) -> list[Object]:
    """How the ClientApps of a pool find their SuperNode, where these are in other pods."""
    if not _apart(federation, facts):
        return []
    pool = federation.spec.supernodes.pools[position]
    spec: Object = {"selector": pool_labels(federation, pool), "publishNotReadyAddresses": True}
    if federation.spec.mode == "StatefulSet":
        spec["clusterIP"] = "None"
    else:
        port = releases.supernode_dialect.clientappio.port
        spec["internalTrafficPolicy"] = "Local"  # the SuperNode of the same node
        spec["ports"] = [{"name": "clientappio", "port": port, "protocol": "TCP"}]
    metadata = pool_metadata(federation, pool, facts)
    return [{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}]


def _launches(pool: Pool) -> bool:
    return pool.executor == "kubernetes"


def _apart(federation: Federation, facts: Facts) -> bool:
    """Whether ClientApps run in other pods than their SuperNode."""
    return facts.site is not None and federation.spec.isolation_mode == "process"


def _workload(
    federation: Federation,
    pool: Pool,
    facts: Facts,
    labels: dict[str, str],
    metadata: Object,
    template: Object,
) -> Object:
    # Not the pods' labels: a selector can never be changed, and those of a podTemplate may be.
    spec: Object = {"selector": {"matchLabels": labels}, "template": template}
    if federation.spec.mode == "StatefulSet":
        replicas = 0 if federation.spec.suspend else pool.replicas
        spec |= {"replicas": replicas, "podManagementPolicy": "Parallel"}
        if _apart(federation, facts):
            spec["serviceName"] = pool_name(federation.name, pool.name)
        elif _launches(pool) and not federation.spec.insecure:
            spec["serviceName"] = supernodes_name(federation.name)
        if pool.volume_claim_templates:
            spec["volumeClaimTemplates"] = pods.with_claims(pool.volume_claim_templates)
    return {
        "apiVersion": "apps/v1",
        "kind": federation.spec.mode,
        "metadata": metadata,
        "spec": spec,
    }


def _containers(
    federation: Federation,
    pool: Pool,
    facts: Facts,
    releases: PoolReleases,
    config: NodeConfig,
    tasks: Tasks | None,
) -> list[Object]:
    containers = [_supernode_container(federation, pool, facts, releases, config)]
    if federation.spec.isolation_mode == "process" and not facts.site:
        containers.append(_superexec_container(federation, pool, facts, releases, tasks))
    return containers


def _supernode_container(
    federation: Federation,
    pool: Pool,
    facts: Facts,
    releases: PoolReleases,
    config: NodeConfig,
) -> Object:
    spec = federation.spec
    secure, keyed = not spec.insecure, spec.supernode_auth.enabled
    own_name = node_config.ENVIRONMENT[node_config.OWN_NAME[spec.mode]]
    own_name = node_config.POD_UID if facts.site else own_name
    secret = secrets.superexec_secret(federation, releases.supernode_dialect)
    tls = secrets.supernode_certificate(federation, releases, facts)
    arguments = supernode_arguments(
        releases.supernode_dialect,
        spec.isolation_mode,
        superlink=superlink_address(federation, facts),
        runtime_exposed=_launches(pool) or _apart(federation, facts),
        root_certificates=secrets.ROOT_CERTIFICATES if secure else None,
        private_key=secrets.PRIVATE_KEY if keyed else None,
        tls=tls,
        superexec_secret=secret,
        node_config=config.argument,
    )
    mounts = [secrets.mount("ca")] if secure else []
    mounts += [secrets.mount("supernode-tls")] if tls else []
    mounts += [secrets.mount("superexec")] if secret else []
    mounts += [secrets.key_mount(own_name["name"])] if keyed else []
    mounts += [node_config.mount()] if config.files else []
    runs_apps = spec.isolation_mode == "subprocess"
    resources = pool.supernode_resources
    alive = pods.grpc_probe(HEALTH_PORT)
    return pods.container(
        "supernode",
        facts.site.image if facts.site else pool.images.supernode or spec.supernodes.image,
        arguments + pool.extra_args,
        env=overlay("name", _env(federation, pool), config.env, [own_name] if keyed else []),
        resources=gpus.requests(pool.gpu, resources) if runs_apps else resources,
        mounts=mounts + gpus.mounts(pool.gpu) + pool.volume_mounts,
        probes=pods.probes(alive, alive),
        security=pods.PRIVILEGED if gpus.needs_privilege(pool.gpu) else None,
    )


def _superexec_container(
    federation: Federation, pool: Pool, facts: Facts, releases: PoolReleases, tasks: Tasks | None
) -> Object:
    secret = secrets.superexec_secret(federation, releases.clientapp_dialect)
    runs_tls = secrets.supernode_certificate(federation, releases, facts) is not None
    mounts = [secrets.mount("ca")] if runs_tls else []
    mounts += [secrets.mount("superexec")] if secret else []
    runtime = releases.supernode_dialect.clientappio
    address, env = beside(runtime), _env(federation, pool)
    resources = gpus.requests(pool.gpu, pool.superexec_resources)
    if _apart(federation, facts):
        address = f"{_own_supernode(federation, pool, facts)}:{runtime.port}"
        index = [node_config.ENVIRONMENT["index"]] if federation.spec.mode == "StatefulSet" else []
        env = overlay("name", env, index)
    if tasks:  # which use the resources, and must find the SuperNode from elsewhere
        host, variable = f"$({executor.POD_IP})", executor.POD_IP_VARIABLE
        if runs_tls:
            service = f"{supernodes_name(federation.name)}.{namespace_of(federation, facts)}.svc"
            host, variable = f"$({executor.POD_NAME}).{service}", executor.POD_NAME_VARIABLE
        address = f"{host}:{runtime.port}"
        env = overlay("name", env, [variable, node_config.ENVIRONMENT["index"]])
        mounts += executor.mounts(f"$({node_config.INDEX}).yaml")
        resources = {}
    return pods.container(
        "superexec-clientapp",
        pool.images.superexec_client_app or "",
        superexec_arguments(
            releases.clientapp_dialect,
            "clientapp",
            address,
            root_certificates=secrets.ROOT_CERTIFICATES if runs_tls else None,
            superexec_secret=secret,
            executor_config=executor.CONFIG if tasks else None,
        ),
        env=env,
        resources=resources,
        mounts=mounts
        + gpus.mounts(pool.gpu)
        + (pool.superexec_volume_mounts or pool.volume_mounts),
        probes=pods.probes(pods.grpc_probe(SUPEREXEC_HEALTH_PORT), None),
        security=pods.PRIVILEGED if gpus.needs_privilege(pool.gpu) else None,
    )


def _own_supernode(federation: Federation, pool: Pool, facts: Facts) -> str:
    """The SuperNode of a SuperExec in another pod: of the same ordinal, or on the same node."""
    name = pool_name(federation.name, pool.name)
    service = f"{name}.{namespace_of(federation, facts)}.svc"
    stateful = federation.spec.mode == "StatefulSet"
    return f"{name}-$({node_config.INDEX}).{service}" if stateful else service


def _env(federation: Federation, pool: Pool) -> list[Object]:
    return overlay("name", gpus.env(pool.gpu), federation.spec.supernodes.env, pool.env)


def _volumes(
    federation: Federation,
    pool: Pool,
    facts: Facts,
    releases: PoolReleases,
    config: NodeConfig,
    name: str,
    tasks: Tasks | None,
) -> list[Object]:
    volumes = gpus.volumes(pool.gpu)
    volumes += executor.volumes(tasks.account) if tasks else []
    if config.files:
        volumes.append(node_config.volume(name))
    if not federation.spec.insecure:
        here = secrets.authority_volume(federation)
        there = secrets.site_authority_volume(federation.name, pool.name)
        volumes.append(there if facts.site else here)
        if secrets.supernode_certificate(federation, releases, facts):
            here = secrets.supernode_certificate_volume(federation.name)
            there = _runtime_volume(federation, pool, "supernode-tls", *SERVER_FILES)
            volumes.append(there if facts.site else here)
        if secrets.superexec_secret(federation, releases.supernode_dialect):
            here = secrets.superexec_secret_volume(federation.name, pool.name)
            there = _runtime_volume(federation, pool, "superexec", SECRET_FILE)
            volumes.append(there if facts.site else here)
    if federation.spec.supernode_auth.enabled:
        volumes.append(secrets.keys_volume(federation.name, pool.name))
    return volumes


def _superexec_volumes(
    federation: Federation, pool: Pool, facts: Facts, releases: PoolReleases
) -> list[Object]:
    """Of a SuperExec on another cluster: what its SuperNode is known by, and it itself."""
    volumes = []
    if secrets.supernode_certificate(federation, releases, facts):
        volumes.append(_runtime_volume(federation, pool, "ca", BUNDLE_FILE))
    if secrets.superexec_secret(federation, releases.clientapp_dialect):
        volumes.append(_runtime_volume(federation, pool, "superexec", SECRET_FILE))
    return volumes


def _runtime_volume(federation: Federation, pool: Pool, name: str, *files: str) -> Object:
    return secrets.runtime_volume(federation.name, pool.name, name, *files)
