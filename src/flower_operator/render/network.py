"""NetworkPolicies: whom each part of a Federation may talk to.

A policy names what is let in and out; everything else is shut off. None is needed for probes: they
come from the pod's own node, which networks let through, as Kubernetes asks of them.
"""

import ipaddress
from collections.abc import Iterable
from typing import Any

from ..api.problems import Problem
from ..api.types import Federation
from ..trust.names import address_of
from . import gateway
from .executor import Tasks
from .facts import Facts
from .metadata import (
    pool_labels,
    pool_metadata,
    superexec_labels,
    superexec_metadata,
    superexec_serverapp_labels,
    superlink_labels,
    superlink_metadata,
    supernode_labels,
)
from .releases import Releases
from .serverapp import is_apart, superlink_tasks
from .skupper import ROUTER
from .superlink import api_ports
from .supernodes import pool_tasks

Object = dict[str, Any]

# What the chart gives to the operator's pods.
OPERATOR_LABELS = {
    "app.kubernetes.io/name": "flower-operator",
    "app.kubernetes.io/component": "controller-manager",
}
EVERYWHERE = [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
DNS_PORT = 53
# A policy sees a Service's pods, not the Service; OpenShift's DNS pods listen here.
OPENSHIFT_DNS_PORT = 5353
API_SERVER_PORTS = (443, 6443)


def is_enabled(federation: Federation) -> bool:
    asked = federation.spec.network_policy.enabled
    return not federation.spec.insecure if asked is None else asked


def network_policies(federation: Federation, facts: Facts, releases: Releases) -> list[Object]:
    """A policy for each workload, and for the pods of its tasks where it has some."""
    if not is_enabled(federation):
        return []
    external = federation.spec.superlink.external
    policies = [] if external else _superlink_policies(federation, facts, releases)
    for at, pool in enumerate(federation.spec.supernodes.pools):
        if pool.placement is None:
            policies += _pool_policies(federation, at, facts, releases)
    return policies


def network_problems(federation: Federation) -> list[Problem]:
    """Peers that Kubernetes would refuse."""
    settings = federation.spec.network_policy
    peers = [
        (f"spec.networkPolicy.controlFrom[{at}]", peer)
        for at, peer in enumerate(settings.control_from)
    ]
    peers += [
        (f"spec.networkPolicy.egress[{at}].to[{position}]", peer)
        for at, rule in enumerate(settings.egress)
        for position, peer in enumerate(rule.get("to", []))
    ]
    return [Problem(path, fault) for path, peer in peers if (fault := _fault_of_peer(peer))]


def network_notices(federation: Federation, releases: Releases) -> list[str]:
    """What the policies cannot keep apart, or what has no effect without them."""
    settings, service = federation.spec.network_policy, federation.spec.superlink.service
    if not is_enabled(federation):
        if not settings.egress and not settings.control_from:
            return []
        return ["spec.networkPolicy: has no effect with insecure: true unless enabled is true"]
    notices = []
    dialect, external = releases.superlink_dialect, federation.spec.superlink.external
    by_name = external and not federation.spec.interconnect
    if external and by_name and address_of(external.host) is None:
        notices.append(
            f"spec.networkPolicy: {external.host} is a name, and a policy knows only addresses, so "
            f"SuperNodes may connect to every address on port {external.port}"
        )
    if not external and dialect.shares_one_port and not gateway.is_used(federation):
        reach = "SuperNodes" if service.type == "ClusterIP" else "all who reach the Service"
        notices.append(
            f"spec.networkPolicy: Flower {releases.superlink} has its APIs on one port, so {reach} "
            "can also submit runs"
        )
    for tasks in _launching(federation):
        notices.append(
            f"{tasks.where}.executor: kubernetes needs the API server, so its pods may connect to "
            "every address on ports 443 and 6443"
        )
    return notices


def control_notices(federation: Federation) -> list[str]:
    """For the status on a cluster: who can submit runs where nothing is shut off."""
    if is_enabled(federation) or federation.spec.superlink.external:
        return []
    return [
        "spec.networkPolicy: not enabled, so whoever reaches the SuperLink can run code in this "
        "Federation, for Flower has no login"
    ]


def _superlink_policies(federation: Federation, facts: Facts, releases: Releases) -> list[Object]:
    tasks, ports = superlink_tasks(federation), api_ports(federation, releases)
    metadata = superlink_metadata(federation, facts)
    link, runtime = _pods(superlink_labels(federation)), ports.runtime
    nodes = [_pods(supernode_labels(federation))]
    service = federation.spec.superlink.service
    if service.type != "ClusterIP" or service.external_address:
        # It is there for SuperNodes of elsewhere, whose addresses nobody knows here.
        nodes += EVERYWHERE
    if federation.spec.interconnect:
        nodes.append(ROUTER)
    operator = {
        "namespaceSelector": {
            "matchLabels": {"kubernetes.io/metadata.name": facts.operator_namespace}
        },
        "podSelector": {"matchLabels": OPERATOR_LABELS},
    }
    admitted = [
        (ports.fleet, nodes),
        (ports.control, [operator, *federation.spec.network_policy.control_from]),
    ]
    out, to_link = _outside(federation, facts), _rule("to", [link], runtime)
    apart = is_apart(federation)
    # In the SuperLink's pod too, a SuperExec with tasks finds it by the Service, as they do.
    superexec = superexec_serverapp_labels(federation) if apart else superlink_labels(federation)
    if apart or tasks:
        admitted.append((runtime, [_pods(superexec)]))
    if tasks:
        admitted.append((runtime, [_pods(tasks.labels)]))
    launching = [to_link, *([_to_api_server()] if tasks else []), *out]
    own = launching if tasks and not apart else out
    policies = [_policy(metadata, superlink_labels(federation), _ingress(admitted), own)]
    if apart:
        name = f"{federation.name}-superexec"
        policies.append(_policy(metadata | {"name": name}, superexec, [], launching))
    if tasks:
        name = tasks.account
        policies.append(_policy(metadata | {"name": name}, tasks.labels, [], [to_link, *out]))
    return policies


def _pool_policies(
    federation: Federation, position: int, facts: Facts, releases: Releases
) -> list[Object]:
    pool = federation.spec.supernodes.pools[position]
    labels, metadata = pool_labels(federation, pool), pool_metadata(federation, pool, facts)
    out = _outside(federation, facts)
    own = [_to_superlink(federation, releases), *out]
    if not (tasks := pool_tasks(federation, position)):
        return [_policy(metadata, labels, [], own)]
    runtime = releases.pools[position].supernode_dialect.clientappio.port
    to_node = _rule("to", [_pods(labels)], runtime)
    return [
        _policy(
            metadata,
            labels,
            [_rule("from", [_pods(tasks.labels)], runtime)],
            [*own, _to_api_server()],
        ),
        _policy(metadata | {"name": tasks.account}, tasks.labels, [], [to_node, *out]),
    ]


def _to_superlink(federation: Federation, releases: Releases) -> Object:
    external = federation.spec.superlink.external
    if external and federation.spec.interconnect:
        return {"to": [ROUTER]}  # at a port that Skupper chooses
    if external:
        return _to_address(external.host, external.port)
    fleet = api_ports(federation, releases).fleet
    return _rule("to", [_pods(superlink_labels(federation))], fleet)


def site_policies(
    federation: Federation, position: int, facts: Facts, releases: Releases
) -> list[Object]:
    """The policies of a pool on another cluster: to its SuperLink, and to names."""
    if not is_enabled(federation) or facts.site is None:
        return []
    pool = federation.spec.supernodes.pools[position]
    labels, metadata = pool_labels(federation, pool), pool_metadata(federation, pool, facts)
    out = _outside(federation, facts)
    direct = _to_address(facts.site.host, facts.site.port)
    own = [{"to": [ROUTER]} if federation.spec.interconnect else direct, *out]
    if federation.spec.isolation_mode == "subprocess":
        return [_policy(metadata, labels, [], own)]
    runtime = releases.pools[position].supernode_dialect.clientappio.port
    apps = superexec_labels(federation, pool)
    to_node = _rule("to", [_pods(labels)], runtime)
    return [
        _policy(metadata, labels, [_rule("from", [_pods(apps)], runtime)], own),
        _policy(superexec_metadata(federation, pool, facts), apps, [], [to_node, *out]),
    ]


def agent_policies(federation: Federation, metadata: Object, facts: Facts) -> list[Object]:
    """Of the agent that makes keys on another cluster: to that one's API server, and to names."""
    if not is_enabled(federation):
        return []
    names = _outside(federation, facts)[:1]
    return [_policy(metadata, metadata["labels"], [], [_to_api_server(), *names])]


def _to_address(host: str, port: int) -> Object:
    """To a name that is no address Kubernetes can limit by port alone."""
    ports = [{"protocol": "TCP", "port": port}]
    if (address := address_of(host)) is None:
        return {"ports": ports}
    return {"to": [{"ipBlock": {"cidr": f"{address}/{address.max_prefixlen}"}}], "ports": ports}


def _policy(
    metadata: Object, labels: dict[str, str], ingress: list[Object], egress: list[Object]
) -> Object:
    """An empty list is written down too: left out, it would be anyone's to fill."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _ingress(admitted: Iterable[tuple[int, list[Object]]]) -> list[Object]:
    """A rule for each port, for releases have several APIs on one."""
    peers: dict[int, list[Object]] = {}
    for port, some in admitted:
        known = peers.setdefault(port, [])
        known += [peer for peer in some if peer not in known]
    return [_rule("from", some, port) for port, some in peers.items()]


def _rule(direction: str, peers: list[Object], port: int) -> Object:
    return {direction: peers, "ports": [{"protocol": "TCP", "port": port}]}


def _outside(federation: Federation, facts: Facts) -> list[Object]:
    """What every pod may reach: names, wherever they are served, and what the user says."""
    numbers = [DNS_PORT, *([OPENSHIFT_DNS_PORT] if facts.openshift else [])]
    ports = [{"protocol": kind, "port": number} for number in numbers for kind in ("UDP", "TCP")]
    return [{"ports": ports}, *federation.spec.network_policy.egress]


def _to_api_server() -> Object:
    """To any address: it is no pod, and where it is differs from cluster to cluster."""
    return {"ports": [{"protocol": "TCP", "port": port} for port in API_SERVER_PORTS]}


def _pods(labels: dict[str, str]) -> Object:
    return {"podSelector": {"matchLabels": labels}}


def _launching(federation: Federation) -> list[Tasks]:
    pools = range(len(federation.spec.supernodes.pools))
    every = [superlink_tasks(federation), *(pool_tasks(federation, at) for at in pools)]
    return [tasks for tasks in every if tasks]


def _fault_of_peer(peer: Object) -> str | None:
    if not peer:
        return "names nobody; give it a podSelector, a namespaceSelector or an ipBlock"
    if "ipBlock" not in peer:
        return None
    if len(peer) > 1:
        return "has an ipBlock beside a selector; make two entries of it"
    block = peer["ipBlock"]
    wrong = [text for text in (block["cidr"], *block.get("except", [])) if not _is_range(text)]
    return f"{wrong[0]!r} is no range of addresses such as 10.0.0.0/8" if wrong else None


def _is_range(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text
