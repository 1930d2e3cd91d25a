"""People with the chart's roles, by tokens of their own: what they can do, and what they cannot."""

from collections.abc import Iterator
from typing import Any

import pytest

from flower_operator.operator.desired import FEDERATION
from tests.cluster.federations import RELEASE, Namespace, manifest
from tests.harness.control_plane import ControlPlane
from tests.harness.waiting import wait_for

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("operator")]

FORBIDDEN = 403
ROLES = {
    "operator": "flower-operator-federation-operator",
    "scientist": "flower-operator-data-scientist",
}


class Employee:
    """Someone with one of the roles in one namespace, who sends requests."""

    def __init__(self, namespace: Namespace, name: str) -> None:
        cluster = namespace.cluster
        cluster.kubectl("create", "serviceaccount", name, "-n", namespace.name)
        binding = ("create", "rolebinding", name, "-n", namespace.name)
        account = f"--serviceaccount={namespace.name}:{name}"
        cluster.kubectl(*binding, f"--clusterrole={ROLES[name]}", account)
        path = f"/api/v1/namespaces/{namespace.name}/serviceaccounts/{name}/token"
        status, answer = cluster.request("POST", path, {"spec": {}})
        assert status == 201, answer
        self._cluster = cluster
        self._headers = {"Authorization": f"Bearer {answer['status']['token']}"}
        self._path = f"/api/v1/namespaces/{namespace.name}"
        self.federation = FEDERATION.path(namespace.name, "lab")
        self.federations = FEDERATION.path(namespace.name)
        wait_for(lambda: self.may("GET", self.federations), "the binding has no effect", 10)

    def send(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """A path of its own, or one below the core API of the namespace."""
        full = path if path.startswith("/") else f"{self._path}/{path}"
        return self._cluster.request(method, full, body, self._headers)

    def may(self, method: str, path: str, body: object = None) -> bool:
        """Whether the request is let through, whatever becomes of it behind the door."""
        return self.send(method, path, body)[0] != FORBIDDEN


@pytest.fixture(scope="module")
def lab(cluster: ControlPlane) -> Iterator[Namespace]:
    with Namespace.new(cluster) as namespace:
        namespace.apply(manifest("lab"))
        namespace.wait_until_ready("lab")
        for kind, name in (("secret", "generic"), ("configmap", "")):
            words = ["create", kind, *([name] if name else []), "lab-ca", "-n", namespace.name]
            cluster.kubectl(*words, "--from-literal=ca.crt=certificate")
        yield namespace


@pytest.fixture(scope="module")
def pod(lab: Namespace) -> str:
    names: list[str] = [each["metadata"]["name"] for each in lab.pods()]
    return next(name for name in names if name.startswith("lab-superlink"))


@pytest.fixture(scope="module")
def operator_person(lab: Namespace) -> Employee:
    return Employee(lab, "operator")


@pytest.fixture(scope="module")
def scientist(lab: Namespace) -> Employee:
    return Employee(lab, "scientist")


def test_a_federation_operator_runs_federations(lab: Namespace, operator_person: Employee) -> None:
    person = operator_person
    status, _ = person.send("POST", person.federations, manifest("second"))
    assert status == 201
    second = f"{person.federations}/second"
    for method, path, body in [
        ("GET", person.federation, None),
        ("PATCH", second, {"spec": {"suspend": True}}),
        ("DELETE", second, None),
        ("GET", "events", None),
        ("GET", "pods", None),
        ("GET", "configmaps", None),
        ("GET", f"/apis/networking.k8s.io/v1/namespaces/{lab.name}/networkpolicies", None),
        ("GET", f"/apis/apps/v1/namespaces/{lab.name}/statefulsets", None),
    ]:
        status, answer = person.send(method, path, body)
        assert status == 200, answer


def test_a_federation_operator_gives_federations_secrets_and_claims(
    lab: Namespace, operator_person: Employee
) -> None:
    volumes = [
        {"name": "key", "secret": {"secretName": "key"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    for name, source, allowed in (
        ("mounting", volumes, True),
        ("reaching", [{"name": "host", "hostPath": {"path": "/"}}], False),
    ):
        document = manifest(name, pools=[{"name": "default", "replicas": 1, "volumes": source}])
        path = f"{operator_person.federations}?dryRun=All"
        assert operator_person.may("POST", path, document) == allowed


def test_a_federation_operator_looks_after_pods_and_secrets(
    lab: Namespace, pod: str, operator_person: Employee
) -> None:
    person = operator_person
    # No kubelet is behind these nodes: what gets there was let through.
    assert person.may("GET", f"pods/{pod}/log")
    status, answer = person.send("DELETE", "pods/lab-supernode-default-1")
    assert status == 200, answer
    status, answer = person.send("POST", "secrets", {"metadata": {"name": "key"}})
    assert status == 201, answer
    for method, path, body in [
        ("GET", "secrets/lab-ca", None),
        ("GET", "secrets", None),
        ("PATCH", "secrets/key", {"stringData": {"a": "b"}}),
    ]:
        status, answer = person.send(method, path, body)
        assert status == 200, answer
    lab.wait_until_ready("lab")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "secrets/lab-ca"),
        ("POST", "pods"),
        ("POST", "pods/{pod}/exec?command=id&stdout=true"),
        ("POST", "pods/{pod}/portforward"),
        ("DELETE", "/apis/apps/v1/namespaces/{namespace}/statefulsets/lab-supernode-default"),
        ("DELETE", "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/x"),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"),
        ("PATCH", "/apis/flwr.exalsius.ai/v1/namespaces/{namespace}/federations/lab/status"),
        ("GET", "/apis/flwr.exalsius.ai/v1/namespaces/default/federations"),
        ("GET", "/api/v1/namespaces/default/secrets"),
    ],
)
def test_a_federation_operator_may_do_nothing_else(
    lab: Namespace, pod: str, operator_person: Employee, method: str, path: str
) -> None:
    path = path.format(pod=pod, namespace=lab.name)
    assert not operator_person.may(method, path, {} if method != "GET" else None)


def test_a_data_scientist_looks_at_federations_and_reaches_the_superlink(
    pod: str, scientist: Employee
) -> None:
    for path in (
        scientist.federations,
        scientist.federation,
        "pods",
        f"pods/{pod}",
        "services",
        "services/lab-superlink",
        "configmaps/lab-ca",
    ):
        status, answer = scientist.send("GET", path)
        assert status == 200, answer
    assert scientist.may("GET", f"pods/{pod}/log")
    # Old and new API servers ask for different verbs.
    assert scientist.may("GET", f"pods/{pod}/portforward")
    assert scientist.may("POST", f"pods/{pod}/portforward", {})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "secrets"),
        ("GET", "secrets/lab-ca"),
        ("GET", "configmaps"),
        ("POST", "pods/{pod}/exec?command=id&stdout=true"),
        ("GET", "pods/{pod}/exec?command=id&stdout=true"),
        ("POST", "pods/{pod}/attach"),
        ("POST", "pods"),
        ("DELETE", "pods/{pod}"),
        ("PATCH", "configmaps/lab-ca"),
        ("POST", "/apis/flwr.exalsius.ai/v1/namespaces/{namespace}/federations"),
        ("PATCH", "/apis/flwr.exalsius.ai/v1/namespaces/{namespace}/federations/lab"),
        ("DELETE", "/apis/flwr.exalsius.ai/v1/namespaces/{namespace}/federations/lab"),
        ("GET", "/apis/flwr.exalsius.ai/v1/namespaces/default/federations"),
    ],
)
def test_a_data_scientist_may_do_nothing_else(
    lab: Namespace, pod: str, scientist: Employee, method: str, path: str
) -> None:
    path = path.format(pod=pod, namespace=lab.name)
    assert not scientist.may(method, path, {} if method != "GET" else None)
    assert lab.federation("lab")["spec"]["superlink"]["image"] == f"flwr/superlink:{RELEASE}"
