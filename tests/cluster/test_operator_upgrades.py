"""What the operator makes of a changed Flower release."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flower_operator.trust.decisions import SECRET_LIFE
from flower_operator.trust.records import Secret, read_secret
from tests.cluster.federations import Document, Namespace, condition, manifest, wait_until
from tests.cluster.test_operator_examples import make_volume
from tests.cluster.test_operator_trust import secure
from tests.harness.nodes import FATE

pytestmark = pytest.mark.usefixtures("operator")

SUPERLINK = "lab-superlink"
NORTH, SOUTH = "lab-supernode-north", "lab-supernode-south"
MISSING = "image-missing"


def lab(release: str, link: str = "", north: str = "", **superlink: Any) -> Document:
    """A Federation of that release, and what becomes of the pods of its parts."""
    pools = [{"name": "north", "replicas": 2, **fated(north)}, {"name": "south", "replicas": 1}]
    image = {"image": f"flwr/superlink:{release}"}
    document = manifest("lab", superlink=image | superlink | fated(link), pools=pools)
    document["spec"]["supernodes"]["image"] = f"flwr/supernode:{release}"
    return document


def fated(fate: str) -> Document:
    return {"podTemplate": {"metadata": {"annotations": {FATE: fate}}}} if fate else {}


def image_of(namespace: Namespace, kind: str, name: str) -> str:
    found = namespace.get(kind, name)
    assert found
    image: str = found["spec"]["template"]["spec"]["containers"][0]["image"]
    return image.partition(":")[2]


def images(namespace: Namespace) -> list[str]:
    parts = [("Deployment", SUPERLINK), ("StatefulSet", NORTH), ("StatefulSet", SOUTH)]
    return [image_of(namespace, *part) for part in parts]


def keep_state(namespace: Namespace) -> Document:
    """What a SuperLink is told to keep its state on a volume, which is there."""
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "none",
    }
    make_volume(namespace, f"state-{SUPERLINK}-0", claim)
    return {"persistence": {"size": "1Gi", "storageClassName": "none"}}


def versions(namespace: Namespace, *names: str) -> list[str]:
    found = [namespace.get("StatefulSet", name) for name in names]
    return [each["metadata"]["resourceVersion"] for each in found if each]


def test_the_superlink_goes_first_then_one_pool_after_another_and_all_the_way_back(
    namespace: Namespace,
) -> None:
    old = lab("1.34.0")
    namespace.apply(old)
    namespace.wait_until_ready("lab")
    before = versions(namespace, NORTH, SOUTH)

    namespace.apply(lab("1.38.0", link="not-ready", north=MISSING))
    federation = namespace.wait_for_condition("lab", "Upgrading", "True", "UpgradingSuperLink")
    said = condition(federation, "Upgrading")["message"]
    assert "runs are not waited for: the operator runs outside of the cluster" in said
    assert condition(federation, "Ready")["reason"] == "UpgradingSuperLink"
    wait_until(lambda: images(namespace)[0] == "1.38.0", "the SuperLink does not follow")
    assert images(namespace) == ["1.38.0", "1.34.0", "1.34.0"]

    namespace.apply(lab("1.38.0", north=MISSING))
    federation = namespace.wait_for_condition("lab", "Degraded", "True", "ImageNotPullable")
    assert images(namespace) == ["1.38.0", "1.38.0", "1.34.0"]
    assert versions(namespace, NORTH) != before[:1]
    assert versions(namespace, SOUTH) == before[1:], "the pool that waits was touched"
    assert condition(federation, "Upgrading")["reason"] == "UpgradingPools"
    said = {each["name"]: each["release"] for each in federation["status"]["pools"]}
    assert said == {"north": "1.38.0", "south": "1.34.0"}

    namespace.apply(old)
    federation = namespace.wait_until_ready("lab")
    assert condition(federation, "Upgrading")["status"] == "False"
    assert versions(namespace, SOUTH) == before[1:]
    assert namespace.differences(old) == []

    new = lab("1.41.0")
    namespace.apply(new)
    federation = namespace.wait_until_ready("lab")
    assert condition(federation, "Upgrading")["status"] == "False"
    assert federation["status"]["release"] == "1.41.0"
    assert namespace.differences(new) == []


def test_a_database_has_no_way_back_but_from_a_release_that_never_started(
    namespace: Namespace,
) -> None:
    kept = keep_state(namespace)
    old = lab("1.34.0", **kept)
    namespace.apply(old)
    namespace.wait_until_ready("lab")

    namespace.apply(lab("1.38.0", link=MISSING, **kept))
    namespace.wait_for_condition("lab", "Degraded", "True", "ImageNotPullable")
    namespace.apply(old)
    namespace.wait_until_ready("lab")
    assert namespace.differences(old) == []

    new = lab("1.38.0", **kept)
    namespace.apply(new)
    namespace.wait_until_ready("lab")
    namespace.apply(old)
    federation = namespace.wait_for_condition("lab", "Degraded", "True", "DatabaseMismatch")
    said = condition(federation, "Ready")["message"]
    assert "Flower 1.34.0 cannot read a database that was used by 1.38.0" in said
    assert condition(federation, "SuperLinkAvailable")["status"] == "True"
    assert namespace.differences(new) == []
    namespace.cluster.kubectl("delete", "statefulset", SUPERLINK, "-n", namespace.name)
    namespace.wait_until_ready("lab")
    assert namespace.differences(old) == []


def test_while_a_release_is_refused_what_runs_has_its_secrets_renewed(namespace: Namespace) -> None:
    document = secure()
    document["spec"]["superlink"] |= keep_state(namespace)
    namespace.apply(document)
    namespace.wait_until_ready("lab")
    document["spec"]["version"] = "1.34.0"
    namespace.apply(document)
    namespace.wait_for_condition("lab", "Degraded", "True", "DatabaseMismatch")

    before = superexec_secret(namespace)
    # A moment from now, so that nothing but time tells the operator to look again.
    age = before.made + SECRET_LIFE - datetime.now(UTC) - timedelta(seconds=4)
    namespace.make_older("lab-superexec", age)
    wait_until(
        lambda: superexec_secret(namespace).identity != before.identity,
        "the secret stays as it was",
    )


def superexec_secret(namespace: Namespace) -> Secret:
    found = read_secret(namespace.secret("lab-superexec"))
    assert found
    return found
