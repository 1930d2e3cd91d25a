"""The controller and what an administrator does not allow Federations."""

from flower_operator.kube.resources import ROLE_BINDING, SERVICE_ACCOUNT
from flower_operator.render.limits import Limits
from tests.unit.federations import document
from tests.unit.memory_cluster import NAMESPACE, Cluster, play

LAUNCHING = document(isolation="process", version="1.41.0", superlink={"executor": "kubernetes"})
ACCOUNT = "fed-superlink"


def test_the_executor_needs_the_administrators_consent() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator(limits=Limits(task_executor=False))
        await cluster.apply(LAUNCHING)
        await cluster.until(lambda: cluster.reason("Degraded") == "NotAllowed", "it is not told")
        message = cluster.condition("Ready")["message"]
        assert "spec.superlink.executor: kubernetes is not allowed" in message
        assert "taskExecutor.enable=true" in message
        assert not cluster.children()
        # The operator asks for no more than its role has without the switch.
        asked = {request.path.rpartition("/")[2] for request in cluster.server.requests}
        assert not asked & {"rolebindings", "serviceaccounts"}

    play(scenario)


def test_a_pod_beyond_restricted_is_not_started() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator(limits=Limits(restricted=True))
        await cluster.apply(document(pool={"podTemplate": {"spec": {"hostNetwork": True}}}))
        await cluster.until(lambda: cluster.reason("Degraded") == "NotAllowed", "it is not told")
        field = "spec.supernodes.pools[0].podTemplate.spec.hostNetwork"
        assert field in cluster.condition("Ready")["message"]
        assert not cluster.children()
        await cluster.apply(document())
        await cluster.until_ready()

    play(scenario)


def test_the_role_is_not_bound_to_an_account_that_was_there_before() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.user.create(SERVICE_ACCOUNT, NAMESPACE, {"metadata": {"name": ACCOUNT}})
        cluster.start_operator()
        await cluster.apply(LAUNCHING)
        await cluster.until(lambda: cluster.reason("Degraded") == "NameTaken", "it is not told")
        await cluster.writes_within(60)
        assert cluster.get(ROLE_BINDING, ACCOUNT) is None
        await cluster.delete(SERVICE_ACCOUNT, ACCOUNT)
        await cluster.until_ready()
        assert cluster.get(ROLE_BINDING, ACCOUNT)

    play(scenario)


def test_the_role_is_withdrawn_when_a_stranger_replaces_the_account() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.start_operator()
        await cluster.apply(LAUNCHING)
        await cluster.until_ready()
        await cluster.stop_operator()
        await cluster.delete(SERVICE_ACCOUNT, ACCOUNT)
        await cluster.user.create(SERVICE_ACCOUNT, NAMESPACE, {"metadata": {"name": ACCOUNT}})
        cluster.start_operator()
        await cluster.until(lambda: cluster.get(ROLE_BINDING, ACCOUNT) is None, "it is bound")

    play(scenario)
