"""What is wrong on a cluster and what to do, from the evidence: one finding a check."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ..api.types import VERSION
from ..flower.compatibility import clientapp_mismatch, serverapp_mismatch, supernode_mismatch
from ..flower.releases import Release, parse_release, release_of_image
from ..render.metadata import MANAGER
from .evidence import Event, Evidence, FederationEvidence, Hidden, Policy, Selector
from .federations import Federation
from .pods import Pod

Verdict = Literal["ok", "note", "wrong"]

OLDEST_KUBERNETES = (1, 28)
# The holder renews every few seconds; the rest is for clocks that differ.
LEASE_SECONDS = 60.0
MOST_NAMED = 3

REMEDIES = {
    "ImageNotPullable": "correct the image, or add imagePullSecrets in podTemplate",
    "CrashLoop": "read its log: kubectl flower logs {federation} {pod} --previous",
    "OutOfMemory": "raise resources.limits.memory",
    "ContainerNotStarted": "make what the message names, or correct podTemplate",
    "Unschedulable": "add nodes, or relax nodeSelector, tolerations, resources or gpu",
    "Evicted": "look at the node: kubectl describe node",
}
REFUSED, NOT_MOUNTED, NOT_WELL = "FailedCreate", ("FailedMount", "FailedAttachVolume"), "Unhealthy"


@dataclass(frozen=True)
class Finding:
    subject: str
    verdict: Verdict
    message: str
    remedy: str = ""


def examine(evidence: Evidence) -> list[Finding]:
    """In the order in which one thing needs another."""
    findings = [
        _check_version(evidence),
        _check_definition(evidence.definition, evidence.expected),
        _check_operator(evidence),
        _check_lease(evidence),
        *_check_rights(evidence),
        _check_dns(evidence.dns_endpoints),
    ]
    if isinstance(evidence.federations, Hidden):
        findings.append(Finding("Federations", "wrong", evidence.federations.why))
    elif not evidence.federations:
        findings.append(Finding("Federations", "ok", f"none in namespace {evidence.namespace}"))
    else:
        for each in evidence.federations:
            findings += examine_federation(each, evidence.now)
    return findings


def examine_federation(evidence: FederationEvidence, now: float) -> Iterator[Finding]:
    name = evidence.federation.name
    yield _check_conditions(evidence.federation)
    if isinstance(evidence.pods, Hidden):
        yield Finding(f"{name}: pods", "note", evidence.pods.why)
        return
    warnings = () if isinstance(evidence.warnings, Hidden) else evidence.warnings
    yield from _check_pods(evidence.federation, evidence.pods, warnings, now)
    yield _check_releases(evidence.federation, evidence.pods)
    yield _check_connected(evidence.federation)
    if isinstance(evidence.policies, Hidden):
        yield Finding(f"{name}: network", "note", evidence.policies.why)
    else:
        yield _check_policies(evidence.federation, evidence.pods, evidence.policies)
    if isinstance(evidence.warnings, Hidden):
        yield Finding(f"{name}: events", "note", evidence.warnings.why)
    else:
        yield from _check_events(evidence.federation, evidence.pods, evidence.warnings)


def _check_version(evidence: Evidence) -> Finding:
    said = re.match(r"v?(\d+)\.(\d+)", evidence.version)
    message = f"{evidence.server} is Kubernetes {evidence.version}"
    if said and (int(said[1]), int(said[2])) < OLDEST_KUBERNETES:
        needed = ".".join(map(str, OLDEST_KUBERNETES))
        return Finding("cluster", "wrong", message, f"upgrade it to {needed} or newer")
    return Finding("cluster", "ok", message)


def _check_definition(
    definition: dict[str, Any] | Hidden | None, expected: dict[str, Any]
) -> Finding:
    subject, remedy = "CRD", "flower-operator crd | kubectl apply -f -"
    if isinstance(definition, Hidden):
        return Finding(subject, "note", definition.why)
    if definition is None:
        return Finding(subject, "wrong", "it is not installed", remedy)
    conditions = definition.get("status", {}).get("conditions", [])
    refusals = [
        f"{each['type']} is {each['status']}: {each.get('message', '')}"
        for each in conditions
        if each["type"] in ("Established", "NamesAccepted") and each["status"] != "True"
    ]
    if refusals:
        return Finding(subject, "wrong", "; ".join(refusals), "kubectl get crd; remove its rival")
    lacking = sorted(_fields(expected) - _fields(definition))
    if lacking:
        message = f"it is older than this command and lacks {_some(lacking)}"
        return Finding(subject, "wrong", message, remedy)
    return Finding(subject, "ok", "it has every field that this version knows")


def _fields(definition: dict[str, Any]) -> set[str]:
    """The paths of a definition's fields, in the version that we speak."""
    for each in definition["spec"]["versions"]:
        if each["name"] == VERSION and each.get("served"):
            return set(_paths(each.get("schema", {}).get("openAPIV3Schema", {}), ""))
    return set()


def _paths(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, child in schema.get("properties", {}).items():
        own = f"{path}.{name}" if path else name
        yield own
        yield from _paths(child, own)
        yield from _paths(child.get("items", {}), own)


def _check_operator(evidence: Evidence) -> Finding:
    subject, deployments = "operator", evidence.deployments
    if isinstance(deployments, Hidden):
        return Finding(subject, "note", deployments.why)
    if not deployments:
        if _holders(evidence):
            return Finding(subject, "ok", "no Deployment, but one runs outside of the cluster")
        remedy = "install it: helm install flower-operator"
        return Finding(subject, "wrong", "there is no Deployment of it", remedy)
    for each in deployments:
        place = f"{each.metadata.namespace}/{each.metadata.name}"
        ready, wanted = each.status.ready_replicas, each.spec.replicas
        if not ready:
            remedy = f"kubectl describe pods -n {each.metadata.namespace}"
            return Finding(subject, "wrong", f"{place} has {ready} of {wanted} pods ready", remedy)
    return Finding(subject, "ok", f"{place} has {ready} of {wanted} pods ready")


def _holders(evidence: Evidence) -> list[str]:
    """Who leads by a Lease that is fresh."""
    if isinstance(evidence.leases, Hidden):
        return []
    return [
        lease.spec.holder_identity
        for lease in evidence.leases
        if lease.spec.holder_identity and _age(lease.spec.renew_time, evidence.now) < LEASE_SECONDS
    ]


def _check_lease(evidence: Evidence) -> Finding:
    subject, leases = "leader", evidence.leases
    if isinstance(leases, Hidden):
        return Finding(subject, "note", leases.why)
    holders = _holders(evidence)
    if len(holders) > 1:
        message = f"several operators lead in different namespaces: {', '.join(holders)}"
        return Finding(subject, "note", message, "give each its own namespaces with --namespaces")
    if holders:
        return Finding(subject, "ok", f"{holders[0]} leads")
    remedy = "see that the operator runs; its log says what keeps it from its Lease"
    renewed = max((lease.spec.renew_time for lease in leases), default="")
    if not renewed:
        return Finding(subject, "wrong", "no operator has ever led", remedy)
    seconds = _age(renewed, evidence.now)
    return Finding(subject, "wrong", f"no operator leads; the last did {seconds:.0f} s ago", remedy)


def _age(time: str, now: float) -> float:
    return now - datetime.fromisoformat(time).timestamp() if time else float("inf")


def _check_rights(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.missing:
        yield Finding("rights", "ok", f"you may do all of it in namespace {evidence.namespace}")
    for right in evidence.missing:
        message = f"you may not {right} in namespace {evidence.namespace}: no {right.needed_for}"
        role = "view" if right.essential else "edit"
        remedy = f"ask for the ClusterRole {role} in that namespace"
        yield Finding("rights", "wrong" if right.essential else "note", message, remedy)


def _check_dns(endpoints: int | Hidden | None) -> Finding:
    remedy = "SuperNodes find the SuperLink by its name: install or repair the cluster's DNS"
    if isinstance(endpoints, Hidden):
        return Finding("DNS", "note", endpoints.why)
    if endpoints is None:
        return Finding("DNS", "wrong", "there is no Service kube-dns in kube-system", remedy)
    if not endpoints:
        return Finding("DNS", "wrong", "the Service kube-dns has no endpoints", remedy)
    return Finding("DNS", "ok", f"kube-dns has {endpoints} endpoints")


def _check_conditions(federation: Federation) -> Finding:
    subject = f"{federation.name}: status"
    if not federation.status.conditions:
        return Finding(subject, "wrong", "the operator has not looked at it", "see that it runs")
    if not federation.observed:
        message = f"the operator has not seen generation {federation.metadata.generation} yet"
        return Finding(subject, "wrong", message, "see that it runs, and that its log has no error")
    if federation.ready or federation.spec.suspend:
        said = "it is suspended" if federation.spec.suspend else "it is Ready"
        return Finding(subject, "ok", f"{said}, {federation.status.supernodes} SuperNodes ready")
    ready = next((each for each in federation.status.conditions if each.type == "Ready"), None)
    if ready is None:
        return Finding(subject, "wrong", "it has no condition Ready", "see that the operator runs")
    message = f"{ready.reason}: {ready.message}"
    return Finding(subject, "wrong", message, "see the checks below, and the operator's reference")


def _check_pods(
    federation: Federation, pods: Sequence[Pod], warnings: Sequence[Event], now: float
) -> Iterator[Finding]:
    subject, troubled = f"{federation.name}: pods", 0
    for pod in pods:
        for trouble in pod.troubles(now):
            troubled += 1
            remedy = REMEDIES.get(trouble.reason, "").format(
                federation=federation.name, pod=pod.title
            )
            message = f"{pod.name}: {trouble.reason}: {trouble.message}"
            yield Finding(subject, "wrong", message, remedy)
        if probe := _failed_probe(pod, warnings, now):
            troubled += 1
            remedy = f"read its log: kubectl flower logs {federation.name} {pod.title}"
            yield Finding(subject, "wrong", f"{pod.name}: not ready: {probe}", remedy)
    if not pods:
        yield Finding(subject, "note", "there are none")
    elif not troubled:
        ready = sum(pod.ready for pod in pods)
        yield Finding(subject, "ok", f"{ready} of {len(pods)} are ready, none has a fault")


def _failed_probe(pod: Pod, warnings: Sequence[Event], now: float) -> str:
    if pod.ready or pod.leaving or any(pod.troubles(now)):
        return ""
    own = [each.message for each in _about(warnings, [pod.name]) if each.reason == NOT_WELL]
    return own[-1] if own else ""


def _check_releases(federation: Federation, pods: Sequence[Pod]) -> Finding:
    """By what runs: the spec may have been changed since."""
    subject, remedy = f"{federation.name}: releases", "give every image the same Flower release"
    found = sorted({words for words in _mismatches(federation, pods) if words})
    if found:
        return Finding(subject, "wrong", _some(found, "; "), remedy)
    tags = {str(release) for pod in pods for release in _releases(pod).values()}
    if not tags:
        return Finding(subject, "ok", "no image that runs has a tag that names one")
    return Finding(subject, "ok", f"images of Flower {', '.join(sorted(tags))}")


def _mismatches(federation: Federation, pods: Sequence[Pod]) -> Iterator[str | None]:
    superlink = parse_release(federation.status.release)
    found = [_releases(pod) for pod in pods]
    for own in found:
        superlink = own.get("superlink", superlink)
    for own in found:
        if superlink and (superexec := own.get("superexec-serverapp")):
            yield serverapp_mismatch(superlink, superexec)
        if supernode := own.get("supernode"):
            if superlink:
                yield supernode_mismatch(superlink, supernode)
            if superexec := own.get("superexec-clientapp"):
                yield clientapp_mismatch(supernode, superexec)


def _releases(pod: Pod) -> dict[str, Release]:
    """By container, where the image's tag names one."""
    own = {each.name: release_of_image(each.image) for each in pod.spec.containers}
    return {name: release for name, release in own.items() if release}


def _check_connected(federation: Federation) -> Finding:
    subject, status = f"{federation.name}: connected", federation.status
    connected, ready = status.connected_supernodes, status.ready_supernodes
    if connected is None:
        return Finding(subject, "note", "how many SuperNodes are connected is not known")
    message = f"{connected} SuperNodes are connected, {ready} are ready"
    if connected < ready:
        remedy = "wait a minute; then read their logs, and look at DNS and NetworkPolicies"
        return Finding(subject, "wrong", message, remedy)
    return Finding(subject, "ok", message)


def _check_policies(
    federation: Federation, pods: Sequence[Pod], policies: Sequence[Policy]
) -> Finding:
    """One that selects a pod shuts out what it does not name, at least where the CNI heeds it;
    but those of the operator's own name all that Flower needs."""
    subject = f"{federation.name}: network"
    selecting = [
        policy.metadata.name
        for policy in policies
        if policy.metadata.labels.get("app.kubernetes.io/managed-by") != MANAGER
        and any(selects(policy.spec.pod_selector, pod.metadata.labels) for pod in pods)
    ]
    if not selecting:
        return Finding(subject, "ok", "no NetworkPolicy of others selects its pods")
    message = f"NetworkPolicies select its pods: {', '.join(selecting)}"
    port = federation.ports.fleet if parse_release(federation.status.release) else "fleet"
    remedy = f"see that they let SuperNodes reach the SuperLink's port {port} and DNS"
    return Finding(subject, "note" if federation.ready else "wrong", message, remedy)


def selects(selector: Selector, labels: dict[str, str]) -> bool:
    """Whether a label selector, as Kubernetes has them, means something with these labels."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for each in selector.match_expressions:
        given = labels.get(each.key)
        fits = {
            "In": given is not None and given in each.values,
            "NotIn": given is None or given not in each.values,
            "Exists": given is not None,
            "DoesNotExist": given is None,
        }
        if not fits.get(each.operator, False):
            return False
    return True


def _check_events(
    federation: Federation, pods: Sequence[Pod], warnings: Sequence[Event]
) -> Iterator[Finding]:
    """Those that still matter: events stay for an hour after what they tell is over."""
    subject, told = f"{federation.name}: events", 0
    waiting = [pod.name for pod in pods if not pod.ready]
    for event in _latest(each for each in _about(warnings, waiting) if each.reason in NOT_MOUNTED):
        told += 1
        remedy = "make the Secret, ConfigMap or claim that it names"
        yield Finding(subject, "wrong", f"{event.involved_object.name}: {event.message}", remedy)
    if not federation.ready:
        parts = ("superlink", "serverapp", "supernode-")
        owners = [f"{federation.name}-{part}" for part in parts]
        refused = (
            each
            for each in warnings
            if each.reason == REFUSED and each.involved_object.name.startswith(tuple(owners))
        )
        for event in _latest(refused):
            told += 1
            yield Finding(
                subject,
                "wrong",
                f"{event.involved_object.name}: {event.message}",
                _refusal_remedy(event),
            )
    if not told:
        yield Finding(subject, "ok", "none tells of refused pods or missing volumes")


def _refusal_remedy(event: Event) -> str:
    if "exceeded quota" in event.message:
        return "raise the ResourceQuota, or ask for less"
    if "PodSecurity" in event.message:
        return "take out of podTemplate what the namespace's Pod Security level forbids"
    return "as the message says"


def _about(warnings: Sequence[Event], names: Iterable[str]) -> list[Event]:
    known = set(names)
    return [each for each in warnings if each.involved_object.name in known]


def _latest(events: Iterable[Event]) -> list[Event]:
    """One for each object."""
    return list({each.involved_object.name: each for each in events}.values())


def _some(texts: Sequence[str], separator: str = ", ") -> str:
    more = len(texts) - MOST_NAMED
    named = separator.join(texts[:MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named
