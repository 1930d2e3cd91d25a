"""A pool on other clusters, as an addon of Open Cluster Management.

One template serves all clusters of a pool. What differs between them are variables, for which each
cluster has a config. The hub reads one config only, so that has all of them. How many partitions
there are stands in the template: when a cluster joins, all others would else get a new config too.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..api.types import Federation, Pool, Rollout
from ..kube.applied import digest, marked
from ..render import secrets
from ..render.agent import (
    KEYS,
    REPORT,
    ROUND_VARIABLE,
    agent_objects,
    is_attended,
    report_name,
)
from ..render.facts import Facts, Numbers, Site
from ..render.metadata import (
    COMPONENT,
    MANAGER,
    POOL,
    PREFIX,
    RELEASE,
    namespace_of,
    trust_labels,
)
from ..render.network import site_policies
from ..render.plan import runs
from ..render.releases import Releases
from ..render.secrets import site_authority_name
from ..render.skupper import Grant, linking_objects
from ..render.supernodes import pool_objects, site_service, superexec_objects
from ..trust.layout import BUNDLE_FILE
from .observed import (
    AUTHORITY,
    DESIRED,
    GENERATION,
    IMAGE,
    MARK,
    MARKED,
    OBSERVED,
    PARTITIONS,
    READY,
    RUNNING,
    SINCE,
    UPDATED,
)
from .partitions import ranges
from .resources import (
    ADDON,
    ADDON_GROUP,
    CONFIG,
    DEFINITION,
    TEMPLATE,
    WORK_SET,
)

Object = dict[str, Any]

FEDERATION, NAMESPACE = f"{PREFIX}/federation", f"{PREFIX}/namespace"
# What other addons are called begins otherwise.
ADDON_PREFIX = "flower-"
LONGEST_NAME = 63
HASH_LENGTH = 8
CLUSTER_NAME = "{{CLUSTER_NAME}}"
FIRST_PARTITION = "PARTITION_ID"
# What it holds may belong to the cluster's owner, so it is left there.
KEPT = {f"{ADDON_GROUP}/deletion-orphan": ""}


@dataclass(frozen=True)
class Route:
    """How SuperNodes of other clusters reach the SuperLink."""

    host: str
    port: int


@dataclass(frozen=True)
class Place:
    """A pool that runs on other clusters, and what of it does not depend on which."""

    addon: str
    namespace: str
    federation: str
    pool: str

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/managed-by": MANAGER,
            COMPONENT: "fleet",
            NAMESPACE: self.namespace,
            FEDERATION: self.federation,
            POOL: self.pool,
        }


@dataclass(frozen=True)
class Edition:
    """What a cluster is told to run. Clusters go from one Flower release to another one by one, so
    there is a template, and a config, for each."""

    release: str
    image: str
    since: str
    """When it was told."""


def edition_name(addon: str, release: str) -> str:
    """Of template and config."""
    return f"{addon}-{release}"


def place_of(namespace: str, federation: str, pool: str) -> Place:
    """Names of addons are the hub's: a hash tells namesakes of other namespaces apart. With the
    namespace before it, a name is a label of works too, and no longer than those may be."""
    whole = f"{namespace}/{federation}/{pool}"
    tail = hashlib.sha256(whole.encode()).hexdigest()[:HASH_LENGTH]
    room = max(LONGEST_NAME - len(namespace) - len(ADDON_PREFIX) - len(tail) - 2, 1)
    head = f"{federation}-{pool}"[:room].rstrip("-")
    return Place(f"{ADDON_PREFIX}{head}-{tail}", namespace, federation, pool)


def addon_objects(
    federation: Federation,
    position: int,
    facts: Facts,
    releases: Releases,
    route: Route,
    bundle: str | None,
    grant: Grant | None = None,
) -> list[Object]:
    """What a pool needs on the hub, whichever clusters it runs on; the partitions in all are
    `facts.numbers.total`. `bundle`: the CA's certificates, where there is TLS; `grant`: what lets
    clusters link, where Skupper leads them."""
    pool = federation.spec.supernodes.pools[position]
    place = place_of(namespace_of(federation, facts), federation.name, pool.name)
    site = _site_facts(pool, facts, route)
    manifests = _supernode_manifests(federation, position, site, releases, bundle, grant)
    attended = is_attended(federation, releases.pools[position], site)
    variables = variables_of(federation, position, route)
    name = edition_name(place.addon, str(releases.pools[position].supernode))
    objects = [
        _template(place, name, manifests, attended=attended),
        _definition(place, name),
        _config(place, place.addon, place.namespace, variables),
    ]
    if federation.spec.isolation_mode == "process" and not federation.spec.suspend:
        objects.append(_work_set(place, federation, position, site, releases))
    return objects


def variables_of(federation: Federation, position: int, route: Route) -> dict[str, str]:
    """What is the same on all clusters of a pool."""
    pool = federation.spec.supernodes.pools[position]
    return {
        "SUPERLINK_ADDRESS": f"[{route.host}]" if ":" in route.host else route.host,
        "SUPERLINK_PORT": str(route.port),
        "IMAGE": pool.images.supernode or federation.spec.supernodes.image,
        "NODE_TYPE": pool.name,
    }


def cluster_objects(
    place: Place,
    cluster: str,
    variables: Mapping[str, str],
    partitions: Sequence[int],
    edition: Edition,
) -> list[Object]:
    """What makes a cluster one of the pool's. The config first: an addon that is there without
    it would be run with nothing in the place of a partition."""
    own = {partition_variable(at): str(each) for at, each in enumerate(partitions)}
    own["IMAGE"] = edition.image
    name = edition_name(place.addon, edition.release)
    template = {"group": ADDON_GROUP, "resource": TEMPLATE.plural, "name": name}
    config = {"group": ADDON_GROUP, "resource": CONFIG.plural, "namespace": cluster, "name": name}
    told = {RELEASE: edition.release, IMAGE: edition.image, SINCE: edition.since}
    metadata = {
        "name": place.addon,
        "namespace": cluster,
        "labels": place.labels,
        "annotations": {PARTITIONS: ranges(partitions), **told},
    }
    return [
        _config(place, name, cluster, {**variables, **own}),
        _head(ADDON, metadata) | {"spec": {"configs": [template, config]}},
    ]


def partition_variable(index: int) -> str:
    """The name of the variable with the partition of a SuperNode."""
    return f"{FIRST_PARTITION}_{index}" if index else FIRST_PARTITION


def _site_facts(pool: Pool, facts: Facts, route: Route) -> Facts:
    site = Site(
        cluster=CLUSTER_NAME,
        superlink=f"{_variable('SUPERLINK_ADDRESS')}:{_variable('SUPERLINK_PORT')}",
        host=route.host,
        port=route.port,
        image=_variable("IMAGE"),
        keys=_variable(ROUND_VARIABLE),
    )
    names = tuple(_variable(partition_variable(at)) for at in range(pool.replicas or 0))
    total = facts.numbers.total if facts.numbers else "0"
    numbers = Numbers(((pool.name, names),), total)
    return replace(facts, site=site, numbers=numbers)


def _supernode_manifests(
    federation: Federation,
    position: int,
    facts: Facts,
    releases: Releases,
    bundle: str | None,
    grant: Grant | None,
) -> list[Object]:
    namespace = namespace_of(federation, facts)
    manifests = [_namespace(namespace)]
    if grant:
        manifests += [_within(each, namespace) for each in linking_objects(federation, grant)]
    if bundle is not None:
        pool = federation.spec.supernodes.pools[position]
        manifests.append(_bundle(federation, pool, namespace, bundle))
    manifests += site_policies(federation, position, facts, releases)[:1]
    if is_attended(federation, releases.pools[position], facts):
        manifests += agent_objects(federation, position, facts, releases.pools[position])
    manifests += site_service(federation, position, facts, releases.pools[position])
    manifests += pool_objects(federation, position, facts, releases.pools[position])
    return [each for each in manifests if runs(federation, each)]


def _template(place: Place, name: str, manifests: list[Object], *, attended: bool) -> Object:
    workload = manifests[-1]
    told = [_feedback(workload)] if _is_workload(workload) else []
    if attended:
        told.append(_report(report_name(place.federation, place.pool), place.namespace))
    spec = {
        "addonName": place.addon,
        "agentSpec": {"workload": {"manifests": manifests}, "manifestConfigs": told},
    }
    return _head(TEMPLATE, {"name": name, "labels": place.labels}) | {"spec": spec}


def _definition(place: Place, template: str) -> Object:
    """Installed where the operator says, who gives each cluster its config first."""
    metadata = {
        "name": place.addon,
        "labels": place.labels,
        "annotations": {f"{ADDON_GROUP}/lifecycle": "addon-manager"},
    }
    described = f"SuperNodes of Federation {place.federation} in {place.namespace}"
    spec = {
        "addOnMeta": {
            "displayName": f"Flower: {place.federation}, {place.pool}",
            "description": f"{described}, pool {place.pool}",
        },
        "supportedConfigs": [
            {
                "group": ADDON_GROUP,
                "resource": TEMPLATE.plural,
                "defaultConfig": {"name": template},
            },
            {
                "group": ADDON_GROUP,
                "resource": CONFIG.plural,
                "defaultConfig": {"name": place.addon, "namespace": place.namespace},
            },
        ],
        "installStrategy": {"type": "Manual"},
    }
    return _head(DEFINITION, metadata) | {"spec": spec}


def _config(place: Place, name: str, namespace: str, variables: Mapping[str, str]) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": place.labels}
    pairs = [{"name": name, "value": value} for name, value in variables.items()]
    # The template names the namespace; without a word here the hub would put in its own.
    spec = {"agentInstallNamespace": "", "customizedVariables": pairs}
    return _head(CONFIG, metadata) | {"spec": spec}


def _work_set(
    place: Place, federation: Federation, position: int, facts: Facts, releases: Releases
) -> Object:
    """ClientApps have an image of their own, which changes more often than SuperNodes do: it
    reaches a few clusters at a time, and no more of them once it has failed on some."""
    pool = federation.spec.supernodes.pools[position]
    assert pool.placement
    namespace = namespace_of(federation, facts)
    policies = site_policies(federation, position, facts, releases)[1:]
    (workload,) = superexec_objects(federation, position, facts, releases.pools[position])
    mark = digest(workload)
    workload = marked(workload, MARKED, mark)
    metadata = {
        "name": place.addon,
        "namespace": place.namespace,
        "labels": place.labels,
        "annotations": {MARKED: mark},
    }
    spec = {
        "placementRefs": [
            {"name": pool.placement.name, "rolloutStrategy": _strategy(pool.placement.rollout)}
        ],
        "manifestWorkTemplate": {
            "deleteOption": {
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {
                    "orphaningRules": [{"group": "", "resource": "namespaces", "name": namespace}]
                },
            },
            "workload": {"manifests": [_namespace(namespace), *policies, workload]},
            "manifestConfigs": [
                _feedback(workload, **_OF_APPS) | {"conditionRules": [_progress(workload, mark)]}
            ],
        },
    }
    return _head(WORK_SET, metadata) | {"spec": spec}


def _strategy(rollout: Rollout) -> Object:
    return {
        "type": "Progressive",
        "progressive": {
            "maxConcurrency": rollout.max_concurrency,
            "maxFailures": rollout.max_failures,
            "progressDeadline": rollout.progress_deadline,
            "minSuccessTime": "0s",
        },
    }


# A rollout goes on only past clusters that say themselves that they are done.
_ROLLED_OUT = {
    "StatefulSet": (
        "has(object.status.observedGeneration) && "
        "object.status.observedGeneration == object.metadata.generation && "
        "has(object.status.availableReplicas) && "
        "object.status.availableReplicas == object.spec.replicas && "
        "has(object.status.updatedReplicas) && "
        "object.status.updatedReplicas == object.spec.replicas"
    ),
    "DaemonSet": (
        "has(object.status.observedGeneration) && "
        "object.status.observedGeneration == object.metadata.generation && "
        "has(object.status.updatedNumberScheduled) && "
        "object.status.updatedNumberScheduled == object.status.desiredNumberScheduled && "
        "has(object.status.numberAvailable) && "
        "object.status.numberAvailable == object.status.desiredNumberScheduled"
    ),
}
_COUNTS = {
    "StatefulSet": {
        READY: ".status.readyReplicas",
        DESIRED: ".status.replicas",
        UPDATED: ".status.updatedReplicas",
    },
    "DaemonSet": {
        READY: ".status.numberReady",
        DESIRED: ".status.desiredNumberScheduled",
        UPDATED: ".status.updatedNumberScheduled",
    },
}
_OF_ALL_KINDS = {
    GENERATION: ".metadata.generation",
    OBSERVED: ".status.observedGeneration",
    AUTHORITY: ".spec.template.metadata.annotations." + secrets.AUTHORITY.replace(".", r"\."),
    RUNNING: ".metadata.annotations." + RELEASE.replace(".", r"\."),
}
_OF_APPS = {MARK: ".metadata.annotations." + MARKED.replace(".", r"\.")}


def _progress(workload: Object, mark: str) -> Object:
    """Agents may look before they apply what is new: what is old must not be taken for done."""
    newest = (
        f"has(object.metadata.annotations) && '{MARKED}' in object.metadata.annotations && "
        f"object.metadata.annotations['{MARKED}'] == '{mark}'"
    )
    return {
        "type": "CEL",
        "condition": "Progressing",
        "celExpressions": [f"!({newest} && {_ROLLED_OUT[workload['kind']]})"],
        "messageExpression": "result ? 'rolling out' : 'rolled out'",
    }


def _feedback(workload: Object, **further: str) -> Object:
    """What the hub is told of a workload on another cluster."""
    told = _COUNTS[workload["kind"]] | _OF_ALL_KINDS | further
    paths = [{"name": name, "path": path} for name, path in told.items()]
    return {
        "resourceIdentifier": {
            "group": "apps",
            "resource": f"{workload['kind'].lower()}s",
            "name": workload["metadata"]["name"],
            "namespace": workload["metadata"]["namespace"],
        },
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}],
        # Told as it happens; hubs that do not know this yet hear of it within ten seconds.
        "feedbackScrapeType": "Watch",
    }


def _report(name: str, namespace: str) -> Object:
    """What the agent writes there is the agent's: the hub reads it and leaves it alone."""
    return {
        "resourceIdentifier": {
            "group": "",
            "resource": "configmaps",
            "name": name,
            "namespace": namespace,
        },
        "updateStrategy": {"type": "CreateOnly"},
        "feedbackRules": [
            {"type": "JSONPaths", "jsonPaths": [{"name": REPORT, "path": f".data.{KEYS}"}]}
        ],
        "feedbackScrapeType": "Watch",
    }


def _is_workload(each: Object) -> bool:
    return each["kind"] in _COUNTS


def _within(each: Object, namespace: str) -> Object:
    return each | {"metadata": each["metadata"] | {"namespace": namespace}}


def _namespace(name: str) -> Object:
    metadata = {"name": name, "annotations": KEPT}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _bundle(federation: Federation, pool: Pool, namespace: str, bundle: str) -> Object:
    metadata = {
        "name": site_authority_name(federation.name, pool.name),
        "namespace": namespace,
        "labels": trust_labels(federation.name),
    }
    data = {BUNDLE_FILE: bundle}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _head(resource: Any, metadata: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _variable(name: str) -> str:
    return f"{{{{{name}}}}}"
