"""NetworkPolicies on the node's network, for there is no network plugin here that heeds them.

A thread reads policies, pods and namespaces several times a second and makes packet rules of them.
Left out: IPv6, named ports, selectors other than `matchLabels`, and that a pod may not begin before
its rules do. What comes from the node itself is let through, as probes have to be.
"""

import ipaddress
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from .control_plane import ControlPlane

Document = dict[str, Any]

_TABLE = "inet policies"
_SECONDS = 0.2
_POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"


class Enforcer:
    """Heeds the NetworkPolicies of a cluster from entering a with-block until leaving it."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._end = threading.Event()
        # A thread is in the network of the one that starts it.
        self._thread = threading.Thread(target=self._run, name="policies")
        self._text = ""
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        self._enforce()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        _set_rules(f"delete table {_TABLE}\n")
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._end.wait(_SECONDS):
                self._enforce()
        except Exception as error:
            self._error = error

    def _enforce(self) -> None:
        text = rules(*map(self._items, (_POLICIES, "/api/v1/pods", "/api/v1/namespaces")))
        if text != self._text:
            _set_rules(text)
            self._text = text

    def _items(self, path: str) -> list[Document]:
        items: list[Document] = self._cluster.request("GET", path)[1]["items"]
        return items


@contextmanager
def cut_off(*addresses: str) -> Iterator[None]:
    """Nothing that pods with these addresses send gets anywhere."""
    table = "inet cut"
    rule = f"ip saddr {{ {', '.join(addresses)} }} drop"
    hook = "type filter hook forward priority 0"
    _set_rules(f"table {table} {{\nchain forward {{\n{hook}\n{rule}\n}}\n}}\n")
    try:
        yield
    finally:
        _set_rules(f"delete table {table}\n")


def rules(policies: list[Document], pods: list[Document], namespaces: list[Document]) -> str:
    """Everything as one table that replaces the one before. Services are pods by then: their
    addresses are translated earlier."""
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in namespaces}
    known = [_Pod(each, labels) for each in pods if _has_address(each)]
    chains: list[str] = []
    verdicts: dict[str, list[str]] = {"saddr": [], "daddr": []}
    for pod in known:
        own = [each for each in policies if pod.is_selected(each)]
        for direction, end, other in (("Egress", "saddr", "daddr"), ("Ingress", "daddr", "saddr")):
            heeded = [each["spec"] for each in own if direction in each["spec"]["policyTypes"]]
            if heeded:
                name = f"{direction}-{pod.address}".replace(".", "-")
                allowed = [
                    f"{match} return"
                    for spec in heeded
                    for rule in spec.get(direction.lower(), [])
                    for match in _matches(rule, direction, other, pod, known)
                ]
                chains.append(f"chain {name} {{\n{chr(10).join(allowed)}\ndrop\n}}")
                verdicts[end].append(f"{pod.address} : jump {name}")
    judge = ["ct state established,related accept"]
    judge += [f"ip {end} vmap {{ {', '.join(each)} }}" for end, each in verdicts.items() if each]
    chains.append(f"chain judge {{\n{chr(10).join(judge)}\n}}")
    # To other pods, and to what runs on the node itself.
    for hook in ("forward", "input"):
        chains.append(f"chain {hook} {{\ntype filter hook {hook} priority 0\njump judge\n}}")
    body = "\n".join(chains)
    return f"table {_TABLE}\ndelete table {_TABLE}\ntable {_TABLE} {{\n{body}\n}}\n"


class _Pod:
    def __init__(self, pod: Document, namespaces: dict[str, dict[str, str]]) -> None:
        self.address: str = pod["status"]["podIP"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.labels: dict[str, str] = pod["metadata"].get("labels", {})
        self.namespace_labels = namespaces.get(self.namespace, {})  # it may be gone by now

    def is_selected(self, policy: Document) -> bool:
        here = policy["metadata"]["namespace"] == self.namespace
        return here and _selects(policy["spec"]["podSelector"], self.labels)

    def is_peer(self, peer: Document, namespace: str) -> bool:
        """Whether this is meant by a peer in a policy of that namespace."""
        if "namespaceSelector" in peer:
            near = _selects(peer["namespaceSelector"], self.namespace_labels)
        else:
            near = self.namespace == namespace
        return near and _selects(peer.get("podSelector", {}), self.labels)


def _has_address(pod: Document) -> bool:
    own = not pod["spec"].get("hostNetwork")
    return own and bool(pod["status"].get("podIP")) and pod["status"]["phase"] == "Running"


def _selects(selector: Document, labels: dict[str, str]) -> bool:
    if selector.keys() - {"matchLabels"}:
        raise NotImplementedError(f"only matchLabels are understood here: {selector}")
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def _matches(
    rule: Document, direction: str, end: str, pod: _Pod, known: list[_Pod]
) -> Iterator[str]:
    """What one rule of a policy of this pod allows, as matches of packets."""
    peers = rule.get("from" if direction == "Ingress" else "to")
    addresses = [""] if not peers else list(_addresses(peers, end, pod, known))
    ports = [_port(each) for each in rule.get("ports", [])] or [""]
    for address in addresses:
        for port in ports:
            yield f"{address} {port}"


def _addresses(peers: list[Document], end: str, pod: _Pod, known: list[_Pod]) -> Iterator[str]:
    for peer in peers:
        if block := peer.get("ipBlock"):
            if ipaddress.ip_network(block["cidr"]).version == 4:
                others = "".join(f" ip {end} != {each}" for each in block.get("except", []))
                yield f"ip {end} {block['cidr']}{others}"
        else:
            for other in known:
                if other.is_peer(peer, pod.namespace):
                    yield f"ip {end} {other.address}"


def _port(port: Document) -> str:
    protocol, number = port.get("protocol", "TCP").lower(), port["port"]
    if not isinstance(number, int):
        raise NotImplementedError(f"only numbers of ports are understood here: {port}")
    return f"{protocol} dport {number}-{port.get('endPort', number)}"


def _set_rules(text: str) -> None:
    done = subprocess.run(["nft", "-f", "-"], input=text, text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"nft: {done.stderr}\n{text}")
