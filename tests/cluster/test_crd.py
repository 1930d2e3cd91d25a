"""The CRD on a real API server: it goes in, it refuses, it accepts, it prints."""

import json
import re
from typing import Any

import pytest
import yaml

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.api.rules import RULES
from flower_operator.operator.desired import CHILDREN
from flower_operator.render import Facts, render
from scripts.kubernetes_schema import TARGET, collect, dumps
from scripts.manifests import CRD, EXAMPLES
from tests.cluster.conftest import serves_federations
from tests.harness.control_plane import ControlPlane
from tests.harness.waiting import wait_for
from tests.unit.federations import document
from tests.unit.test_manifest import IMAGES, NO_IMAGES

STRICT = "fieldValidation=Strict&dryRun=All"
FEDERATIONS = "/apis/flwr.exalsius.ai/v1/namespaces/default/federations"

Document = dict[str, Any]


def examples() -> list[Document]:
    return [
        manifest
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for manifest in yaml.safe_load_all(path.read_text())
    ]


def refusal(control_plane: ControlPlane, document: Document) -> str:
    status, answer = control_plane.request("POST", f"{FEDERATIONS}?{STRICT}", document)
    assert status in (400, 422), answer
    message: str = answer["message"]
    return message


def test_plain_kubectl_apply_updates_the_crd(control_plane: ControlPlane) -> None:
    again = control_plane.kubectl("apply", "-f", str(CRD))
    assert "unchanged" in again.stdout
    assert CRD.stat().st_size < 262_144


def test_the_committed_schema_is_what_this_api_server_publishes(
    control_plane: ControlPlane,
) -> None:
    published = control_plane.kubectl("get", "--raw", "/openapi/v2").stdout
    assert dumps(collect(json.loads(published)["definitions"])) == TARGET.read_text()


def no_pool(document: Document) -> None:
    document["spec"]["supernodes"]["pools"] = []


def set_replicas(document: Document) -> None:
    document["spec"]["supernodes"]["pools"][0]["replicas"] = 1


def drop_replicas(document: Document) -> None:
    del document["spec"]["supernodes"]["pools"][0]["replicas"]


def drop_superexec(document: Document) -> None:
    del document["spec"]["superlink"]["superexecImage"]


def drop_client_superexec(document: Document) -> None:
    del document["spec"]["supernodes"]["pools"][0]["images"]


def set_superexec(document: Document) -> None:
    document["spec"]["superlink"]["superexecImage"] = "flwr/superexec:1.25.0"


def set_client_superexec(document: Document) -> None:
    document["spec"]["supernodes"]["pools"][0]["images"]["superexecClientApp"] = "x"


def mount_all(document: Document) -> None:
    document["spec"]["supernodes"]["pools"][0]["gpu"] = {"enabled": True, "mountAll": True}


def launch_server_apps(document: Document) -> None:
    document["spec"]["superlink"]["executor"] = "kubernetes"


def launch_client_apps(document: Document) -> None:
    document["spec"]["supernodes"]["pools"][0]["executor"] = "kubernetes"


def launch_with_a_certificate_from_elsewhere(document: Document) -> None:
    launch_client_apps(document)
    document["spec"] |= {"insecure": False, "tls": {"secretName": "mine"}}


def launch_with_all_gpus(document: Document) -> None:
    launch_client_apps(document)
    document["spec"]["supernodes"]["pools"][0]["gpu"] = {"mountAll": True, "vendor": "amd"}


def launch_as_somebody(document: Document) -> None:
    launch_server_apps(document)
    document["spec"]["superlink"]["podTemplate"] = {"spec": {"serviceAccountName": "mine"}}


def launch_client_apps_as_somebody(document: Document) -> None:
    launch_client_apps(document)
    pool = document["spec"]["supernodes"]["pools"][0]
    pool["podTemplate"] = {"spec": {"serviceAccount": "mine"}}


def long_names(document: Document) -> None:
    document["spec"]["supernodes"]["pools"][0]["name"] = "p" * 50


def drop_image(document: Document) -> None:
    del document["spec"]["superlink"]["image"]


def add_external(document: Document) -> None:
    document["spec"]["superlink"]["external"] = {"address": "flower.example.org:9092"}


def be_external(document: Document) -> None:
    document["spec"]["superlink"] = {"external": {"address": "flower.example.org:9092"}}


def be_external_with_tls(document: Document) -> None:
    be_external(document)
    document["spec"]["insecure"] = False


def be_external_with_keys(document: Document) -> None:
    be_external_with_tls(document)
    document["spec"]["superlink"]["external"]["ca"] = "pem"
    use_keys(document)


def place(document: Document) -> None:
    document["spec"]["supernodes"]["pools"][0]["placement"] = {"name": "gpu"}


def place_with_external(document: Document) -> None:
    be_external(document)
    place(document)


def place_and_launch(document: Document) -> None:
    launch_client_apps(document)
    place(document)


def use_keys(document: Document) -> None:
    document["spec"]["supernodeAuth"] = {"enabled": True, "allowSubprocess": True}


def use_keys_where_apps_can_read_them(document: Document) -> None:
    document["spec"]["supernodeAuth"] = {"enabled": True, "allowSubprocess": False}


def take_certificates_twice(document: Document) -> None:
    document["spec"]["tls"] = {"secretName": "mine", "issuerRef": {"name": "ours"}}


def set_node_ports(document: Document) -> None:
    service = {"type": "ClusterIP", "nodePorts": {"grpc": 30000}}
    document["spec"]["superlink"]["service"] = service


def claim(name: str) -> Document:
    return {"metadata": {"name": name}, "spec": {}}


def serve_two_apis_on_one_port(document: Document) -> None:
    document["spec"]["superlink"]["service"] = {"ports": {"grpc": 9093}}


def serve_apps_on_the_port_of_supernodes(document: Document) -> None:
    document["spec"]["superlink"]["service"] = {"ports": {"grpc": 9091}}


def use_a_node_port_twice(document: Document) -> None:
    ports = {"grpc": 30000, "serverAppIO": 30000}
    document["spec"]["superlink"]["service"] = {"type": "NodePort", "nodePorts": ports}


def claim_twice(document: Document) -> None:
    document["spec"]["superlink"]["volumeClaimTemplates"] = [claim("a"), claim("a")]


def claim_twice_in_a_pool(document: Document) -> None:
    document["spec"]["supernodes"]["pools"][0]["volumeClaimTemplates"] = [claim("a"), claim("a")]


def be_like_the_operators(document: Document) -> None:
    document["spec"]["superlink"]["volumes"] = [{"name": "flower-tls", "emptyDir": {}}]


def be_like_the_operators_in_a_pool(document: Document) -> None:
    document["spec"]["supernodes"]["pools"][0]["volumeClaimTemplates"] = [claim("flower-keys")]


def name_a_volume_like_a_claim(document: Document) -> None:
    document["spec"]["superlink"]["volumeClaimTemplates"] = [claim("a")]
    document["spec"]["superlink"]["volumes"] = [{"name": "a", "emptyDir": {}}]


def name_a_volume_of_a_pool_like_a_claim(document: Document) -> None:
    pool = document["spec"]["supernodes"]["pools"][0]
    pool |= {"volumeClaimTemplates": [claim("a")], "volumes": [{"name": "a", "emptyDir": {}}]}


def name_a_volume_like_the_state(document: Document) -> None:
    superlink = document["spec"]["superlink"]
    superlink |= {"persistence": {"size": "1Gi"}, "volumes": [{"name": "state", "emptyDir": {}}]}


def name_a_pool_like_an_object_of_another(document: Document) -> None:
    place(document)
    pool = document["spec"]["supernodes"]["pools"][0]
    document["spec"]["supernodes"]["pools"].append(pool | {"name": f"{pool['name']}-ca"})


def begin_with_a_digit(document: Document) -> None:
    document["metadata"]["name"] = "1st"


def be_long(document: Document) -> None:
    document["metadata"]["name"] = "f" * 43
    document["spec"]["superlink"]["persistence"] = {"size": "1Gi"}


@pytest.mark.parametrize(
    ("start", "change", "message"),
    [
        (
            document(),
            no_pool,
            "spec.supernodes.pools must contain at least one pool",
        ),
        (
            document("DaemonSet"),
            set_replicas,
            "replicas must not be set for pools when mode is DaemonSet",
        ),
        (
            document(),
            drop_replicas,
            "replicas must be set (>=1) for every pool when mode is StatefulSet",
        ),
        (
            document(isolation="process"),
            drop_superexec,
            "spec.superlink.superexecImage is required when isolationMode=process",
        ),
        (
            document(isolation="process"),
            drop_client_superexec,
            "spec.supernodes.pools[*].images.superexecClientApp is required when "
            "isolationMode=process",
        ),
        (
            document(),
            set_superexec,
            "spec.superlink.superexecImage must be empty when isolationMode=subprocess",
        ),
        (
            document(),
            set_client_superexec,
            "spec.supernodes.pools[*].images.superexecClientApp must be empty when "
            "isolationMode=subprocess",
        ),
        (
            document(),
            mount_all,
            "spec.supernodes.pools[*].gpu.vendor is required when gpu.mountAll=true",
        ),
        (
            document(),
            launch_server_apps,
            "spec.superlink.executor may be kubernetes only when isolationMode=process",
        ),
        (
            document(),
            launch_client_apps,
            "spec.supernodes.pools[*].executor may be kubernetes only when isolationMode=process",
        ),
        (
            document("DaemonSet", isolation="process"),
            launch_client_apps,
            "spec.supernodes.pools[*].executor may be kubernetes only when mode is StatefulSet",
        ),
        (
            document(isolation="process"),
            launch_with_a_certificate_from_elsewhere,
            "spec.supernodes.pools[*].executor may be kubernetes with spec.tls.secretName, ",
        ),
        (
            document(isolation="process"),
            launch_with_all_gpus,
            "spec.supernodes.pools[*].gpu.mountAll must be false when executor=kubernetes",
        ),
        (
            document(isolation="process"),
            launch_as_somebody,
            "spec.superlink.podTemplate must not name a ServiceAccount when executor=kubernetes",
        ),
        (
            document(isolation="process"),
            launch_client_apps_as_somebody,
            "spec.supernodes.pools[*].podTemplate must not name a ServiceAccount when executor=",
        ),
        (
            document(),
            long_names,
            "names are too long: <name>-supernode-<pool> may have 63 characters, "
            "52 in StatefulSet mode",
        ),
        (
            document(),
            drop_image,
            "spec.superlink.image is required unless spec.superlink.external is set",
        ),
        (
            document(),
            add_external,
            "image, superexecImage, executor, persistence, volumeClaimTemplates and gateway must "
            "not be set beside spec.superlink.external",
        ),
        (
            document(),
            be_external_with_tls,
            "spec.superlink.external.ca is required when insecure=false",
        ),
        (
            document("DaemonSet"),
            be_external_with_keys,
            "spec.supernodeAuth.enabled needs mode StatefulSet with spec.superlink.external",
        ),
        (
            document(),
            place_with_external,
            "spec.supernodes.pools[*].placement must not be set with spec.superlink.external",
        ),
        (
            document(isolation="process"),
            place_and_launch,
            "spec.supernodes.pools[*].executor may not be kubernetes in pools with placement",
        ),
        (
            document(),
            use_keys,
            "spec.supernodeAuth.enabled may be true only when insecure=false",
        ),
        (
            document(insecure=False),
            use_keys_where_apps_can_read_them,
            "spec.supernodeAuth.enabled needs isolationMode=process or "
            "spec.supernodeAuth.allowSubprocess=true",
        ),
        (
            document(insecure=False),
            take_certificates_twice,
            "spec.tls.issuerRef must not be set when spec.tls.secretName is",
        ),
        (
            document(),
            set_node_ports,
            "spec.superlink.service.nodePorts may be set only when type is NodePort or",
        ),
        (
            document(),
            serve_two_apis_on_one_port,
            "spec.superlink.service.ports.grpc and extra must not be the same port",
        ),
        (
            document(isolation="process"),
            serve_apps_on_the_port_of_supernodes,
            "spec.superlink.service.ports.serverAppIO must not be the port of grpc or extra",
        ),
        (
            document(),
            use_a_node_port_twice,
            "spec.superlink.service.nodePorts must be different ports",
        ),
        (
            document(),
            claim_twice,
            "spec.superlink.volumeClaimTemplates must have different names",
        ),
        (
            document(),
            claim_twice_in_a_pool,
            "spec.supernodes.pools[*].volumeClaimTemplates must have different names",
        ),
        (
            document(),
            be_like_the_operators,
            "spec.superlink.volumes and volumeClaimTemplates must not have the names of the",
        ),
        (
            document(),
            be_like_the_operators_in_a_pool,
            "spec.supernodes.pools[*].volumes and volumeClaimTemplates must not have the names of",
        ),
        (
            document(),
            name_a_volume_like_a_claim,
            "spec.superlink.volumes must not have the name of one of its volumeClaimTemplates",
        ),
        (
            document(),
            name_a_volume_of_a_pool_like_a_claim,
            "spec.supernodes.pools[*].volumes must not have the name of one of its",
        ),
        (
            document(),
            name_a_volume_like_the_state,
            "spec.superlink.volumes and volumeClaimTemplates must not hold 'state'",
        ),
        (
            document(),
            name_a_pool_like_an_object_of_another,
            "spec.supernodes.pools[*].name must not be that of a pool with placement and one of",
        ),
        (
            document(),
            begin_with_a_digit,
            "metadata.name must start with a letter, end with a letter or digit and hold only "
            "lower-case letters, digits and '-'",
        ),
        (
            document(),
            be_long,
            "metadata.name is too long: <name>-superlink may have 63 characters, 52 with",
        ),
    ],
)
def test_a_broken_rule_is_refused_in_these_words(
    control_plane: ControlPlane, start: Document, change: Any, message: str
) -> None:
    manifest = json.loads(json.dumps(start))
    change(manifest)
    answer = refusal(control_plane, manifest)
    assert message in answer
    assert answer.endswith((".", "]"))
    (rule,) = (rule for rule in RULES if rule.message.startswith(message))
    assert answer.count(rule.message) == 1
    with pytest.raises(InvalidFederation, match=re.escape(message)):
        parse(manifest)


def test_every_broken_rule_is_told_at_once(control_plane: ControlPlane) -> None:
    manifest = document(isolation="process")
    for change in (drop_replicas, drop_superexec, drop_client_superexec, mount_all):
        change(manifest)
    told = refusal(control_plane, manifest)
    expected = {
        "replicas must be set (>=1) for every pool when mode is StatefulSet",
        "spec.superlink.superexecImage is required when isolationMode=process",
        "spec.supernodes.pools[*].images.superexecClientApp is required when isolationMode=process",
        "spec.supernodes.pools[*].gpu.vendor is required when gpu.mountAll=true",
    }
    assert {rule.message for rule in RULES if rule.message in told} == expected


def test_the_server_takes_the_images_that_a_runtime_can_pull(control_plane: ControlPlane) -> None:
    for image in IMAGES:
        manifest = document(superlink={"image": image}, pool={"images": {"supernode": image}})
        status, answer = control_plane.request("POST", f"{FEDERATIONS}?{STRICT}", manifest)
        assert status == 201, answer
    for image in NO_IMAGES:
        manifest = document(superlink={"image": image}, pool={"images": {"supernode": image}})
        message = refusal(control_plane, manifest)
        assert "spec.superlink.image" in message
        assert "spec.supernodes.pools[0].images.supernode" in message


def test_the_server_keeps_no_book_of_the_fields_of_a_status(control_plane: ControlPlane) -> None:
    """It is written as a whole, and its writer has all of it."""
    federation = document()
    federation["metadata"]["name"] = "booked"
    assert control_plane.request("POST", FEDERATIONS, federation)[0] == 201
    status = {"supernodes": "1/2", "pools": [{"name": "default", "kind": "StatefulSet"}]}
    path = f"{FEDERATIONS}/booked"
    code, answer = control_plane.request("PATCH", f"{path}/status", {"status": status})
    assert code == 200, answer
    (entry,) = (e for e in answer["metadata"]["managedFields"] if e.get("subresource"))
    assert entry["fieldsV1"] == {"f:status": {}}
    assert control_plane.request("DELETE", path)[0] == 200


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"podTemplate": {"spec": {"nodeSelectr": {"a": "b"}}}}, "podTemplate.spec.nodeSelectr"),
        ({"podTemplate": {"spec": {"hostNetwork": "yes"}}}, "podTemplate.spec.hostNetwork"),
        ({"env": [{"nam": "A"}]}, "env[0].nam"),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimt": "1Gi"}}]}, "emptyDir.sizeLimt"),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": []}}]}, "emptyDir.sizeLimit"),
        ({"podTemplate": {"spec": {"affinity": {"nodeAfinity": {}}}}}, "affinity.nodeAfinity"),
        (
            {"podTemplate": {"spec": {"tolerations": [{"tolerationSeconds": "5"}]}}},
            "tolerations[0].tolerationSeconds",
        ),
        ({"resources": {"limits": {"cpu": "lots"}}}, "resources.limits.cpu"),
        ({"persistence": {}}, "persistence.size"),
        ({"persistence": {"size": "lots"}}, "persistence.size"),
        (
            {"volumeClaimTemplates": [{"metadata": {"name": "x"}, "spec": {"storage": 1}}]},
            "volumeClaimTemplates[0].spec.storage",
        ),
    ],
)
def test_a_misspelt_or_mistyped_pod_field_is_refused_by_name(
    control_plane: ControlPlane, fields: Document, named: str
) -> None:
    assert named in refusal(control_plane, document(superlink=fields))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"controlFrom": [{"podSelectr": {}}]}, "networkPolicy.controlFrom[0].podSelectr"),
        ({"controlFrom": [{"ipBlock": {}}]}, "networkPolicy.controlFrom[0].ipBlock.cidr"),
        ({"egress": [{"to": [{"ipBlok": {}}]}]}, "networkPolicy.egress[0].to[0].ipBlok"),
        ({"enabled": "yes"}, "networkPolicy.enabled"),
    ],
)
def test_a_misspelt_or_mistyped_network_field_is_refused_by_name(
    control_plane: ControlPlane, fields: Document, named: str
) -> None:
    assert named in refusal(control_plane, document(networkPolicy=fields))


@pytest.mark.parametrize("manifest", examples(), ids=lambda d: d["metadata"]["name"])
def test_an_example_and_all_that_it_becomes_are_accepted(
    control_plane: ControlPlane, manifest: Document
) -> None:
    answer = control_plane.kubectl(
        "apply", "--server-side", "--validate=strict", "-f", "-", input=json.dumps(manifest)
    )
    assert "serverside-applied" in answer.stdout
    for rendered in render(parse(manifest), Facts()).objects:
        path = apply_path(rendered)
        status, applied = control_plane.request(
            "PATCH",
            f"{path}?fieldManager=test&force=true&{STRICT}",
            rendered,
            {"Content-Type": "application/apply-patch+yaml"},
        )
        assert status in (200, 201), applied
        # Quantities come back in another spelling of the same amount, empty lists not at all.
        lost = [
            path
            for path in missing(rendered, applied)
            if ".resources." not in path and path != ".spec.ingress"
        ]
        assert not lost, "the API server did not keep all that was sent"


def test_the_pods_of_every_example_pass_pod_security_restricted(
    control_plane: ControlPlane,
) -> None:
    control_plane.kubectl("create", "namespace", "restricted")
    control_plane.kubectl("create", "serviceaccount", "default", "-n", "restricted")
    label = "pod-security.kubernetes.io/enforce=restricted"
    control_plane.kubectl("label", "namespace", "restricted", label)
    checked = 0
    for manifest in examples():
        for workload in json.loads(json.dumps(render(parse(manifest), Facts()).objects)):
            template = workload.get("spec", {}).get("template")
            if template is None:
                continue
            template["spec"].pop("runtimeClassName", None)  # no such class on this cluster
            for account in ("serviceAccountName", "serviceAccount"):  # nor such an account
                template["spec"].pop(account, None)
            claims = workload["spec"].get("volumeClaimTemplates", [])
            names = [claim["metadata"]["name"] for claim in claims]
            template["spec"]["volumes"] += [{"name": each, "emptyDir": {}} for each in names]
            name = workload["metadata"]["name"]
            pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": name}}
            status, answer = control_plane.request(
                "POST", f"/api/v1/namespaces/restricted/pods?{STRICT}", pod
            )
            assert status == 201, answer["message"]
            checked += 1
    assert checked > 25


def apply_path(rendered: Document) -> str:
    metadata = rendered["metadata"]
    return CHILDREN[rendered["kind"]].path(metadata["namespace"], metadata["name"])


def missing(sent: Any, kept: Any) -> list[str]:
    """The paths of what was sent and is not there, or not the same."""
    if isinstance(sent, dict):
        if not isinstance(kept, dict):
            return [""]
        return [f".{k}{p}" for k, v in sent.items() for p in missing(v, kept.get(k))]
    if isinstance(sent, list):
        if not isinstance(kept, list) or len(sent) != len(kept):
            return [""]
        pairs = enumerate(zip(sent, kept, strict=True))
        return [f"[{at}]{p}" for at, (one, other) in pairs for p in missing(one, other)]
    return [] if sent == kept else [""]


def test_kubectl_prints_the_documented_columns(control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "-f", str(EXAMPLES / "federation-statefulset-process.yaml"))
    heading, row = control_plane.kubectl(
        "get", "fedf", "federation-statefulset-process"
    ).stdout.splitlines()
    assert heading.split() == ["NAME", "MODE", "ISOLATION", "SUPERNODES", "READY", "AGE"]
    assert row.split()[:3] == ["federation-statefulset-process", "StatefulSet", "process"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"pool": {"replicas": 100_000}}, "pools[0].replicas"),
        ({"pools": [{"name": "a", "replicas": 9_999}, {"name": "b"}]}, "may add up to 10000"),
        ({"superlink": {"extraArgs": ["-v"] * 257}}, "extraArgs"),
        ({"superlink": {"env": [{"name": "A", "value": "a" * 32_769}]}}, "env[0].value"),
        ({"superlink": {"resources": {"limits": {"cpu": "1" * 65}}}}, "resources.limits.cpu"),
        ({"superlink": {"superexecImage": "a" * 1_025}}, "superexecImage"),
        ({"pool": {"nodeConfig": {f"k{at}": "" for at in range(257)}}}, "nodeConfig"),
        (
            {"pool": {"podTemplate": {"spec": {"tolerations": [{"key": "a"}] * 257}}}},
            "podTemplate.spec.tolerations",
        ),
        (
            {
                "pool": {
                    "podTemplate": {"spec": {"nodeSelector": {f"k{n}": "" for n in range(257)}}}
                }
            },
            "podTemplate.spec.nodeSelector",
        ),
        (
            {"pool": {"podTemplate": {"metadata": {"annotations": {"a": "a" * 32_769}}}}},
            "podTemplate.metadata.annotations.a",
        ),
    ],
)
def test_what_is_too_large_is_refused_by_name(
    control_plane: ControlPlane, fields: Document, named: str
) -> None:
    manifest = document(**fields)
    assert named in refusal(control_plane, manifest)
    with pytest.raises(InvalidFederation, match=re.escape(named)):
        parse(manifest)


@pytest.mark.extended
@pytest.mark.parametrize(
    "old",
    [
        document("DaemonSet", pool={"replicas": 1}),
        document(pool={"replicas": 250_000}),
        document(superlink={"extraArgs": ["-v"] * 1_000}),
    ],
    ids=["rule", "number", "list"],
)
def test_a_federation_older_than_a_rule_keeps_its_status(old: Document) -> None:
    """It breaks the rule, but a status is news of what runs, and has to be told."""
    lax = yaml.safe_load(CRD.read_text())
    drop_rules(lax["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    with ControlPlane() as server:
        server.kubectl("apply", "-f", "-", input=yaml.safe_dump(lax))
        wait_for(lambda: serves_federations(server), "the CRD is not served", timeout=30)
        status, answer = server.request("POST", FEDERATIONS, old)
        assert status == 201, answer
        server.kubectl("apply", "-f", str(CRD))
        refused = f"{FEDERATIONS}?{STRICT}"
        other = {**old, "metadata": {**old["metadata"], "name": "other"}}
        wait_for(
            lambda: server.request("POST", refused, other)[0] == 422,
            "the rules are not in force",
            timeout=30,
        )
        path = f"{FEDERATIONS}/{old['metadata']['name']}"
        told = server.request("PATCH", f"{path}/status", {"status": {"supernodes": "1/2"}})
        assert told[0] == 200, told
        assert told[1]["status"]["supernodes"] == "1/2"


def drop_rules(schema: Document) -> None:
    for keyword in ("x-kubernetes-validations", "maximum", "maxItems"):
        schema.pop(keyword, None)
    for child in schema.get("properties", {}).values():
        drop_rules(child)
    if isinstance(schema.get("items"), dict):
        drop_rules(schema["items"])
