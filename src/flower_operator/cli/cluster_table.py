"""Federations of a cluster as tables, and the findings of an examination."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from ..cluster.examination import Finding
from ..cluster.federations import Federation
from ..cluster.pods import Pod
from .table import age, aligned
from .terminal import one_line


def list_table(found: Iterable[Federation], now: float, *, namespaces: bool) -> list[str]:
    """As `kubectl get federations` prints them."""
    headings = ("NAME", "MODE", "ISOLATION", "SUPERNODES", "READY", "AGE")
    rows: list[Sequence[str]] = [("NAMESPACE", *headings) if namespaces else headings]
    for each in found:
        metadata, spec = each.metadata, each.spec
        created = metadata.creation_timestamp
        row = (
            each.name,
            spec.mode,
            spec.isolation_mode,
            each.status.supernodes,
            each.verdict,
            age(now - created.timestamp()) if created else "?",
        )
        rows.append((metadata.namespace, *row) if namespaces else row)
    return aligned(rows)


def federation_table(
    federation: Federation, pods: Sequence[Pod], now: float, width: int | None
) -> list[str]:
    """The lines of the table; with a width, those of a message are broken to it."""
    lines = list(map(one_line, _heading(federation)))
    rows: list[Sequence[str]] = [("POOL", "KIND", "READY", "FLOWER", "REASON")]
    for pool in federation.status.pools:
        counts = f"{pool.ready}/{pool.desired}"
        rows.append((pool.name, pool.kind, counts, pool.release, pool.reason))
    if len(rows) > 1:
        lines += aligned(rows)
    lines += _fleet(federation)
    for message in _messages(federation, pods, now):
        lines += _broken(one_line(message), width)
    return [line if width is None else line[: width - 1] for line in lines]


def _fleet(federation: Federation) -> list[str]:
    """Where pools with placement run, cluster by cluster."""
    rows: list[Sequence[str]] = [
        ("CLUSTER", "POOL", "READY", "CONNECTED", "PARTITIONS", "ADDON", "LAST SEEN")
    ]
    for pool in federation.status.pools:
        for each in pool.clusters:
            connected = "?" if each.connected is None else str(each.connected)
            counts = f"{each.ready}/{each.desired}"
            seen = each.last_seen or "now"
            rows.append(
                (each.name, pool.name, counts, connected, each.partitions, each.addon, seen)
            )
    return ["", *aligned(rows)] if len(rows) > 1 else []


def _heading(federation: Federation) -> list[str]:
    status = federation.status
    word = "ready" if federation.ready else "suspended" if federation.spec.suspend else "not ready"
    connected = status.connected_supernodes
    counts = f"{status.supernodes or '?'} SuperNodes ready"
    if connected is not None:
        counts += f", {connected} connected"
    endpoint = status.endpoints.superlink_service
    lines = [f"{federation.name}: {word}, {counts}"]
    if federation.external:
        lines.append(f"SuperLink at {federation.external}")
    elif status.release:
        lines.append(f"Flower {status.release}, flwr run at {endpoint} inside the cluster")
    return lines


def _messages(federation: Federation, pods: Sequence[Pod], now: float) -> Iterator[str]:
    """Conditions that are not fine, those that say the same as one; then what pods add to them."""
    if not federation.status.conditions:
        yield "the operator has not looked at it yet; if it goes on: kubectl flower doctor"
    elif not federation.observed:
        generation = federation.metadata.generation
        yield f"the operator has not seen generation {generation} yet: this is how it was before"
    said: dict[tuple[str, str], list[str]] = {}
    for each in federation.status.conditions:
        if not each.fine:
            said.setdefault((each.reason, each.message), []).append(f"{each.type} {each.status}")
    for (reason, message), conditions in said.items():
        yield f"{', '.join(conditions)}: {reason}: {message}"
    told = " ".join(message for _, message in said)
    for pod in pods:
        for trouble in pod.troubles(now):
            if trouble.message not in told:
                yield f"pod {pod.name}: {trouble.reason}: {trouble.message}"


def _broken(message: str, width: int | None) -> list[str]:
    text = f"  {message}"
    return textwrap.wrap(text, width - 1, subsequent_indent="    ") if width else [text]


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    subjects = [one_line(each.subject) for each in findings]
    width = max(map(len, subjects))
    return [
        f"{each.verdict:<5}  {subject:<{width}}  {one_line(_sentence(each))}"
        for subject, each in zip(subjects, findings, strict=True)
    ]


def _sentence(finding: Finding) -> str:
    return f"{finding.message} → {finding.remedy}" if finding.remedy else finding.message
