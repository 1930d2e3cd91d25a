"""`kubectl flower`, as kubectl itself finds and runs it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flower_operator.trust.keys import read_keyring
from tests.cluster.federations import Document, Namespace, condition, manifest, wait_until
from tests.cluster.person import FEW_SECONDS, Person, wait_for_text
from tests.cluster.test_operator_identity import Site
from tests.harness.control_plane import ControlPlane
from tests.harness.kubelet import Kubelet
from tests.harness.nodes import FATE
from tests.harness.processes import ProcessGroup
from tests.local.machine import REPORT_APP, RESULT, Machine
from tests.local.machine import federation as local_federation
from tests.local.test_control_api import Stage

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("operator")]

DNS = [
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
    },
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.128.0.1"], "conditions": {"ready": True}}],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}],
    },
]


@pytest.fixture
def person(cluster: ControlPlane, tmp_path: Path) -> Person:
    return Person(cluster.kubeconfig, tmp_path)


def test_a_federation_that_is_well_is_listed_and_shown(
    namespace: Namespace, person: Person
) -> None:
    pools = [{"name": "north", "replicas": 2}, {"name": "south", "replicas": 1}]
    namespace.apply(manifest("lab", pools=pools))
    namespace.wait_until_ready("lab")
    here = ("-n", namespace.name)
    none = person.flower("list", "-n", "kube-public")
    assert none == "No Federation is in namespace kube-public.\n"
    headings, row = [line.split() for line in person.flower("list", *here).splitlines()]
    assert headings == ["NAME", "MODE", "ISOLATION", "SUPERNODES", "READY", "AGE"]
    assert row[:5] == ["lab", "StatefulSet", "subprocess", "3/3", "True"]
    everywhere = [line.split() for line in person.flower("list", "-A").splitlines()]
    assert [namespace.name, *row[:5]] in [line[:6] for line in everywhere]
    lines = person.flower("status", "lab", *here).splitlines()
    assert lines[:2] == [
        "lab: ready, 3/3 SuperNodes ready",
        f"Flower 1.41.0, flwr run at lab-superlink.{namespace.name}.svc:9093 inside the cluster",
    ]
    assert [line.split() for line in lines[2:]] == [
        ["POOL", "KIND", "READY", "FLOWER", "REASON"],
        ["north", "StatefulSet", "2/2", "1.41.0", "AllReady"],
        ["south", "StatefulSet", "1/1", "1.41.0", "AllReady"],
    ]


def test_flower_operator_finds_it_on_the_cluster_where_none_runs_here(
    namespace: Namespace, person: Person
) -> None:
    namespace.apply(manifest("lab"))
    namespace.wait_until_ready("lab")
    person.run("kubectl", "config", "set-context", "test", f"--namespace={namespace.name}")
    try:
        assert person.run("flower-operator", "status", "lab").startswith("lab: ready")
        assert "No Federation runs on this machine" in person.run("flower-operator", "list")
        said = person.run("flower-operator", "status", "absent", status=1)
        assert said == (
            "error: no Federation absent runs on this machine, and there is no Federation absent "
            f"in namespace {namespace.name} of the cluster; it has: lab\n"
        )
    finally:
        person.run("kubectl", "config", "set-context", "test", "--namespace=default")


def test_what_is_wrong_is_told_once_and_in_the_exit_status(
    namespace: Namespace, person: Person
) -> None:
    template = {"metadata": {"annotations": {FATE: "crash-loop"}}}
    pool = {"name": "default", "replicas": 1, "podTemplate": template}
    namespace.apply(manifest("lab", pools=[pool]))
    namespace.wait_for_condition("lab", "Degraded", "True", "CrashLoop")
    said = person.flower("status", "lab", "-n", namespace.name, status=1)
    assert said.startswith("lab: not ready, 0/1 SuperNodes ready\n")
    assert "  Ready False, Degraded True: CrashLoop: pod lab-supernode-default-0: " in said
    assert said.count("bad flag") == 1


def test_restarts_of_everything_and_of_a_component(namespace: Namespace, person: Person) -> None:
    pools = [{"name": "north", "replicas": 2}, {"name": "south", "replicas": 1}]
    namespace.apply(manifest("lab", pools=pools))
    namespace.wait_until_ready("lab")

    def uids() -> dict[str, str]:
        """By pool, or superlink, and index."""
        own = [pod["metadata"] for pod in namespace.pods() if "deletionTimestamp" not in pod]
        pools = [each["labels"].get("flower.flwr.ai/pool", "superlink") for each in own]
        names = [each["name"].rpartition("-")[2] for each in own]
        return {
            pool if pool == "superlink" else f"{pool}-{name}": each["uid"]
            for pool, name, each in zip(pools, names, own, strict=True)
        }

    def wait_for_new(before: dict[str, str], names: set[str]) -> None:
        def changed() -> set[str]:
            now = uids()
            return {name for name in before if now.get(name, before[name]) != before[name]}

        wait_until(lambda: changed() == names and uids().keys() == before.keys(), f"not {names}")
        namespace.wait_until_ready("lab")

    before, here = uids(), ("-n", namespace.name)
    said = person.flower("restart", "lab", "north", *here)
    assert said == "lab-supernode-north-0 restarts\nlab-supernode-north-1 restarts\n"
    wait_for_new(before, {"north-0", "north-1"})
    before = uids()
    assert person.flower("restart", "lab", "south-0", *here) == "lab-supernode-south-0 restarts\n"
    wait_for_new(before, {"south-0"})
    before = uids()
    assert person.flower("restart", "lab", *here) == "lab: the operator restarts every pod\n"
    wait_for_new(before, set(before))
    said = person.flower("restart", "lab", "west", *here, status=1)
    assert said == (
        "error: there is no component west; there are north-0, north-1, south-0, superlink\n"
    )
    said = person.flower("restart", "lab", "north-0/supernode", *here, status=1)
    assert said.endswith("cannot be restarted by itself; name the pod: north-0\n")


def test_suspend_and_resume(namespace: Namespace, person: Person) -> None:
    namespace.apply(manifest("lab"))
    namespace.wait_until_ready("lab")
    here = ("-n", namespace.name)
    assert person.flower("suspend", "lab", *here).startswith("lab is suspended:")
    namespace.wait_for_condition("lab", "Ready", "False", "Suspended")
    assert person.flower("suspend", "lab", *here) == "lab is suspended already\n"
    assert person.flower("resume", "lab", *here).startswith("lab is resumed:")
    namespace.wait_until_ready("lab")
    assert person.flower("resume", "lab", *here) == "lab is not suspended already\n"


def test_config_names_the_command_that_makes_it_work(namespace: Namespace, person: Person) -> None:
    namespace.apply(manifest("lab"))
    namespace.wait_until_ready("lab")
    assert person.flower("config", "lab", "-n", namespace.name, "--context", "test") == (
        f"# kubectl --context test port-forward -n {namespace.name} service/lab-superlink 9093\n"
        '[superlink.lab]\naddress = "127.0.0.1:9093"\ninsecure = true\n'
    )


def test_what_a_secure_federation_lets_people_connect_with(
    namespace: Namespace, person: Person, tmp_path: Path
) -> None:
    namespace.apply(manifest("lab", insecure=False))
    namespace.wait_until_ready("lab")
    here = ("-n", namespace.name)
    bundle = person.flower("ca", "lab", *here)
    stored = ("get", "configmap", "lab-ca", *here, "-o", "jsonpath={.data.ca\\.crt}")
    assert bundle == namespace.cluster.kubectl(*stored).stdout
    assert bundle.startswith("-----BEGIN CERTIFICATE-----")
    home = tmp_path / "flwr"
    person.environment["FLWR_HOME"] = str(home)
    section = f'address = "127.0.0.1:9093"\nroot-certificates = "{home}/lab-ca.crt"\n'
    assert person.flower("config", "lab", *here) == (
        f"# kubectl port-forward -n {namespace.name} service/lab-superlink 9093\n"
        f"# kubectl flower ca lab -n {namespace.name} > {home}/lab-ca.crt\n"
        f"[superlink.lab]\n{section}"
    )
    assert not home.exists()
    person.flower("config", "lab", "--write", *here)
    assert section in (home / "config.toml").read_text()
    assert (home / "lab-ca.crt").read_text() == bundle
    namespace.apply(manifest("plain"))
    namespace.wait_until_ready("plain")
    said = person.flower("ca", "plain", *here, status=1)
    assert said == "error: plain has insecure: true: it has no certificates\n"


def test_errors_are_one_line(namespace: Namespace, person: Person, tmp_path: Path) -> None:
    cluster, here = namespace.cluster, ("-n", namespace.name)

    def error(*arguments: str) -> str:
        said = person.flower(*arguments, status=1)
        assert said.startswith("error: ")
        assert said.count("\n") == 1, said
        return said

    assert f"no Federation lab in namespace {namespace.name}" in error("status", "lab", *here)
    assert "has no context 'nowhere'; there are: test" in error("list", "--context", "nowhere")
    cluster.kubectl("create", "serviceaccount", "guest", *here)
    guest = cluster.kubeconfig_for_service_account(namespace.name, "guest")
    person.environment["KUBECONFIG"] = str(guest)
    who = f'"system:serviceaccount:{namespace.name}:guest"'
    assert f'User {who} cannot list resource "federations"' in error("list", *here)
    assert f'User {who} cannot get resource "federations"' in error("restart", "lab", *here)
    settings = json.loads(guest.read_text())
    settings["users"][0]["user"]["token"] = "nonsense"
    changed = tmp_path / "changed"
    changed.write_text(json.dumps(settings))
    person.environment["KUBECONFIG"] = str(changed)
    assert "does not know the kubeconfig's user: Unauthorized" in error("list", *here)
    settings["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    changed.write_text(json.dumps(settings))
    assert "the cluster at https://127.0.0.1:1 cannot be reached: " in error("doctor", *here)
    person.environment["KUBECONFIG"] = str(tmp_path / "absent")
    assert f"there is no kubeconfig at {tmp_path / 'absent'}: set KUBECONFIG" in error("list")


def test_the_doctor_finds_nothing_and_then_something(namespace: Namespace, person: Person) -> None:
    cluster, here = namespace.cluster, ("-n", namespace.name)
    namespace.apply(manifest("lab"))
    namespace.wait_until_ready("lab")
    missing = person.flower("doctor", "lab", *here, status=1)
    assert "wrong  DNS " in missing
    for each in DNS:
        cluster.kubectl("apply", "-f", "-", input=json.dumps(each))
    try:
        well = person.flower("doctor", "lab", *here)
        for subject in ("cluster", "CRD", "operator", "leader", "rights", "DNS", "lab: status"):
            assert f"\nok     {subject} " in f"\n{well}", well
        assert " is Kubernetes v1." in well
        template = {"metadata": {"annotations": {FATE: "image-missing"}}}
        bad = {"name": "default", "replicas": 1, "podTemplate": template}
        namespace.apply(manifest("bad", pools=[bad]))
        namespace.wait_for_condition("bad", "Degraded", "True", "ImageNotPullable")
        policy = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "deny", "namespace": namespace.name},
            "spec": {"podSelector": {}},
        }
        cluster.kubectl("apply", "-f", "-", input=json.dumps(policy))
        cluster.kubectl("create", "quota", "none", "--hard=count/pods=0", *here)
        seen = ("get", "quota", "none", *here, "-o", "jsonpath={.status.hard}")
        wait_until(lambda: bool(cluster.kubectl(*seen).stdout), "the quota is not seen")
        namespace.apply(manifest("poor"))
        namespace.wait_for_condition("poor", "Degraded", "True", "PodsRefused")
        said = person.flower("doctor", *here, status=1)
    finally:
        for each in DNS:
            cluster.kubectl("delete", "-f", "-", input=json.dumps(each))
    assert "ok     lab: status" in said
    assert "note   lab: network" in said
    assert "wrong  bad: network" in said
    assert "bad-supernode-default-0: ImageNotPullable: " in said
    assert "→ correct the image" in said
    assert "exceeded quota: none" in said
    assert "→ raise the ResourceQuota" in said


def test_the_doctor_of_a_guest_tells_what_is_not_allowed(
    namespace: Namespace, person: Person
) -> None:
    namespace.cluster.kubectl("create", "serviceaccount", "guest", "-n", namespace.name)
    guest = namespace.cluster.kubeconfig_for_service_account(namespace.name, "guest")
    person.environment["KUBECONFIG"] = str(guest)
    said = person.flower("doctor", status=1)
    assert "wrong  rights" in said
    assert f"you may not list federations in namespace {namespace.name}: no list" in said
    assert "note   rights       you may not create pods/portforward" in said


@pytest.fixture
def kubelet(cluster: ControlPlane) -> Iterator[Kubelet]:
    """One that can be asked for logs and ports; pods get there by `on_kubelet`."""
    with Kubelet() as kubelet:
        status, answer = cluster.request("POST", "/api/v1/nodes", kubelet.node("answering"))
        assert status == 201, answer
        yield kubelet
        cluster.kubectl("delete", "node", "answering")


ON_KUBELET = {
    "spec": {
        "nodeSelector": {"kubernetes.io/hostname": "answering"},
        "tolerations": [{"key": "test/kubelet", "operator": "Exists"}],
    }
}


def test_logs_of_several_pods_and_of_one_that_comes_later(
    namespace: Namespace, person: Person, kubelet: Kubelet, tmp_path: Path
) -> None:
    link = {"image": "flwr/superlink:1.41.0", "podTemplate": ON_KUBELET}

    def document(replicas: int) -> dict[str, object]:
        pool = {"name": "north", "replicas": replicas, "podTemplate": ON_KUBELET}
        return manifest("lab", superlink=link, pools=[pool])

    namespace.apply(document(1))
    namespace.wait_until_ready("lab")
    (superlink,) = [
        pod["metadata"]["name"] for pod in namespace.pods() if "superlink" in str(pod["metadata"])
    ]
    first, second = "lab-supernode-north-0/supernode", "lab-supernode-north-1/supernode"
    kubelet.write(f"{superlink}/superlink", "the link is up")
    kubelet.write(first, "north is up")
    here = ("-n", namespace.name)
    assert person.flower("logs", "lab", *here) == (
        "superlink/superlink | the link is up\nnorth-0/supernode   | north is up\n"
    )
    assert person.flower("logs", "lab", "north", *here) == "north-0/supernode | north is up\n"
    assert person.flower("logs", "lab", first, *here) == "north-0/supernode | north is up\n"
    said = person.flower("logs", "lab", "east", *here, status=1)
    assert said == "error: there is no component east; there are north-0, superlink\n"
    person.flower("logs", "lab", "superlink", "--previous", *here)
    assert "previous=true" in kubelet.requests[-1]
    log = tmp_path / "follow.log"
    with person.background("logs", "lab", "north", "-f", *here, log=log) as following:
        wait_for_text(log, "north-0/supernode | north is up")
        kubelet.write(first, "news")
        wait_for_text(log, "north-0/supernode | news")
        kubelet.cut()
        kubelet.write(first, "after the cut")
        wait_for_text(log, "north-0/supernode | after the cut")
        namespace.apply(document(2))
        kubelet.write(second, "a second one")
        text = wait_for_text(log, "north-1/supernode | a second one")
        assert text.count("news") == text.count("north is up") == 1
        assert "the link is up" not in text
        namespace.delete("lab")
        # Until then the garbage collector must have heard of the CRD, twice a minute.
        assert following.wait(3 * FEW_SECONDS) == 0


def test_a_run_goes_through_the_api_server_to_the_superlink(
    namespace: Namespace, person: Person, kubelet: Kubelet, tmp_path: Path
) -> None:
    """What the pods' ports lead to is a Federation of real flwr processes on this machine."""
    link = {"image": "flwr/superlink:1.41.0", "podTemplate": ON_KUBELET}
    here = ("-n", namespace.name)
    with Machine(tmp_path) as machine:
        machine.up(local_federation("real", "1.41.0", "subprocess"))
        desired = machine.record("real").read_desired()
        assert desired
        kubelet.ports[8000] = int(desired.control.rpartition(":")[2])
        namespace.apply(manifest("lab", superlink=link))
        namespace.wait_until_ready("lab")
        said = person.flower("run", str(REPORT_APP), "--federation", "lab", *here)
        assert RESULT.search(said), said
        asked = [each for each in kubelet.requests if each.startswith("/portForward/")]
        assert len(asked) >= 2, "one to find out, and flwr's own"
        fails = ("--run-config", "fail=true")
        said = person.flower("run", str(REPORT_APP), *fails, *here, status=1)
        assert "Exit Code: 20" in said
    namespace.apply(manifest("lab", superlink=link, suspend=True))
    namespace.wait_for_condition("lab", "Ready", "False", "Suspended")
    kubelet.ports[8000] = 1
    said = person.flower("run", str(REPORT_APP), *here, status=1)
    assert "note: port 8000 of pod lab-superlink-" in said
    assert condition(namespace.federation("lab"), "SuperLinkAvailable")["status"] == "True"


def test_a_run_without_a_superlink_says_so(namespace: Namespace, person: Person) -> None:
    template = {"metadata": {"annotations": {FATE: "crash-loop"}}}
    link = {"image": "flwr/superlink:1.41.0", "podTemplate": template}
    namespace.apply(manifest("lab", superlink=link))
    namespace.wait_for_condition("lab", "SuperLinkAvailable", "False", "CrashLoop")
    said = person.flower("run", str(REPORT_APP), "-n", namespace.name, status=1)
    assert said == (
        "error: the SuperLink of lab is not ready; look at: kubectl flower status lab\n"
    )


def test_another_cluster_joins_with_keys_that_the_superlink_knows(
    namespace: Namespace, person: Person, kubelet: Kubelet
) -> None:
    service: Document = {"type": "NodePort", "nodePorts": {"grpc": 30992}}
    link = {"image": "flwr/superlink:1.41.0", "podTemplate": ON_KUBELET, "service": service}
    keyed: Document = {
        "insecure": False,
        "supernodeAuth": {"enabled": True, "allowSubprocess": True},
    }
    join = ("join", "lab", "--for", "berlin", "-n", namespace.name)
    namespace.apply(manifest("lab", superlink=link, **keyed))
    namespace.wait_for_condition("lab", "SuperLinkAvailable", "True")
    said = person.flower(*join, status=1)
    assert said.startswith("error: other clusters cannot know the nodes of this one: name one")
    service["externalAddress"] = "192.0.2.7"
    namespace.apply(manifest("lab", superlink=link, **keyed))
    with ProcessGroup() as group, Namespace.new(namespace.cluster) as other:
        site = Site(namespace, Stage("1.41.0", group, secure=True))
        site.start_superlink()
        kubelet.ports[8000] = int(site.stage.ports["8000"])
        wait_until(site.answers, "the SuperLink does not answer")
        said = person.flower(*join[:3], "Berlin", *join[4:], status=1)
        assert "spec.supernodes.pools[0].name: must be lower-case letters" in said
        assert site.nodes() == []
        printed = person.flower(*join, "--replicas", "2")
        assert "note: the SuperLink forgets these keys when it is restarted" in printed
        manifests = "".join(printed.partition("apiVersion")[1:])
        namespace.cluster.kubectl("apply", "-n", other.name, "-f", "-", input=manifests)
        joined = other.wait_until_ready("lab")
        assert joined["status"]["endpoints"]["superlinkService"] == "192.0.2.7:30992"
        ring = read_keyring(other.secret("lab-supernode-berlin-keys"))
        assert ring
        known = {node.name: (node.public_key or b"").decode() for node in site.nodes()}
        assert known == {f"berlin-{name}": key for name, key in ring.keys.items()}
