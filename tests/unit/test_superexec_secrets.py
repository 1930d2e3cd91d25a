"""Who shares a secret with whom: what a ClientApp may read must not open the SuperLink's door."""

from typing import Any

import pytest

from flower_operator.api.manifest import parse
from flower_operator.render import Facts, render
from flower_operator.render.facts import Identities
from flower_operator.render.secrets import SECRET
from tests.unit.federations import Document, document

POOLS: list[Document] = [
    {"name": "a", "replicas": 1},
    {"name": "b", "replicas": 1},
    {"name": "c", "replicas": 1, "executor": "kubernetes"},
]
CLAIM = {"size": "1Gi", "storageClassName": "standard"}
IDENTITIES = Identities(
    "certificate", "authority", "of-superlink", pool_secrets=(("a", "of-a"), ("b", "of-b"))
)


def workloads(version: str, **superlink: Any) -> dict[str, Document]:
    pools = [pool for pool in POOLS if version != "1.29.0" or "executor" not in pool]
    manifest = document(
        version=version,
        isolation="process",
        insecure=False,
        pools=pools,
        superlink=superlink,
        supernodeAuth={"enabled": True},
    )
    objects = render(parse(manifest), Facts(namespace="team", identities=IDENTITIES)).objects
    kinds = ("Deployment", "StatefulSet", "DaemonSet")
    return {each["metadata"]["name"]: each for each in objects if each["kind"] in kinds}


def secrets(workload: Document) -> set[str]:
    """The Secrets that its pods mount."""
    return {
        source["secret"].get("secretName", source["secret"].get("name"))
        for volume in workload["spec"]["template"]["spec"]["volumes"]
        for source in (volume, *volume.get("projected", {}).get("sources", []))
        if "secret" in source
    }


def is_pool(name: str) -> bool:
    return "-supernode-" in name


@pytest.mark.parametrize("version", ["1.29.0", "1.34.0", "1.41.0"])
@pytest.mark.parametrize("superlink", [{}, {"persistence": CLAIM}], ids=["together", "apart"])
def test_no_pod_of_a_pool_has_a_secret_of_the_superlinks(version: str, superlink: Document) -> None:
    found = workloads(version, **superlink)
    servers = {name: secrets(each) for name, each in found.items() if not is_pool(name)}
    pools = {name: secrets(each) for name, each in found.items() if is_pool(name)}
    assert len(servers) == (2 if superlink else 1)
    assert all("fed-superexec" in own for own in servers.values())
    for pool, own in pools.items():
        assert f"{pool}-superexec" in own
        assert all(own.isdisjoint(others) for others in servers.values())
        for other, others in pools.items():  # all have one certificate of the SuperNodes' own API
            assert pool == other or own & others <= {"fed-supernode-tls"}


def test_another_secret_restarts_those_that_share_it() -> None:
    annotations = {
        name: each["spec"]["template"]["metadata"].get("annotations", {}).get(SECRET)
        for name, each in workloads("1.41.0", persistence=CLAIM).items()
    }
    assert annotations == {
        "fed-superlink": "of-superlink",
        "fed-serverapp": "of-superlink",
        "fed-supernode-a": "of-a",
        "fed-supernode-b": "of-b",
        "fed-supernode-c": None,
    }
