"""The SuperExec for ServerApps: where it runs, and what becomes of it."""

from dataclasses import replace
from typing import Any

import pytest

from flower_operator.api.manifest import parse
from flower_operator.local.processes import left_out
from flower_operator.operator.actions import Create, Update, decide
from flower_operator.operator.desired import SUPERLINK, desired_of
from flower_operator.render import Facts, Plan, render
from flower_operator.render.facts import Identities
from flower_operator.status.outline import Outline
from tests.unit.federations import Document, container, document, find, plan, pod, value_of
from tests.unit.observations import applied, federation, observe_all
from tests.unit.test_local import local
from tests.unit.test_persistence import persistent
from tests.unit.test_render import render_problems

CONTAINER = "superexec-serverapp"
IDENTITIES = Identities(
    "certificate", "authority", "secret", pool_secrets=(("default", "another"),)
)
CLAIM = {"metadata": {"name": "data"}, "spec": {}}
MOUNT = {"name": "data", "mountPath": "/data"}
SHARED: Document = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def lasting(superlink: Document | None = None, *, release: str = "1.41.0", **spec: Any) -> Document:
    """A Federation in process isolation whose SuperLink has a claim."""
    return document(isolation="process", version=release, **persistent(superlink, **spec))


def rendered(**fields: Any) -> Plan:
    return render(parse(lasting(**fields)), Facts(namespace="team"))


def outline(manifest: Document) -> Outline:
    return desired_of(federation(manifest))[0].outline


def apart(manifest: Document) -> bool:
    """Whether it is in a pod of its own; it is in one in any case."""
    homes = [
        each["metadata"]["name"]
        for each in render(parse(manifest), Facts()).objects
        if each["kind"] in ("Deployment", "StatefulSet")
        and any(own["name"] == CONTAINER for own in each["spec"]["template"]["spec"]["containers"])
    ]
    (home,) = homes
    found = bool(home == "fed-serverapp")
    assert outline(manifest).serverapp == ("fed-serverapp" if found else None)
    return found


def endings(manifest: Document) -> list[str]:
    """What the status says about runs that end with the SuperLink's pod."""
    return [each for each in outline(manifest).notices if "a run ends with" in each]


@pytest.mark.parametrize(
    ("release", "insecure"),
    [
        ("1.23.0", True),
        ("1.23.0", False),
        ("1.41.0", True),
        ("1.41.0", False),
    ],
)
def test_it_has_a_pod_of_its_own_where_state_is_kept(release: str, insecure: bool) -> None:
    kept = lasting(release=release, insecure=insecure)
    assert apart(kept)
    assert endings(kept) == []
    forgetful = document(isolation="process", version=release, insecure=insecure)
    assert not apart(forgetful)
    assert endings(forgetful) == []


def test_subprocesses_of_the_superlink_end_with_it_and_the_status_says_so() -> None:
    (said,) = endings(document(**persistent()))
    assert said.endswith("with isolationMode subprocess, ServerApps run in it")


@pytest.mark.parametrize(
    ("superlink", "expected"),
    [
        ({"volumeClaimTemplates": [CLAIM], "volumeMounts": [MOUNT]}, False),
        ({"volumeClaimTemplates": [CLAIM], "superexecVolumeMounts": [MOUNT]}, False),
        ({**SHARED, "volumeMounts": [MOUNT]}, False),
        ({**SHARED, "superexecVolumeMounts": [MOUNT]}, True),
        ({"volumes": [{"name": "data", "emptyDir": {}}], "volumeMounts": [MOUNT]}, True),
    ],
)
def test_it_stays_with_claims_that_one_pod_has_at_a_time(
    superlink: Document, expected: bool
) -> None:
    manifest = lasting(superlink)
    assert apart(manifest) is expected
    told = endings(manifest)
    assert bool(told) is not expected
    assert all("to mount data too; say in superexecVolumeMounts" in each for each in told)


@pytest.mark.parametrize(("release", "target"), [("1.25.0", 9091), ("1.41.0", 8000)])
def test_it_reaches_the_superlink_by_its_service(release: str, target: int) -> None:
    found = rendered(release=release)
    superexec = container(pod(found, "Deployment", "fed-serverapp"), CONTAINER)
    flag = "--appio-api-address" if release == "1.25.0" else "--runtime-api-address"
    assert value_of(superexec["args"], flag) == "fed-superlink.team.svc:9091"
    ports = find(found, "Service", "fed-superlink")["spec"]["ports"]
    assert {each["port"]: each["targetPort"] for each in ports}[9091] == target
    link = container(pod(found, "StatefulSet", "fed-superlink"), "superlink")
    host = f"0.0.0.0:{target}" if release == "1.25.0" else "0.0.0.0"
    assert host in link["args"]


@pytest.mark.parametrize("release", ["1.30.0", "1.36.0", "1.41.0"])
def test_a_secure_one_knows_the_superlink_by_its_ca_and_is_known_by_the_secret(
    release: str,
) -> None:
    found = rendered(insecure=False, release=release)
    own = pod(found, "Deployment", "fed-serverapp")
    arguments = container(own, CONTAINER)["args"]
    assert value_of(arguments, "--root-certificates") == "/etc/flower/ca/ca.crt"
    assert "--superexec-auth-secret-file" in arguments
    names = [each["name"] for each in own["volumes"]]
    assert names == ["flower-scratch", "flower-ca", "flower-superexec"]
    link = pod(found, "StatefulSet", "fed-superlink")
    names = [each["name"] for each in link["volumes"]]
    assert names == ["flower-scratch", "flower-tls", "flower-superexec"]
    # On 1.41 it has what all APIs have.
    flag = "--ssl-certfile" if release == "1.41.0" else "--appio-ssl-certfile"
    assert value_of(container(link, "superlink")["args"], flag) == "/etc/flower/tls/tls.crt"
    # A certificate from elsewhere need not be for an address that nobody uses.
    assert outline(lasting(insecure=False)).tls.demanded == ("fed-superlink.team.svc",)


@pytest.mark.parametrize("release", [f"1.{minor}.0" for minor in (23, 25, 28, 29)])
def test_without_tls_of_its_own_the_way_is_between_two_relays(release: str) -> None:
    manifest = lasting(insecure=False, release=release)
    found = render(parse(manifest), Facts(namespace="team"))
    link = pod(found, "StatefulSet", "fed-superlink")
    own = pod(found, "Deployment", "fed-serverapp")
    there, here = container(link, "relay"), container(own, "relay")
    secret, loopback = "/etc/flower/superexec/secret", "127.0.0.1:9091"
    files = ["/etc/flower/tls/tls.crt", "/etc/flower/tls/tls.key"]
    assert there["args"] == ["accept", "0.0.0.0:9099", loopback, secret, *files]
    service = "fed-superlink.team.svc:9091"
    assert here["args"] == ["connect", loopback, service, secret, "/etc/flower/ca/ca.crt"]
    # What is plain stays on loopback, at both ends.
    assert loopback in container(link, "superlink")["args"]
    superexec = container(own, CONTAINER)["args"]
    assert value_of(superexec, "--appio-api-address") == loopback
    assert "--insecure" in superexec
    ports = find(found, "Service", "fed-superlink")["spec"]["ports"]
    assert {each["port"]: each["targetPort"] for each in ports}[9091] == 9099
    named = {each["containerPort"] for one in link["containers"] for each in one["ports"]}
    assert named == {9092, 9093, 9099}
    for each, beside in ((there, container(link, "superlink")), (here, container(own, CONTAINER))):
        assert each["image"] == beside["image"]
        assert each["resources"]["requests"]
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    for template, volumes in ((link, {"flower-tls"}), (own, {"flower-ca"})):
        names = {each["name"] for each in template["volumes"]}
        assert names == {"flower-scratch", "flower-superexec"} | volumes
    # The operator has to make the secret, also where Flower itself knows of none.
    assert outline(manifest).shares_secret


RELAYED = "1.28.0"


@pytest.mark.parametrize(
    ("release", "changed", "restarted"),
    [
        ("1.41.0", {"certificate": "new"}, ["fed-superlink"]),
        ("1.41.0", {"authority": "new"}, ["fed-serverapp", "fed-supernode-default"]),
        ("1.41.0", {"secret": "new"}, ["fed-superlink", "fed-serverapp"]),
        ("1.41.0", {"pool_secrets": (("default", "new"),)}, ["fed-supernode-default"]),
        # Relays read files when they need them.
        (RELAYED, {"certificate": "new"}, ["fed-superlink"]),
        (RELAYED, {"authority": "new"}, ["fed-supernode-default"]),
        (RELAYED, {"secret": "new"}, []),
        (RELAYED, {"pool_secrets": (("default", "new"),)}, []),
        ("1.29.0", {"secret": "new"}, ["fed-superlink", "fed-serverapp"]),
        ("1.29.0", {"pool_secrets": (("default", "new"),)}, ["fed-supernode-default"]),
    ],
)
def test_it_restarts_for_what_it_reads_and_for_nothing_else(
    release: str, changed: Document, restarted: list[str]
) -> None:
    def templates(identities: Identities) -> dict[str, Document]:
        manifest = lasting(insecure=False, release=release)
        found = render(parse(manifest), Facts(identities=identities)).objects
        return {
            each["metadata"]["name"]: each["spec"]["template"]
            for each in found
            if "template" in each["spec"]
        }

    before, after = templates(IDENTITIES), templates(replace(IDENTITIES, **changed))
    assert [name for name in before if before[name] != after[name]] == restarted


def test_a_pod_template_is_for_both_pods_and_each_container_for_its_own() -> None:
    containers = [
        {"name": "superlink", "tty": True},
        {"name": CONTAINER, "stdin": True},
        {"name": "watcher", "image": "watcher"},
    ]
    template = {"spec": {"nodeSelector": {"disk": "fast"}, "containers": containers}}
    found = rendered(superlink={"podTemplate": template})
    link = pod(found, "StatefulSet", "fed-superlink")
    own = pod(found, "Deployment", "fed-serverapp")
    assert [each["name"] for each in link["containers"]] == ["superlink", "watcher"]
    assert [each["name"] for each in own["containers"]] == [CONTAINER, "watcher"]
    assert container(link, "superlink")["tty"]
    assert container(own, CONTAINER)["stdin"]
    assert link["nodeSelector"] == own["nodeSelector"] == {"disk": "fast"}


def test_a_claim_is_with_the_pod_that_mounts_it() -> None:
    found = rendered(superlink={**SHARED, "superexecVolumeMounts": [MOUNT]})
    link = pod(found, "StatefulSet", "fed-superlink")
    assert "data" not in [each["name"] for each in link["volumes"]]
    own = pod(found, "Deployment", "fed-serverapp")
    assert "data" in [each["name"] for each in own["volumes"]]


def test_what_kubernetes_would_refuse_in_its_pod_is_named() -> None:
    mount = {"name": "nothing", "mountPath": "/nothing"}
    fields = persistent({"superexecVolumeMounts": [mount]})
    (said,) = render_problems(isolation="process", **fields)
    assert "container superexec-serverapp mounts nothing, which is no volume" in said


def test_the_superlink_makes_way_for_its_successor_soon_unless_told_otherwise() -> None:
    def seconds(superlink: Document) -> Any:
        found = plan(superlink=superlink)
        kind = "StatefulSet" if "persistence" in superlink else "Deployment"
        return pod(found, kind, "fed-superlink")["terminationGracePeriodSeconds"]

    kept = persistent()["superlink"]
    assert seconds({}) == 30
    assert seconds(kept) == 2
    told = {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 60}}}
    assert seconds(kept | told) == 60


def test_it_is_soon_known_whether_a_superlink_that_is_waited_for_is_back() -> None:
    def seconds(**fields: Any) -> Any:
        found = plan(**fields)
        kind = "StatefulSet" if fields else "Deployment"
        superlink = container(pod(found, kind, "fed-superlink"), "superlink")
        return superlink["readinessProbe"]["periodSeconds"]

    assert seconds() == 5
    assert seconds(**persistent()) == 1


def test_what_launches_tasks_leaves_the_superlink_s_pod_with_its_rights() -> None:
    found = rendered(superlink={"executor": "kubernetes"}, insecure=False)
    link = find(found, "StatefulSet", "fed-superlink")["spec"]["template"]
    assert "serviceAccountName" not in link["spec"]
    assert "flower-token" not in [each["name"] for each in link["spec"]["volumes"]]
    own = find(found, "Deployment", "fed-serverapp")["spec"]["template"]
    assert own["spec"]["serviceAccountName"] == "fed-superlink"
    # The sweep by which it clears its tasks away must not find it.
    tasks = find(found, "NetworkPolicy", "fed-serverapp")["spec"]["podSelector"]["matchLabels"]
    assert not tasks.items() <= own["metadata"]["labels"].items()
    (config,) = (each for each in found.objects if each["kind"] == "ConfigMap")
    assert "executor.yaml" in config["data"]
    assert "flower.flwr.ai/executor-config" in own["metadata"]["annotations"]


def test_it_is_held_back_with_the_superlink() -> None:
    old = document(isolation="process", insecure=False, version="1.36.0", **persistent())
    there = observe_all(applied(old).values())
    wanted = desired_of(federation(lasting(insecure=False)))[0].children
    actions = [each for each in decide(wanted, there) if isinstance(each, Create | Update)]
    assert ("Deployment", "fed-serverapp") in [each.wanted.identity for each in actions]
    held = decide(wanted, there, held=[SUPERLINK])
    touched = [each.wanted.name for each in held if isinstance(each, Create | Update)]
    assert set(touched) == {"fed-supernode-default"}


@pytest.mark.parametrize(("release", "address"), [(RELAYED, "29091"), ("1.41.0", "28000")])
def test_on_this_machine_nothing_is_apart(release: str, address: str) -> None:
    manifest: Document = {"isolation": "process", "version": release, "insecure": False}
    kept = local(**manifest, **persistent())
    assert list(kept) == list(local(**manifest))
    command = kept[f"superlink/{CONTAINER}"].command
    assert f"127.0.0.1:{address}" in command
    assert left_out(plan(**manifest, **persistent())) == []
