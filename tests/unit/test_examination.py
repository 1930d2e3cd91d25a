"""What an examination makes of the evidence."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from flower_operator.cluster.evidence import (
    RIGHTS,
    Deployment,
    Event,
    Evidence,
    FederationEvidence,
    Hidden,
    Lease,
    Policy,
    Selector,
)
from flower_operator.cluster.examination import (
    Finding,
    examine,
    examine_federation,
    selects,
)
from flower_operator.cluster.federations import Federation
from flower_operator.cluster.pods import Pod
from tests.unit.federations import Document
from tests.unit.test_troubles import BACK_OFF, RUNNING, terminated, waiting, with_container

NOW = 1_800_000_000.0
FRESH, STALE = "2027-01-15T08:00:00.000000Z", "2027-01-15T07:00:00Z"
WELL: Document = {
    "observedGeneration": 1,
    "release": "1.41.0",
    "supernodes": "1/1",
    "readySupernodes": 1,
    "desiredSupernodes": 1,
    "connectedSupernodes": 1,
    "conditions": [{"type": "Ready", "status": "True", "reason": "AllReady", "message": "all"}],
}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def definition(*fields: str, **status: Any) -> Document:
    """A CRD with these fields in its spec."""
    spec = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}
    return {"spec": {"versions": [version]}, "status": status}


def read(form: Any, **content: Any) -> Any:
    return msgspec.convert(content, type=form)


def federation(status: Document | None = None, **spec: Any) -> Federation:
    metadata = {"name": "lab", "namespace": "team", "generation": 1}
    read_form: Federation = read(Federation, metadata=metadata, spec=spec, status=status or WELL)
    return read_form


def pod(
    name: str = "lab-supernode-north-0",
    status: Document | None = None,
    *,
    component: str = "supernode",
    images: dict[str, str] | None = None,
    **metadata: Any,
) -> Pod:
    labels = {"flower.flwr.ai/federation": "lab", "flower.flwr.ai/component": component}
    if component == "supernode":
        labels["flower.flwr.ai/pool"] = "north"
    images = {component: f"flwr/{component}:1.41.0"} if images is None else images
    containers = [{"name": key, "image": value} for key, value in images.items()]
    found: Pod = read(
        Pod,
        metadata={"name": name, "namespace": "team", "uid": name, "labels": labels, **metadata},
        spec={"containers": containers},
        status=status or READY,
    )
    return found


LINK = pod("lab-superlink-5d-x", component="superlink")


def event(name: str, reason: str, message: str, kind: str = "Pod") -> Event:
    about = {"kind": kind, "name": name}
    found: Event = read(Event, involvedObject=about, reason=reason, message=message)
    return found


def evidence(**changes: Any) -> Evidence:
    """A cluster where all is well."""
    usual = Evidence(
        server="https://cluster",
        version="v1.35.4",
        definition=definition("mode", "suspend"),
        expected=definition("mode", "suspend"),
        deployments=[
            read(
                Deployment,
                metadata={"name": "manager", "namespace": "system"},
                status={"readyReplicas": 1},
            )
        ],
        leases=[read(Lease, spec={"holderIdentity": "one", "renewTime": FRESH})],
        missing=[],
        dns_endpoints=2,
        federations=[],
        namespace="team",
        now=NOW,
    )
    return replace(usual, **changes)


def of_federation(**changes: Any) -> FederationEvidence:
    usual = FederationEvidence(
        federation=federation(), pods=[LINK, pod()], policies=[], warnings=[]
    )
    return replace(usual, **changes)


def wrong(findings: Sequence[Finding]) -> list[Finding]:
    return [each for each in findings if each.verdict != "ok"]


def test_where_all_is_well_every_check_says_so() -> None:
    findings = examine(evidence(federations=[of_federation()]))
    assert wrong(findings) == []
    assert [each.subject for each in findings] == [
        "cluster",
        "CRD",
        "operator",
        "leader",
        "rights",
        "DNS",
        "lab: status",
        "lab: pods",
        "lab: releases",
        "lab: connected",
        "lab: network",
        "lab: events",
    ]


PENDING = definition(
    "mode", "suspend", conditions=[{"type": "Established", "status": "False", "message": "not yet"}]
)
NO_LEASE: Document = {"leases": []}


@pytest.mark.parametrize(
    ("changes", "subject", "verdict", "words"),
    [
        ({"version": "v1.27.9+k3s1"}, "cluster", "wrong", "upgrade it to 1.28"),
        ({"definition": None}, "CRD", "wrong", "not installed → flower-operator crd | kubectl"),
        ({"definition": definition("mode")}, "CRD", "wrong", "lacks spec.suspend →"),
        ({"definition": PENDING}, "CRD", "wrong", "Established is False: not yet"),
        ({"definition": definition("mode", "suspend", "more")}, "CRD", "ok", "every field"),
        ({"definition": Hidden("no")}, "CRD", "note", "no"),
        (
            {"deployments": [read(Deployment, metadata={"name": "m", "namespace": "s"})]},
            "operator",
            "wrong",
            "s/m has 0 of 1 pods ready → kubectl describe pods -n s",
        ),
        ({"deployments": [], **NO_LEASE}, "operator", "wrong", "no Deployment of it → install"),
        ({"deployments": []}, "operator", "ok", "one runs outside of the cluster"),
        (NO_LEASE, "leader", "wrong", "no operator has ever led"),
        (
            {"leases": [read(Lease, spec={"holderIdentity": "one", "renewTime": STALE})]},
            "leader",
            "wrong",
            "the last did 3600 s ago",
        ),
        (
            {"leases": [read(Lease, spec={"holderIdentity": "", "renewTime": FRESH})]},
            "leader",
            "wrong",
            "no operator leads",
        ),
        ({"missing": [RIGHTS[0]]}, "rights", "wrong", "you may not get federations in namespace"),
        ({"missing": [RIGHTS[6]]}, "rights", "note", "create pods/portforward in namespace team"),
        ({"dns_endpoints": None}, "DNS", "wrong", "no Service kube-dns"),
        ({"dns_endpoints": 0}, "DNS", "wrong", "no endpoints → SuperNodes find the SuperLink"),
        ({"federations": Hidden("you cannot list")}, "Federations", "wrong", "you cannot list"),
    ],
)
def test_a_fault_of_the_cluster(changes: Document, subject: str, verdict: str, words: str) -> None:
    found = {each.subject: each for each in examine(evidence(**changes))}[subject]
    assert found.verdict == verdict
    assert words in f"{found.message} → {found.remedy}"


def status(**changes: Any) -> Federation:
    return federation({**WELL, **changes})


NOT_READY = [{"type": "Ready", "status": "False", "reason": "CrashLoop", "message": "pod x"}]
UNWELL = status(conditions=NOT_READY)
SUSPENDED = federation({**WELL, "conditions": NOT_READY}, suspend=True)
DENY = read(Policy, metadata={"name": "deny"}, spec={"podSelector": {}})
OTHERS = read(Policy, metadata={"name": "x"}, spec={"podSelector": {"matchLabels": {"a": "b"}}})
MANAGED = {"app.kubernetes.io/managed-by": "flower-operator"}
OWN = read(Policy, metadata={"name": "own", "labels": MANAGED}, spec={"podSelector": {}})
UNSCHEDULED: Document = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}],
}
NAME = "lab-supernode-north-0"
QUOTA = "exceeded quota: none"


@pytest.mark.parametrize(
    ("changes", "subject", "verdict", "words"),
    [
        ({"federation": federation({"conditions": []})}, "status", "wrong", "has not looked"),
        ({"federation": status(observedGeneration=0)}, "status", "wrong", "not seen generation 1"),
        ({"federation": UNWELL}, "status", "wrong", "CrashLoop: pod x"),
        ({"federation": SUSPENDED}, "status", "ok", "it is suspended"),
        (
            {"pods": [pod(status=with_container(BACK_OFF, terminated(1, message="bad flag")))]},
            "pods",
            "wrong",
            "bad flag → read its log: kubectl flower logs lab north-0 --previous",
        ),
        (
            {"pods": [pod(status=with_container(waiting("ImagePullBackOff")))]},
            "pods",
            "wrong",
            "cannot be pulled → correct the image",
        ),
        ({"pods": [pod(status=UNSCHEDULED)]}, "pods", "wrong", "0/3 nodes → add nodes"),
        (
            {
                "pods": [pod(status=with_container(RUNNING))],
                "warnings": [event(NAME, "Unhealthy", "Startup probe failed")],
            },
            "pods",
            "wrong",
            "not ready: Startup probe failed",
        ),
        ({"warnings": [event(NAME, "Unhealthy", "once")]}, "pods", "ok", "2 of 2 are ready"),
        ({"pods": []}, "pods", "note", "there are none"),
        ({"pods": Hidden("no")}, "pods", "note", "no"),
        (
            {"pods": [LINK, pod(images={"supernode": "flwr/supernode:1.39.0"})]},
            "releases",
            "wrong",
            "SuperNodes of Flower 1.39.0 speak gRPC",
        ),
        (
            {
                "pods": [
                    LINK,
                    pod(
                        images={
                            "supernode": "flwr/supernode:1.41.0",
                            "superexec-clientapp": "flwr/superexec:1.40.0",
                        }
                    ),
                ]
            },
            "releases",
            "wrong",
            "a SuperExec of Flower 1.40.0 cannot work for a SuperNode of 1.41.0",
        ),
        (
            {
                "pods": [
                    pod("lab-serverapp", images={"superexec-serverapp": "flwr/superexec:1.40.0"}),
                    LINK,
                ]
            },
            "releases",
            "wrong",
            "a SuperExec of Flower 1.40.0 cannot work for a SuperLink of 1.41.0",
        ),
        ({"federation": status(connectedSupernodes=0)}, "connected", "wrong", "0 SuperNodes are"),
        ({"federation": status(connectedSupernodes=None)}, "connected", "note", "not known"),
        ({"policies": [DENY]}, "network", "note", "deny → see that they let"),
        ({"policies": [DENY], "federation": UNWELL}, "network", "wrong", "port 8000 and DNS"),
        ({"policies": [OTHERS, OWN]}, "network", "ok", "no NetworkPolicy of others selects"),
        (
            {
                "federation": UNWELL,
                "warnings": [event("lab-supernode-north", "FailedCreate", QUOTA, "StatefulSet")],
            },
            "events",
            "wrong",
            "exceeded quota: none → raise the ResourceQuota",
        ),
        (
            {
                "federation": UNWELL,
                "warnings": [event("lab-superlink-5d", "FailedCreate", "violates PodSecurity")],
            },
            "events",
            "wrong",
            "violates PodSecurity → take out of podTemplate",
        ),
        (
            {"warnings": [event("lab-supernode-north", "FailedCreate", QUOTA)]},
            "events",
            "ok",
            "none tells",
        ),
        (
            {
                "federation": UNWELL,
                "warnings": [event("other-superlink", "FailedCreate", QUOTA)],
            },
            "events",
            "ok",
            "none tells",
        ),
        (
            {
                "pods": [pod(status={"phase": "Pending"})],
                "warnings": [event(NAME, "FailedMount", 'secret "x" not found')],
            },
            "events",
            "wrong",
            'secret "x" not found → make the Secret',
        ),
        ({"warnings": [event(NAME, "FailedMount", "over")]}, "events", "ok", "none tells"),
    ],
)
def test_a_fault_of_a_federation(changes: Document, subject: str, verdict: str, words: str) -> None:
    findings = examine_federation(of_federation(**changes), NOW)
    found = {each.subject: each for each in findings}[f"lab: {subject}"]
    assert found.verdict == verdict
    assert words in f"{found.message} → {found.remedy}"


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "1", "b": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "In", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_selector_means_what_kubernetes_says(selector: Document, fits: bool) -> None:
    assert selects(msgspec.convert(selector, type=Selector), {"a": "1"}) is fits
