"""The controller and what an administrator does not allow Federations."""

from flower_operator.kube.resources import CERTIFICATE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT
from flower_operator.render.admin_limits import Limits
from tests.unit.federations import Document, document
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


def test_a_load_balancer_cannot_bring_a_name_that_issuers_may_not_be_asked_for() -> None:
    """Some take the host name in their status from an annotation."""

    async def scenario(cluster: Cluster) -> None:
        cluster.server.add(CERTIFICATE)
        cluster.start_operator(limits=Limits(dns_suffixes=("fl.example.org", "10.0.0.7")))
        tls = {"issuerRef": {"name": "house"}, "subjectAltNames": ["lab.fl.example.org"]}
        balanced: Document = {"superlink": {"service": {"type": "LoadBalancer"}}, "insecure": False}
        await cluster.apply(document(**balanced))
        await cluster.until(lambda: cluster.get(SERVICE, ACCOUNT), "there is no Service")
        hosts = [{"hostname": "bank.example"}, {"hostname": "lb.fl.example.org"}]
        hosts += [{"ip": "10.0.0.7"}, {"ip": "10.0.0.8"}]
        service = cluster.get(SERVICE, ACCOUNT)
        assert service
        status = {"loadBalancer": {"ingress": hosts}}
        uid = service["metadata"]["uid"]
        await cluster.user.patch_status(SERVICE, NAMESPACE, ACCOUNT, uid, status)
        await cluster.apply(document(**balanced, tls=tls))

        def asked() -> set[str]:
            (certificate,) = cluster.server.objects(CERTIFICATE, NAMESPACE) or [{"spec": {}}]
            spec = certificate["spec"]
            return {*spec.get("dnsNames", ()), *spec.get("ipAddresses", ())}

        await cluster.until(lambda: "lb.fl.example.org" in asked(), lambda: f"asked: {asked()}")
        assert {"lab.fl.example.org", "10.0.0.7", "fed-superlink.team.svc"} <= asked()
        assert not asked() & {"bank.example", "10.0.0.8"}

    play(scenario)
