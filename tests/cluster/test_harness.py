"""What other tests lean on: nodes that play pods, crashes, accounts, a proxy that spoils."""

import base64
import http.client
import json
import random
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.harness.control_plane import ControlPlane
from tests.harness.fault_proxy import CUT, GONE_EVENT, LOST_ANSWER, FaultProxy, Faults, Request
from tests.harness.https_client import HttpsClient
from tests.harness.nodes import FATE, FATE_CONTAINER
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.extended

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
CONFIG_MAPS = f"{NAMESPACE}/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

SEED = 1

Document = dict[str, Any]


@pytest.fixture(scope="module")
def small_cluster() -> Iterator[ControlPlane]:
    with ControlPlane(controllers=True, nodes=3) as cluster:
        yield cluster


@pytest.fixture
def proxy(small_cluster: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(small_cluster.kubeconfig, seed=SEED) as proxy:
        yield proxy


@pytest.fixture
def client(small_cluster: ControlPlane, proxy: FaultProxy) -> Iterator[HttpsClient]:
    with client_of(proxy.kubeconfig_from(small_cluster.kubeconfig)) as client:
        yield client


def access(kubeconfig: Path) -> tuple[str, str, str]:
    """The server, the certificates to trust, and the token."""
    content = yaml.safe_load(kubeconfig.read_text())
    cluster = content["clusters"][0]["cluster"]
    certificates = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return cluster["server"], certificates, content["users"][0]["user"]["token"]


def client_of(kubeconfig: Path) -> HttpsClient:
    server, certificates, token = access(kubeconfig)
    port = urlsplit(server).port
    assert port
    return HttpsClient(port, certificates, token, timeout=10)


def open_watch(kubeconfig: Path, path: str) -> http.client.HTTPResponse:
    server, certificates, token = access(kubeconfig)
    request = urllib.request.Request(
        f"{server}{path}?watch=true", headers={"Authorization": f"Bearer {token}"}
    )
    context = ssl.create_default_context(cadata=certificates)
    response = urllib.request.urlopen(request, context=context, timeout=10)
    assert isinstance(response, http.client.HTTPResponse)
    return response


def create(control_plane: ControlPlane, path: str, document: Document) -> None:
    status, answer = control_plane.request("POST", path, document)
    assert status == 201, answer


def config_map(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def pod(name: str, **annotations: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations},
        "spec": {
            "containers": [
                {"name": "main", "image": "example/main:1"},
                {"name": "helper", "image": "example/helper:1"},
            ]
        },
    }


def shown(control_plane: ControlPlane, name: str) -> Document:
    """The status of a pod as soon as it has one from its node."""

    def status() -> Document | None:
        _, answer = control_plane.request("GET", f"{PODS}/{name}")
        found: Document = answer["status"]
        return found if "containerStatuses" in found else None

    return wait_for(status, f"pod {name} got no status", timeout=10)


def is_ready(status: Document) -> bool:
    return {"type": "Ready", "status": "True"}.items() <= ready_condition(status).items()


def ready_condition(status: Document) -> Document:
    return next(each for each in status["conditions"] if each["type"] == "Ready")


def test_a_deployment_gets_ready_pods_and_leaves_none(small_cluster: ControlPlane) -> None:
    template = pod("two")
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "two"}},
        "template": {"metadata": template["metadata"], "spec": template["spec"]},
    }
    create(
        small_cluster,
        DEPLOYMENTS,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "two"}, "spec": spec},
    )

    def ready() -> bool:
        _, deployment = small_cluster.request("GET", f"{DEPLOYMENTS}/two")
        replicas: int = deployment["status"].get("readyReplicas", 0)
        return replicas == 2

    def pods() -> list[Document]:
        _, answer = small_cluster.request("GET", f"{PODS}?labelSelector=app%3Dtwo")
        found: list[Document] = answer["items"]
        return found

    wait_for(ready, "the Deployment is not ready", timeout=15)
    assert len({each["status"]["podIP"] for each in pods()}) == 2
    small_cluster.request("DELETE", f"{DEPLOYMENTS}/two")
    wait_for(lambda: not pods(), "pods are left", timeout=15)


def crash_looping(container: Document) -> None:
    assert container["restartCount"] == 3
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    last = container["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"], last["message"]) == (1, "Error", "bad flag")


def out_of_memory(container: Document) -> None:
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    last = container["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (137, "OOMKilled")


def image_missing(container: Document) -> None:
    assert container["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert container["image"] in container["state"]["waiting"]["message"]


def running(container: Document) -> None:
    assert container["state"]["running"]["startedAt"]


@pytest.mark.parametrize(
    ("fate", "phase", "check"),
    [
        ("not-ready", "Running", running),
        ("crash-loop", "Running", crash_looping),
        ("out-of-memory", "Running", out_of_memory),
        ("image-missing", "Pending", image_missing),
    ],
)
def test_a_pod_shows_its_fate(
    small_cluster: ControlPlane, fate: str, phase: str, check: Callable[[Document], None]
) -> None:
    create(small_cluster, PODS, pod(fate, **{FATE: fate}))
    status = shown(small_cluster, fate)
    assert status["phase"] == phase
    assert ready_condition(status)["reason"] == "ContainersNotReady"
    for container in status["containerStatuses"]:
        assert not container["ready"]
        check(container)


def test_a_fate_can_be_one_containers_own_and_can_end(small_cluster: ControlPlane) -> None:
    create(small_cluster, PODS, pod("half", **{FATE: "crash-loop", FATE_CONTAINER: "helper"}))
    main, helper = shown(small_cluster, "half")["containerStatuses"]
    assert main["ready"]
    crash_looping(helper)
    small_cluster.request("PATCH", f"{PODS}/half", {"metadata": {"annotations": {FATE: None}}})
    wait_for(lambda: is_ready(shown(small_cluster, "half")), "it stays unready", timeout=5)


def test_a_flapping_pod_is_ready_now_and_then(small_cluster: ControlPlane) -> None:
    create(small_cluster, PODS, pod("flap", **{FATE: "flapping"}))
    for ready in (True, False, True):
        wait_for(
            lambda ready=ready: is_ready(shown(small_cluster, "flap")) == ready,  # type: ignore[misc]
            f"it is never {'ready' if ready else 'unready'}",
            timeout=5,
        )
    for container in shown(small_cluster, "flap")["containerStatuses"]:
        assert container["restartCount"] == 2
        assert container["lastState"]["terminated"]["exitCode"] == 1
        running(container)


def test_objects_survive_a_crash_of_the_api_server(small_cluster: ControlPlane) -> None:
    create(small_cluster, CONFIG_MAPS, config_map("survivor"))
    small_cluster.restart_apiserver()
    assert small_cluster.request("GET", f"{CONFIG_MAPS}/survivor")[0] == 200
    create(small_cluster, PODS, pod("after-the-crash"))
    assert is_ready(shown(small_cluster, "after-the-crash"))


def test_an_account_has_its_own_rights(small_cluster: ControlPlane) -> None:
    small_cluster.kubectl("create", "serviceaccount", "reader")
    small_cluster.kubectl("create", "role", "reader", "--verb=list", "--resource=configmaps")
    small_cluster.kubectl(
        "create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader"
    )
    kubeconfig = small_cluster.kubeconfig_for_service_account("default", "reader")
    with client_of(kubeconfig) as reader:
        # The authorizer learns of a new binding a moment later.
        wait_for(
            lambda: reader.request("GET", CONFIG_MAPS)[0] == 200,
            "the account may not do what it may",
            timeout=5,
        )
        status, answer = reader.request("GET", f"{NAMESPACE}/secrets")
    assert status == 403
    assert "system:serviceaccount:default:reader" in answer["message"]


def test_the_proxy_passes_on_and_notes(
    small_cluster: ControlPlane, proxy: FaultProxy, client: HttpsClient
) -> None:
    status, answer = client.request("GET", f"{CONFIG_MAPS}?limit=1", headers={"User-Agent": "me"})
    assert status == 200
    assert answer["kind"] == "ConfigMapList"
    (request,) = proxy.requests
    assert (request.method, request.path, request.query) == ("GET", CONFIG_MAPS, "limit=1")
    assert (request.user_agent, request.token) == ("me", small_cluster.token)
    assert (request.status, request.fault) == (200, None)


@pytest.mark.parametrize("code", [409, 429, 500, 503])
def test_the_proxy_makes_up_errors(proxy: FaultProxy, client: HttpsClient, code: int) -> None:
    proxy.faults.error_fractions = {code: 0.5}
    statuses = [client.request("GET", CONFIG_MAPS)[0] for _ in range(40)]
    row = random.Random(SEED)
    assert statuses == [code if row.random() < 0.5 else 200 for _ in range(40)]
    assert [request.status for request in proxy.requests] == statuses


def is_write(request: Request) -> bool:
    return request.method != "GET"


def test_the_proxy_can_lose_an_answer(
    small_cluster: ControlPlane, proxy: FaultProxy, client: HttpsClient
) -> None:
    proxy.faults = Faults(lost_answers=1, applies_to=is_write)
    assert client.request("GET", CONFIG_MAPS)[0] == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        client.request("POST", CONFIG_MAPS, config_map("lost"))
    assert small_cluster.request("GET", f"{CONFIG_MAPS}/lost")[0] == 200
    assert client.request("POST", CONFIG_MAPS, config_map("lost"))[0] == 409
    assert [request.fault for request in proxy.requests] == [None, LOST_ANSWER, None]
    assert proxy.requests[1].status is None


def test_the_proxy_delays_answers(proxy: FaultProxy, client: HttpsClient) -> None:
    proxy.faults.delay_seconds = 0.5
    client.request("GET", CONFIG_MAPS)
    proxy.faults.delay_seconds = 0.0
    client.request("GET", CONFIG_MAPS)
    first, second = proxy.requests
    assert second.started - first.started >= 0.5


def test_a_watch_through_the_proxy_can_be_cut(
    small_cluster: ControlPlane, proxy: FaultProxy
) -> None:
    kubeconfig = proxy.kubeconfig_from(small_cluster.kubeconfig)
    with open_watch(kubeconfig, CONFIG_MAPS) as watch:
        create(small_cluster, CONFIG_MAPS, config_map("watched"))
        names = (json.loads(line)["object"]["metadata"]["name"] for line in watch)
        assert "watched" in names
        assert len(proxy.open_watches) == 1
        assert proxy.cut_watches() == 1
        with pytest.raises((OSError, http.client.IncompleteRead)):
            watch.read()
    wait_for(lambda: not proxy.open_watches, "a watch is still open", timeout=5)
    assert proxy.requests[-1].fault == CUT


def test_watches_can_be_too_old(small_cluster: ControlPlane, proxy: FaultProxy) -> None:
    kubeconfig = proxy.kubeconfig_from(small_cluster.kubeconfig)
    proxy.faults = Faults(gone_watches=1, gone_events=1)
    with pytest.raises(urllib.error.HTTPError) as refusal:
        open_watch(kubeconfig, CONFIG_MAPS)
    assert refusal.value.code == 410
    refusal.value.close()
    with open_watch(kubeconfig, CONFIG_MAPS) as watch:
        (event,) = map(json.loads, watch)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert proxy.requests[-1].fault == GONE_EVENT
    with open_watch(kubeconfig, CONFIG_MAPS) as watch:
        assert json.loads(watch.readline())["type"] == "ADDED"
