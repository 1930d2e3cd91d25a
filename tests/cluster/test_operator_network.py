"""NetworkPolicies and the SuperLink's claim, as they come, change and go."""

import asyncio
from typing import Any

import pytest
import yaml

from flower_operator.kube.client import Client
from flower_operator.kube.connection import connect
from flower_operator.operator.platform import OPENSHIFT_GROUP, api_groups
from tests.cluster.federations import (
    RELEASE,
    Document,
    Namespace,
    condition,
    manifest,
    wait_until,
)
from tests.cluster.test_operator_changes import claims
from tests.cluster.test_operator_examples import make_volume
from tests.harness.control_plane import ControlPlane

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("operator")]

SUPERLINK = "lab-superlink"
POOL = "lab-supernode-default"
ON: Document = {"networkPolicy": {"enabled": True}}
CLAIM: Document = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}


def policies(namespace: Namespace) -> set[str]:
    return {name for kind, name in namespace.children() if kind == "NetworkPolicy"}


def isolated(**superlink: Any) -> Document:
    """In process isolation."""
    superexec = f"flwr/superexec:{RELEASE}"
    superlink |= {"image": f"flwr/superlink:{RELEASE}", "superexecImage": superexec}
    pools = [{"name": "default", "replicas": 2, "images": {"superexecClientApp": superexec}}]
    return manifest("lab", isolationMode="process", superlink=superlink, pools=pools)


def persistent(**superlink: Any) -> Document:
    return isolated(persistence={"size": "1Gi"}, **superlink)


def test_policies_come_with_their_federation_and_go_when_turned_off(namespace: Namespace) -> None:
    on = manifest("lab", **ON)
    namespace.apply(on)
    federation = namespace.wait_until_ready("lab")
    assert policies(namespace) == {SUPERLINK, POOL}
    namespace.wait_until_as_rendered(on)
    assert "SuperNodes can also submit runs" in condition(federation, "Ready")["message"]

    off = manifest("lab", networkPolicy={"enabled": False})
    namespace.apply(off)
    namespace.wait_until_as_rendered(off)
    assert policies(namespace) == set()
    namespace.apply(on)
    namespace.wait_until_as_rendered(on)
    namespace.delete("lab")
    wait_until(lambda: not namespace.children(), "something is left")


@pytest.mark.parametrize(
    ("name", "patch"),
    [
        # What was empty is not anyone's to fill.
        (POOL, {"spec": {"ingress": [{}]}}),
        (POOL, {"spec": {"egress": [{}]}}),
        (SUPERLINK, {"spec": {"policyTypes": ["Ingress"]}}),
        (SUPERLINK, {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}),
        (SUPERLINK, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}),
        (SUPERLINK, None),
    ],
)
def test_a_policy_changed_by_hand_is_put_right(
    namespace: Namespace, name: str, patch: Document | None
) -> None:
    on = manifest("lab", **ON)
    namespace.apply(on)
    namespace.wait_until_ready("lab")
    before = namespace.get("NetworkPolicy", name)
    assert before
    if patch:
        namespace.patch("NetworkPolicy", name, patch)
    else:
        namespace.cluster.kubectl("delete", "networkpolicy", name, "-n", namespace.name)

    def as_before() -> bool:
        now = namespace.get("NetworkPolicy", name)
        return now is not None and now["spec"] == before["spec"]

    wait_until(as_before, "it stays as it was changed")
    namespace.wait_until_as_rendered(on)


def test_a_pool_that_goes_takes_its_policy_along(namespace: Namespace) -> None:
    pools = [{"name": "default", "replicas": 1}, {"name": "second", "replicas": 1}]
    namespace.apply(manifest("lab", pools=pools, **ON))
    namespace.wait_until_ready("lab")
    assert policies(namespace) == {SUPERLINK, POOL, "lab-supernode-second"}
    one = manifest("lab", pools=pools[:1], **ON)
    namespace.apply(one)
    namespace.wait_until_as_rendered(one)
    assert policies(namespace) == {SUPERLINK, POOL}


def test_a_rule_that_the_api_server_refuses_is_told_in_its_words(namespace: Namespace) -> None:
    rule = {"ports": [{"port": 90000}]}
    namespace.apply(manifest("lab", networkPolicy={"enabled": True, "egress": [rule]}))
    federation = namespace.wait_for_condition("lab", "Degraded", "True", "Refused")
    message = condition(federation, "Degraded")["message"]
    assert f"NetworkPolicy {SUPERLINK}" in message
    assert "90000" in message


def test_a_claim_stays_when_persistence_goes_and_is_found_again(namespace: Namespace) -> None:
    serverapp = ("Deployment", "lab-serverapp")
    name = f"state-{SUPERLINK}-0"
    make_volume(namespace, name, CLAIM)
    plain = isolated()
    namespace.apply(plain)
    told = "persistence: not set, so a restart of the SuperLink loses its runs"
    assert told in condition(namespace.wait_until_ready("lab"), "Ready")["message"]

    namespace.apply(persistent())
    federation = namespace.wait_until_ready("lab")
    assert told not in condition(federation, "Ready")["message"]
    assert namespace.differences(persistent()) == []
    assert serverapp in namespace.children()
    (uid,) = claims(namespace).values()
    assert list(claims(namespace)) == [name]

    namespace.apply(plain)
    namespace.wait_until_ready("lab")
    assert namespace.differences(plain) == []
    assert serverapp not in namespace.children()
    assert claims(namespace) == {name: uid}

    namespace.apply(persistent())
    namespace.wait_until_ready("lab")
    assert claims(namespace) == {name: uid}
    (pod,) = (each for each in namespace.pods() if SUPERLINK in each["metadata"]["name"])
    assert pod["metadata"]["name"] == f"{SUPERLINK}-0"
    seconds = {
        each["key"]: each["tolerationSeconds"]
        for each in pod["spec"]["tolerations"]
        if "tolerationSeconds" in each
    }
    # Kubernetes adds its own five minutes only where nothing is said.
    assert seconds == {
        "node.kubernetes.io/not-ready": 30,
        "node.kubernetes.io/unreachable": 30,
    }
    namespace.delete("lab")
    wait_until(lambda: not namespace.children(), "something is left")
    assert claims(namespace) == {name: uid}


def test_what_is_in_the_place_of_the_claim_is_told(namespace: Namespace) -> None:
    namespace.apply(persistent(extraArgs=["--database", "/elsewhere"]))
    federation = namespace.wait_for_condition("lab", "Ready", "False", "InvalidSpec")
    assert "--database is set by persistence" in condition(federation, "Ready")["message"]
    assert namespace.children() == {}


def test_openshift_is_known_by_its_api_group(cluster: ControlPlane) -> None:
    async def ask() -> bool:
        async with Client(connect(cluster.kubeconfig), "test") as client:
            return OPENSHIFT_GROUP in await api_groups(client)

    assert not asyncio.run(ask())
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"somethings.{OPENSHIFT_GROUP}"},
        "spec": {
            "group": OPENSHIFT_GROUP,
            "names": {"kind": "Something", "plural": "somethings"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(definition))
    try:
        wait_until(lambda: asyncio.run(ask()), "the group is not found")
    finally:
        cluster.kubectl("delete", "crd", definition["metadata"]["name"])  # type: ignore[index]
