"""SuperNodes whose SuperLink runs elsewhere, on a real API server."""

import pytest

from tests.cluster.federations import Document, Namespace, condition, manifest, wait_until
from tests.cluster.test_operator_trust import stored
from tests.unit.test_external import ADDRESS, CA

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("operator")]


def joined(**spec: object) -> Document:
    """A Federation of process isolation with keys, as `join` prints it."""
    document = manifest(
        "lab",
        insecure=False,
        isolationMode="process",
        supernodeAuth={"enabled": True, "allowSubprocess": True},
        superlink={"external": {"address": ADDRESS, "ca": CA}},
        **spec,
    )
    for pool in document["spec"]["supernodes"]["pools"]:
        pool["images"] = {"superexecClientApp": "flwr/superexec:1.41.0"}
    return document


def secrets(namespace: Namespace) -> set[str]:
    path = f"/api/v1/namespaces/{namespace.name}/secrets"
    return {each["metadata"]["name"] for each in namespace.cluster.request("GET", path)[1]["items"]}


def test_supernodes_alone_are_ready_and_a_superlink_of_their_own_may_come_and_go(
    namespace: Namespace,
) -> None:
    namespace.apply(joined())
    ready = namespace.wait_until_ready("lab")
    kinds = {kind for kind, _ in namespace.children()}
    assert kinds == {"StatefulSet", "ConfigMap", "NetworkPolicy"}
    # No CA, no certificate and no keys: just what a SuperExec shares with its SuperNode.
    assert secrets(namespace) == {"lab-supernode-default-superexec"}
    assert ready["status"]["endpoints"]["superlinkService"] == ADDRESS
    assert "connectedSupernodes" not in ready["status"]
    assert condition(ready, "SuperLinkAvailable")["reason"] == "External"

    own = manifest("lab", insecure=False)
    namespace.apply(own)
    namespace.wait_for_condition("lab", "SuperLinkAvailable", "True")
    namespace.wait_until_ready("lab")
    assert not stored(namespace, "configmaps", "lab-external-ca")

    namespace.apply(joined())
    namespace.wait_for_condition("lab", "SuperLinkAvailable", "Unknown")
    wait_until(
        lambda: not any("superlink" in name for _, name in namespace.children()),
        lambda: f"there is {sorted(namespace.children())}",
    )
    namespace.wait_until_ready("lab")
