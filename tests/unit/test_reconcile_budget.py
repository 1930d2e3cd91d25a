"""A Federation that takes too long to render is refused, and the others go on."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest.mock import patch

from flower_operator.api.types import Federation
from flower_operator.kube.resources import SERVICE
from flower_operator.operator import desired, reconcile
from flower_operator.operator.budget import budget
from flower_operator.render import Facts, Plan, render
from tests.unit.federations import document
from tests.unit.memory_cluster import Cluster, play

SLOW = "slow"
LONGEST_SECONDS = 20.0


def test_one_that_takes_too_long_to_render_is_refused_and_the_others_are_served() -> None:
    begun: list[str] = []

    def render_slowly(federation: Federation, facts: Facts) -> Plan:
        begun.append(federation.name)
        if federation.name == SLOW and federation.spec.suspend:
            end = time.thread_time() + LONGEST_SECONDS
            while time.thread_time() < end:
                pass
            raise AssertionError("nobody ended it")
        return render(federation, facts)

    async def scenario(cluster: Cluster) -> None:
        slow = document(suspend=True) | {"metadata": {"name": SLOW}}
        await cluster.apply(slow)
        for number in range(3):
            await cluster.apply(document() | {"metadata": {"name": f"f{number}"}})
        cluster.start_operator()
        await cluster.until_ready("f0", "f1", "f2")
        await cluster.until(lambda: cluster.condition("Ready", SLOW), "it has no status")
        ready = cluster.condition("Ready", SLOW)
        assert (ready["status"], ready["reason"]) == ("False", "TooExpensive"), ready
        assert "spec: takes more than" in ready["message"]
        assert cluster.get(SERVICE, f"{SLOW}-superlink") is None
        # It is not tried again for its own news, but when its spec has changed.
        await cluster.patch(desired.FEDERATION, SLOW, {"metadata": {"labels": {"a": "b"}}})
        await cluster.apply(document() | {"metadata": {"name": "f3"}})
        await cluster.until_ready("f3")
        assert begun.count(SLOW) == 1
        await cluster.apply(document() | {"metadata": {"name": SLOW}})
        await cluster.until_ready(SLOW)

    with (
        patch.object(desired, "render", render_slowly),
        patch.object(reconcile, "MAX_RENDER_SECONDS", 0.2, create=True),
    ):
        play(scenario)


def test_one_that_was_stored_before_there_were_limits_is_told_so() -> None:
    large = {"name": "A", "value": "a" * 1_100_000}
    manifests = {
        "replicas": document(pool={"replicas": 250_000}),
        "bytes": document(superlink={"env": [large]}),
    }

    async def scenario(cluster: Cluster) -> None:
        for name, manifest in manifests.items():
            await cluster.apply(manifest | {"metadata": {"name": name}})
        await cluster.apply(document())
        cluster.start_operator()
        await cluster.until_ready("fed")
        for name, said in (("replicas", "must be 10000 or less"), ("bytes", "1048576 is the most")):
            await cluster.until(partial(cluster.condition, "Ready", name), "it has no status")
            ready = cluster.condition("Ready", name)
            assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
            assert said in ready["message"]

    play(scenario)


def test_in_another_thread_there_is_no_limit() -> None:
    def render() -> str:
        with budget(0.0):
            return "rendered"

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(render).result() == "rendered"
