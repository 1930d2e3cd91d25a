"""A changed Flower release through the controller: the SuperLink first, then pool by pool."""

import asyncio
from typing import Any

from flower_operator.kube.resources import DEPLOYMENT, STATEFUL_SET
from tests.harness.nodes import FATE
from tests.unit.federations import Document, document
from tests.unit.memory_cluster import START, Cluster, play
from tests.unit.virtual_time import now

NORTH, SOUTH = "fed-supernode-north", "fed-supernode-south"


def lab(release: str, link: str = "", north: str = "", **superlink: Any) -> Document:
    """A Federation of that release, and what becomes of the pods of its parts."""
    pools = [{"name": "north", "replicas": 2, **fated(north)}, {"name": "south", "replicas": 1}]
    image = {"image": f"flwr/superlink:{release}"}
    supernodes = {"image": f"flwr/supernode:{release}"}
    return document(superlink=image | superlink | fated(link), pools=pools, supernodes=supernodes)


def fated(fate: str) -> Document:
    return {"podTemplate": {"metadata": {"annotations": {FATE: fate}}}} if fate else {}


def releases(cluster: Cluster) -> list[str]:
    """The release of the SuperLink's image, and of each pool's."""
    superlink = cluster.get(DEPLOYMENT, "fed-superlink") or cluster.get(
        STATEFUL_SET, "fed-superlink"
    )
    workloads = [superlink, cluster.get(STATEFUL_SET, NORTH), cluster.get(STATEFUL_SET, SOUTH)]
    images = [
        workload["spec"]["template"]["spec"]["containers"][0]["image"]
        for workload in workloads
        if workload
    ]
    return [image.partition(":")[2] for image in images]


def version(cluster: Cluster, name: str) -> str:
    workload = cluster.get(STATEFUL_SET, name)
    assert workload
    result: str = workload["metadata"]["resourceVersion"]
    return result


def test_the_superlink_goes_first_then_one_pool_after_another() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        await cluster.apply(lab("1.34.0"))
        await cluster.until_ready()
        seen: list[list[str]] = []

        def record() -> None:
            found = releases(cluster)
            if len(found) == 3 and found not in seen[-1:]:
                seen.append(found)

        cluster.server.changed.append(record)
        await cluster.apply(lab("1.38.0"))
        await cluster.until(lambda: releases(cluster) == ["1.38.0"] * 3, "it is not upgraded")
        await cluster.until_ready()
        assert seen == [
            ["1.34.0", "1.34.0", "1.34.0"],
            ["1.38.0", "1.34.0", "1.34.0"],
            ["1.38.0", "1.38.0", "1.34.0"],
            ["1.38.0", "1.38.0", "1.38.0"],
        ]
        assert cluster.condition("Upgrading")["status"] == "False"
        assert cluster.status()["release"] == "1.38.0"
        assert cluster.differences([lab("1.38.0")]) == []

    play(scenario)


def test_the_next_part_waits_until_the_one_before_is_ready() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        await cluster.apply(lab("1.34.0"))
        await cluster.until_ready()
        before = version(cluster, SOUTH)
        await cluster.apply(lab("1.38.0", link="not-ready"))
        await cluster.until(
            lambda: cluster.reason("Upgrading") == "UpgradingSuperLink", "it is not told"
        )
        await cluster.writes_within(120)
        assert releases(cluster) == ["1.38.0", "1.34.0", "1.34.0"]
        await cluster.apply(lab("1.38.0", north="image-missing"))
        await cluster.until(
            lambda: cluster.reason("Degraded") == "ImageNotPullable", lambda: str(cluster.status())
        )
        await cluster.writes_within(120)
        assert releases(cluster) == ["1.38.0", "1.38.0", "1.34.0"]
        assert version(cluster, SOUTH) == before, "the pool that waits was written"
        assert cluster.reason("Upgrading") == "UpgradingPools"
        told = {pool["name"]: pool["release"] for pool in cluster.status()["pools"]}
        assert told == {"north": "1.38.0", "south": "1.34.0"}
        await cluster.apply(lab("1.34.0"))
        await cluster.until_ready()
        assert cluster.differences([lab("1.34.0")]) == []
        assert version(cluster, SOUTH) == before

    play(scenario)


def test_an_upgrade_waits_for_runs_no_longer_than_max_wait() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        cluster.superlinks.start_run()
        await cluster.apply(limited(lab("1.34.0")))
        await cluster.until_ready()
        await cluster.apply(limited(lab("1.38.0")))
        await cluster.until(
            lambda: cluster.reason("Upgrading") == "WaitingForRuns", lambda: str(cluster.status())
        )
        await cluster.writes_within(280)
        assert releases(cluster) == ["1.34.0"] * 3
        await cluster.until(lambda: releases(cluster)[0] == "1.38.0", "it waits on", 40)
        await cluster.until(lambda: releases(cluster) == ["1.38.0"] * 3, "pools wait on", 60)
        await cluster.until_ready()

    play(scenario)


def limited(manifest: Document) -> Document:
    return manifest | {"spec": manifest["spec"] | {"tls": {"rotation": {"maxWait": "5m"}}}}


def test_an_upgrade_follows_the_end_of_a_run() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        cluster.superlinks.start_run()
        await cluster.apply(lab("1.34.0"))
        await cluster.until_ready()
        await cluster.apply(lab("1.38.0"))
        await cluster.writes_within(100)
        assert cluster.reason("Upgrading") == "WaitingForRuns"
        assert releases(cluster) == ["1.34.0"] * 3
        cluster.superlinks.finish_runs()
        await cluster.until(lambda: releases(cluster)[0] == "1.38.0", "it waits on", 10)
        await cluster.until_ready()

    play(scenario)


def test_while_a_release_is_refused_the_certificate_is_renewed_in_time() -> None:
    async def scenario(cluster: Cluster) -> None:
        def secure(release: str) -> Document:
            manifest = lab(release, persistence={"size": "1Gi"})
            return manifest | {"spec": manifest["spec"] | {"insecure": False}}

        cluster.start_operator()
        await cluster.apply(secure("1.38.0"))
        await cluster.until_ready()
        await cluster.apply(secure("1.34.0"))
        await cluster.until(
            lambda: cluster.reason("Degraded") == "DatabaseMismatch", lambda: str(cluster.status())
        )
        first = cluster.trust().certificate
        assert first
        await asyncio.sleep((first.renewal - START).total_seconds() - now() + 3600.0)
        assert cluster.trust().certificate != first

    play(scenario, years=True)


def test_a_database_has_no_way_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        kept: Any = {"persistence": {"size": "1Gi"}}
        cluster.start_operator()
        await cluster.apply(lab("1.38.0", **kept))
        await cluster.until_ready()
        await cluster.apply(lab("1.34.0", **kept))
        await cluster.until(
            lambda: cluster.reason("Degraded") == "DatabaseMismatch", lambda: str(cluster.status())
        )
        assert cluster.condition("SuperLinkAvailable")["status"] == "True"
        await cluster.writes_within(60)
        assert cluster.differences([lab("1.38.0", **kept)]) == []
        await cluster.delete(STATEFUL_SET, "fed-superlink")
        await cluster.until_ready()
        assert cluster.differences([lab("1.34.0", **kept)]) == []

    play(scenario)
