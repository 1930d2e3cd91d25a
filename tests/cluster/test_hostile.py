"""What a tenant who may create Federations, and nothing else, can and cannot reach.

The tenant sends requests with the token of a ServiceAccount to a real API server.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from flower_operator.operator.desired import FEDERATION
from scripts.admission import REFERENCES
from scripts.manifests import EXAMPLES
from tests.cluster.federations import RELEASE, Document, Namespace, manifest
from tests.harness.control_plane import ControlPlane
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.usefixtures("operator")

FORBIDDEN = 403
INVALID = 422
SUPEREXEC = f"flwr/superexec:{RELEASE}"
RESOURCE = "federations.flwr.exalsius.ai"


class Tenant:
    """A ServiceAccount with all verbs on Federations in one namespace, and no other permission."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self._roles = 0
        self.federation = FEDERATION.path(namespace.name, "lab")
        cluster = namespace.cluster
        scope = ("-n", namespace.name)
        cluster.kubectl("create", "serviceaccount", "tenant", *scope)
        cluster.kubectl("create", "role", "tenant", "--verb=*", f"--resource={RESOURCE}", *scope)
        account = f"--serviceaccount={namespace.name}:tenant"
        cluster.kubectl("create", "rolebinding", "tenant", "--role=tenant", account, *scope)
        path = f"/api/v1/namespaces/{namespace.name}/serviceaccounts/tenant/token"
        status, answer = cluster.request("POST", path, {"spec": {}})
        assert status == 201, answer
        self._headers = {"Authorization": f"Bearer {answer['status']['token']}"}
        federations = FEDERATION.path(namespace.name)
        wait_for(
            lambda: self.send("GET", federations)[0] == 200, "the role has no effect", timeout=10
        )

    def send(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        return self.namespace.cluster.request(method, path, body, self._headers)

    def create(self, document: Document) -> tuple[int, Any]:
        """Create a Federation, and return the status and the answer."""
        return self.send("POST", FEDERATION.path(self.namespace.name), document)

    def may(self, verb: str, resource: str, *names: str) -> None:
        """Give the tenant one more permission."""
        self._roles += 1
        cluster, namespace, name = (
            self.namespace.cluster,
            self.namespace.name,
            f"more-{self._roles}",
        )
        rule = {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
        rule |= {"resourceNames": list(names)} if names else {}
        # kubectl does not know the verb "use".
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"
        status, answer = cluster.request(
            "POST", path, {"metadata": {"name": name}, "rules": [rule]}
        )
        assert status == 201, answer
        account = f"--serviceaccount={namespace}:tenant"
        cluster.kubectl("create", "rolebinding", name, f"--role={name}", account, "-n", namespace)

    def create_when_allowed(self, document: Document) -> None:
        """Create a Federation once a new permission has taken effect."""
        answers: list[Any] = []

        def created() -> bool:
            status, answer = self.create(document)
            answers.append(answer)
            return status == 201

        wait_for(created, lambda: str(answers[-1]), timeout=10)


@pytest.fixture
def tenant(cluster: ControlPlane) -> Iterator[Tenant]:
    with Namespace.new(cluster) as namespace:
        yield Tenant(namespace)


def test_a_tenant_gets_a_federation_and_no_pod(tenant: Tenant) -> None:
    name = tenant.namespace.name
    pod = {"metadata": {"name": "mine"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert tenant.send("POST", f"/api/v1/namespaces/{name}/pods", pod)[0] == FORBIDDEN
    assert tenant.send("GET", f"/api/v1/namespaces/{name}/secrets")[0] == FORBIDDEN
    status, answer = tenant.create(manifest("lab"))
    assert status == 201, answer
    tenant.namespace.wait_until_ready("lab")


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_no_account_that_a_tenant_names_may_start_pods_and_list_secrets(
    tenant: Tenant, field: str
) -> None:
    name = tenant.namespace.name
    tenant.namespace.cluster.kubectl("create", "serviceaccount", "robot", "-n", name)
    pool = {
        "name": "default",
        "replicas": 1,
        "images": {"superexecClientApp": SUPEREXEC},
        "executor": "kubernetes",
        "podTemplate": {"spec": {field: "robot"}},
    }
    superlink = {"image": f"flwr/superlink:{RELEASE}", "superexecImage": SUPEREXEC}
    document = manifest("lab", isolationMode="process", superlink=superlink, pools=[pool])
    status, answer = tenant.create(document)
    assert status == INVALID, answer
    assert "must not name a ServiceAccount when executor=kubernetes" in answer["message"]


# A Federation reaches what its author may, and no more.


def superlink(**fields: Any) -> Document:
    return {"superlink": {"image": f"flwr/superlink:{RELEASE}", **fields}}


def pool(**fields: Any) -> Document:
    return {"pools": [{"name": "default", "replicas": 1, **fields}]}


def pod(**fields: Any) -> Document:
    return pool(podTemplate={"spec": fields})


def volume(**source: Any) -> Document:
    return pool(volumes=[{"name": "loot", **source}])


def variable(**source: Any) -> list[Document]:
    return [{"name": "LOOT", "valueFrom": source}]


SECRET_KEY = {"secretKeyRef": {"name": "payroll", "key": "k"}}
MAP_KEY = {"configMapKeyRef": {"name": "payroll", "key": "k"}}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "dataSource": {"kind": "PersistentVolumeClaim", "name": "payroll"},
}
PRIVILEGED = {"name": "supernode", "securityContext": {"privileged": True}}
ISSUER = {"name": "production", "kind": "ClusterIssuer"}
ATTACKS: dict[str, tuple[Document, str]] = {
    "host path": (volume(hostPath={"path": "/"}), "volume loot hostPath"),
    "host path of the SuperLink": (
        superlink(volumes=[{"name": "loot", "hostPath": {"path": "/"}}]),
        "superlink: volume loot hostPath",
    ),
    "host path in podTemplate": (
        pod(volumes=[{"name": "loot", "hostPath": {"path": "/"}}]),
        "volume loot hostPath",
    ),
    "privileged": (pod(containers=[PRIVILEGED]), "container supernode securityContext"),
    "privileged init container": (
        pod(initContainers=[{**PRIVILEGED, "name": "first", "image": "busybox"}]),
        "container first securityContext",
    ),
    "host network": (pod(hostNetwork=True), "pool default: podTemplate.spec.hostNetwork"),
    "host PID": (pod(hostPID=True), "podTemplate.spec.hostPID"),
    "host IPC": (pod(hostIPC=True), "podTemplate.spec.hostIPC"),
    "labels of another's Service": (
        pool(podTemplate={"metadata": {"labels": {"app": "payroll"}}}),
        "podTemplate.metadata",
    ),
    "all AMD GPUs": (pool(gpu={"mountAll": True, "vendor": "amd"}), "gpu.mountAll"),
    "a copy of a claim": (
        pool(volumeClaimTemplates=[{"metadata": {"name": "loot"}, "spec": CLAIM}]),
        "volumeClaimTemplate loot dataSource",
    ),
    "Secret in env": (pool(env=variable(**SECRET_KEY)), "secrets payroll"),
    "Secret in env of all": (
        {
            "supernodes": {
                "image": f"flwr/supernode:{RELEASE}",
                "env": variable(**SECRET_KEY),
                "pools": [{"name": "default", "replicas": 1}],
            }
        },
        "secrets payroll",
    ),
    "Secret in env of podTemplate": (
        pod(containers=[{"name": "supernode", "env": variable(**SECRET_KEY)}]),
        "secrets payroll",
    ),
    "Secret in envFrom": (
        pod(containers=[{"name": "supernode", "envFrom": [{"secretRef": {"name": "payroll"}}]}]),
        "secrets payroll",
    ),
    "Secret as volume": (volume(secret={"secretName": "payroll"}), "secrets payroll"),
    "Secret as projected volume": (
        volume(projected={"sources": [{"secret": {"name": "payroll"}}]}),
        "secrets payroll",
    ),
    "Secret of a registry": (pod(imagePullSecrets=[{"name": "payroll"}]), "secrets payroll"),
    "Secret as certificate": (
        {"insecure": False, "tls": {"secretName": "payroll"}},
        "secrets payroll",
    ),
    "ConfigMap in env": (superlink(env=variable(**MAP_KEY)), "configmaps payroll"),
    "ConfigMap as volume": (volume(configMap={"name": "payroll"}), "configmaps payroll"),
    "claim": (
        volume(persistentVolumeClaim={"claimName": "payroll"}),
        "persistentvolumeclaims payroll",
    ),
    "ServiceAccount": (pod(serviceAccountName="payroll"), "serviceaccounts payroll"),
    "ServiceAccount by its old name": (pod(serviceAccount="payroll"), "serviceaccounts payroll"),
    "token": (pod(automountServiceAccountToken=True), "serviceaccounts default"),
    "token as volume": (
        volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
        "serviceaccounts default",
    ),
    "executor": (
        {
            "isolationMode": "process",
            **superlink(superexecImage=SUPEREXEC, executor="kubernetes"),
            **pool(images={"superexecClientApp": SUPEREXEC}),
        },
        "superlink: executor",
    ),
    "volume on another cluster": (
        pool(placement={"name": "all"}, volumes=[{"name": "loot", "emptyDir": {}}]),
        "pools with placement",
    ),
    "certificate for any name": (
        {"insecure": False, "tls": {"issuerRef": ISSUER, "subjectAltNames": ["bank.example"]}},
        "spec.tls.issuerRef",
    ),
    "load balancer": (superlink(service={"type": "LoadBalancer"}), "spec.superlink.service"),
    "name in DNS": (
        superlink(service={"annotations": {"external-dns.alpha.kubernetes.io/hostname": "a.b"}}),
        "spec.superlink.service",
    ),
    "way out through a default-deny policy": (
        {"networkPolicy": {"enabled": True, "egress": [{}]}},
        "spec.networkPolicy",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_federation_reaches_no_more_than_its_author(tenant: Tenant, attack: str) -> None:
    spec, words = ATTACKS[attack]
    status, answer = tenant.create(manifest("lab", **copy.deepcopy(spec)))
    assert status == FORBIDDEN, f"{attack} was let in: {answer}"
    assert words in answer["message"]
    # It is the author who may not, not Federations that must not.
    path = f"{FEDERATION.path(tenant.namespace.name)}?dryRun=All"
    body = manifest("lab", **copy.deepcopy(spec))
    status, answer = tenant.namespace.cluster.request("POST", path, body)
    assert status == 201, answer


@pytest.mark.parametrize(
    ("spec", "verb", "resource", "name"),
    [
        (volume(hostPath={"path": "/"}), "create", "pods", None),
        (pool(env=variable(**SECRET_KEY)), "get", "secrets", "payroll"),
        (pool(env=variable(**MAP_KEY)), "get", "configmaps", "payroll"),
        (
            volume(persistentVolumeClaim={"claimName": "payroll"}),
            "use",
            "persistentvolumeclaims",
            "payroll",
        ),
        (pod(serviceAccountName="payroll"), "use", "serviceaccounts", "payroll"),
        (superlink(service={"type": "NodePort"}), "create", "services", None),
    ],
)
def test_a_permission_of_the_author_is_enough(
    tenant: Tenant, spec: Document, verb: str, resource: str, name: str | None
) -> None:
    document = manifest("lab", **copy.deepcopy(spec))
    assert tenant.create(document)[0] == FORBIDDEN
    tenant.may(verb, resource, *([name] if name else []))
    tenant.create_when_allowed(document)


def test_a_tenant_changes_what_an_administrator_made(tenant: Tenant) -> None:
    """But not the code that runs with what only the administrator may use."""
    namespace = tenant.namespace
    namespace.apply(manifest("lab", **volume(hostPath={"path": "/data"})))
    namespace.wait_until_ready("lab")
    host_path = {"volumes": [{"name": "loot", "hostPath": {"path": "/data"}}]}
    for changes in (
        {"metadata": {"annotations": {"note": "mine"}}},
        {"spec": {"suspend": True}},
        {"spec": pools_with(**host_path, replicas=3, nodeConfig={"a": "b"})},
        {"spec": {"superlink": {"env": [{"name": "A", "value": "b"}]}}},
    ):
        status, answer = tenant.send("PATCH", tenant.federation, changes)
        assert status == 200, answer
    elsewhere = [{"name": "loot", "hostPath": {"path": "/"}}]
    for changes in (
        {"spec": pools_with(**host_path, replicas=3, extraArgs=["--x"])},
        {"spec": pools_with(**host_path, replicas=3, images={"supernode": "mine"})},
        {"spec": pools_with(volumes=elsewhere, replicas=3)},
        {"spec": pools_with(**host_path, replicas=3, name="another")},
        {"spec": {"supernodes": {"image": "mine"}}},
    ):
        status, answer = tenant.send("PATCH", tenant.federation, changes)
        assert status == FORBIDDEN, answer
    # What reaches no farther than a tenant may be changed in any way.
    status, answer = tenant.send("PATCH", tenant.federation, {"spec": pools_with(replicas=3)})
    assert status == 200, answer


def pools_with(**fields: Any) -> Document:
    return {"supernodes": {"pools": [{"name": "default", **fields}]}}


def test_many_secrets_need_no_more_than_the_budget_of_the_policy(tenant: Tenant) -> None:
    tenant.may("get", "secrets")
    pools = [
        {
            "name": f"p{number}",
            "replicas": 1,
            "env": [{"name": f"E{at}", "value": "x" * 50} for at in range(100)],
            "volumes": [
                {"name": f"v{at}", "secret": {"secretName": f"s{at}"}} for at in range(REFERENCES)
            ],
        }
        for number in range(16)
    ]
    tenant.create_when_allowed(manifest("many", pools=pools))
    pools[0]["volumes"].append({"name": "more", "secret": {"secretName": "more"}})  # type: ignore[attr-defined]
    status, answer = tenant.create(manifest("more", pools=pools))
    assert status == FORBIDDEN, answer
    assert f"more than {REFERENCES} Secrets" in answer["message"]


def test_an_editor_of_the_namespace_may_create_every_example(tenant: Tenant) -> None:
    cluster, name = tenant.namespace.cluster, tenant.namespace.name
    account = f"--serviceaccount={name}:tenant"
    cluster.kubectl("create", "rolebinding", "edit", "--clusterrole=edit", account, "-n", name)
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            document["metadata"].pop("namespace", None)
            tenant.create_when_allowed(document)
