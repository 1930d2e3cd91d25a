"""What a tenant who may create Federations, and nothing else, can and cannot reach.

The tenant sends requests with the token of a ServiceAccount to a real API server.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from flower_operator.operator.desired import FEDERATION
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
