"""What a Federation becomes."""

import json
from typing import Any

import pytest

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.render import Facts, render
from flower_operator.render.facts import Identities
from flower_operator.render.secrets import name_notices
from tests.unit.federations import Document, container, document, find, plan, pod, value_of


def render_problems(*args: Any, **fields: Any) -> list[str]:
    with pytest.raises(InvalidFederation) as caught:
        plan(*args, **fields)
    return [str(problem) for problem in caught.value.problems]


def supernode_pod(**fields: Any) -> Document:
    mode = fields.pop("mode", "StatefulSet")
    return pod(plan(mode, **fields), mode, "fed-supernode-default")


def names_of(items: list[Document]) -> list[str]:
    return [each["name"] for each in items]


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
@pytest.mark.parametrize("isolation", ["process", "subprocess"])
def test_the_objects_of_each_mode(mode: str, isolation: str) -> None:
    rendered = plan(mode, isolation)
    assert [(each["kind"], each["metadata"]["name"]) for each in rendered.objects] == [
        ("Service", "fed-superlink"),
        ("Deployment", "fed-superlink"),
        (mode, "fed-supernode-default"),
    ]
    assert {each["metadata"]["namespace"] for each in rendered.objects} == {"team"}
    process = isolation == "process"
    link = pod(rendered, "Deployment", "fed-superlink")
    assert names_of(link["containers"]) == ["superlink", *["superexec-serverapp"] * process]
    node = pod(rendered, mode, "fed-supernode-default")
    assert names_of(node["containers"]) == ["supernode", *["superexec-clientapp"] * process]


def test_labels_and_selectors() -> None:
    workload = find(plan(), "StatefulSet", "fed-supernode-default")
    labels = {
        "app.kubernetes.io/managed-by": "flower-operator",
        "app.kubernetes.io/name": "supernode",
        "flower.flwr.ai/component": "supernode",
        "flower.flwr.ai/federation": "fed",
        "flower.flwr.ai/pool": "default",
    }
    assert workload["metadata"]["labels"] == labels
    assert workload["spec"]["selector"]["matchLabels"] == labels
    assert workload["spec"]["template"]["metadata"]["labels"] == labels


LABELLED = {"metadata": {"labels": {"team": "blue"}}}


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
def test_labels_of_a_pod_template_are_in_no_selector(mode: str) -> None:
    """A workload's selector cannot be changed: with such a label it would be recreated."""
    link = {"podTemplate": LABELLED, "persistence": {"size": "1Gi"}}
    fields = {"insecure": False, "networkPolicy": {"enabled": True}}
    rendered = plan(mode, "process", superlink=link, pool={"podTemplate": LABELLED}, **fields)
    selectors = [
        each["spec"].get("selector") or each["spec"].get("podSelector")
        for each in rendered.objects
        if "spec" in each
    ]
    assert len(selectors) >= 5
    assert all("team" not in str(each) for each in selectors)
    for kind, name in (("StatefulSet", "fed-superlink"), (mode, "fed-supernode-default")):
        template = find(rendered, kind, name)["spec"]["template"]
        assert template["metadata"]["labels"]["team"] == "blue"


def test_the_order_of_maps_changes_no_byte() -> None:
    fields: Document = {
        "nodeConfig": {"b": "1", "a": "2"},
        "podTemplate": {
            "spec": {"nodeSelector": {"b": "1", "a": "2"}, "hostNetwork": True},
            "metadata": {"labels": {"y": "1", "x": "2"}},
        },
        "supernodeResources": {"requests": {"memory": "1Gi", "cpu": 1}, "limits": {"cpu": 2}},
    }
    manifest = document(pool=fields)
    backwards = json.loads(json.dumps(manifest), object_pairs_hook=lambda p: dict(reversed(p)))
    assert list(manifest["spec"]) != list(backwards["spec"])
    first, second = (json.dumps(render(parse(m), Facts()).objects) for m in (manifest, backwards))
    assert first == second


@pytest.mark.parametrize(
    ("release", "targets"),
    [
        ("1.25.0", {"fleet": 9092, "control": 9093, "serverappio": 9091}),
        ("1.35.0", {"fleet": 9092, "control": 9093, "serverappio": 8000}),
        ("1.37.0", {"fleet": 9092, "control": 8000, "serverappio": 8000}),
        ("1.41.0", {"fleet": 8000, "control": 8000, "serverappio": 8000}),
    ],
)
def test_service_ports_stay_and_lead_to_where_the_release_listens(
    release: str, targets: dict[str, int]
) -> None:
    service = find(plan(isolation="process", version=release), "Service", "fed-superlink")
    ports = service["spec"]["ports"]
    assert {each["name"]: each["targetPort"] for each in ports} == targets
    assert {each["name"]: each["port"] for each in ports} == {
        "fleet": 9092,
        "control": 9093,
        "serverappio": 9091,
    }
    link = pod(plan(isolation="process", version=release), "Deployment", "fed-superlink")
    opened = [each["containerPort"] for each in container(link, "superlink")["ports"]]
    assert sorted(opened) == sorted(set(targets.values()))


def test_the_service_takes_type_ports_labels_and_annotations() -> None:
    service = find(
        plan(
            superlink={
                "service": {
                    "type": "LoadBalancer",
                    "ports": {"grpc": 19092, "extra": 19093},
                    "labels": {"team": "a", "flower.flwr.ai/federation": "stolen"},
                    "annotations": {"lb": "internal"},
                }
            }
        ),
        "Service",
        "fed-superlink",
    )
    assert service["spec"]["type"] == "LoadBalancer"
    assert [each["port"] for each in service["spec"]["ports"]] == [19092, 19093]
    assert service["metadata"]["annotations"] == {"lb": "internal"}
    assert service["metadata"]["labels"]["team"] == "a"
    assert service["metadata"]["labels"]["flower.flwr.ai/federation"] == "fed"
    assert "team" not in service["spec"]["selector"]


def test_supernodes_find_the_superlink_at_its_service_port() -> None:
    fields = {"service": {"ports": {"grpc": 19092}}}
    found = pod(plan(superlink=fields), "StatefulSet", "fed-supernode-default")
    arguments = container(found, "supernode")["args"]
    assert value_of(arguments, "--superlink") == "fed-superlink.team.svc:19092"


def test_an_api_that_only_its_pod_uses_is_bound_to_loopback() -> None:
    node = supernode_pod(isolation="process")
    assert value_of(container(node, "supernode")["args"], "--clientappio-api-address") == (
        "127.0.0.1:9094"
    )
    link = pod(plan(), "Deployment", "fed-superlink")
    assert value_of(container(link, "superlink")["args"], "--serverappio-api-address") == (
        "127.0.0.1:9091"
    )


def test_a_secure_federation_keeps_its_app_api_off_the_service() -> None:
    rendered = plan(isolation="process", insecure=False)
    service = find(rendered, "Service", "fed-superlink")
    assert names_of(service["spec"]["ports"]) == ["fleet", "control"]
    link = container(pod(rendered, "Deployment", "fed-superlink"), "superlink")
    assert value_of(link["args"], "--serverappio-api-address") == "127.0.0.1:9091"
    assert "--insecure" not in link["args"]


def test_a_secure_pod_mounts_every_file_that_its_arguments_name() -> None:
    for release in ("1.25.0", "1.31.0", "1.36.0", "1.41.0"):
        for isolation in ("process", "subprocess"):
            rendered = plan(isolation=isolation, insecure=False, version=release)
            for workload in rendered.objects[-2:]:
                spec = workload["spec"]["template"]["spec"]
                volumes = set(names_of(spec["volumes"]))
                for each in spec["containers"]:
                    folders = [mount["mountPath"] for mount in each["volumeMounts"]]
                    files = [text for text in each["args"] if text.startswith("/etc/flower/")]
                    assert files or each["name"].startswith("superexec")
                    assert all(any(f.startswith(d + "/") for d in folders) for f in files)
                    assert volumes >= set(names_of(each["volumeMounts"]))


def test_env_of_a_pool_wins_by_name_and_reaches_the_apps() -> None:
    node = supernode_pod(
        isolation="process",
        supernodes={"env": [{"name": "A", "value": "all"}, {"name": "B", "value": "all"}]},
        pool={"env": [{"name": "B", "value": "pool"}, {"name": "C", "value": "pool"}]},
    )
    for each in node["containers"]:
        values = {env["name"]: env.get("value") for env in each["env"]}
        assert (values["A"], values["B"], values["C"]) == ("all", "pool", "pool")
        assert len(values) == len(each["env"])


def test_a_user_may_turn_our_own_env_around() -> None:
    node = supernode_pod(pool={"env": [{"name": "FLWR_TELEMETRY_ENABLED", "value": "1"}]})
    values = {env["name"]: env["value"] for env in container(node, "supernode")["env"]}
    assert values["FLWR_TELEMETRY_ENABLED"] == "1"


def test_extra_arguments_come_last() -> None:
    arguments = container(supernode_pod(pool={"extraArgs": ["--max-retries", "3"]}), "supernode")
    assert arguments["args"][-2:] == ["--max-retries", "3"]


def test_resources_of_all_four_containers() -> None:
    rendered = plan(
        isolation="process",
        superlink={
            "resources": {"limits": {"cpu": 1}},
            "superexecResources": {"limits": {"cpu": 2}},
        },
        pool={
            "supernodeResources": {"limits": {"cpu": 3}},
            "superexecResources": {"limits": {"cpu": 4}},
        },
    )
    link = pod(rendered, "Deployment", "fed-superlink")
    node = pod(rendered, "StatefulSet", "fed-supernode-default")
    found = [each["resources"]["limits"]["cpu"] for each in link["containers"] + node["containers"]]
    assert found == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("gpu", "resource", "count"),
    [
        ({"vendor": "nvidia"}, "nvidia.com/gpu", "1"),
        ({"vendor": "amd", "count": 2}, "amd.com/gpu", "2"),
        ({"resourceName": "nvidia.com/mig-1g.5gb"}, "nvidia.com/mig-1g.5gb", "1"),
        ({"vendor": "amd", "resourceName": "amd.com/gpu-slice"}, "amd.com/gpu-slice", "1"),
        ({}, "nvidia.com/gpu", "1"),
    ],
)
@pytest.mark.parametrize("isolation", ["process", "subprocess"])
def test_gpus_go_to_the_container_that_trains(
    gpu: Document, resource: str, count: str, isolation: str
) -> None:
    fields = {"gpu": {"enabled": True, **gpu}, "supernodeResources": {"limits": {"cpu": 1}}}
    node = supernode_pod(isolation=isolation, pool=fields)
    trains = "superexec-clientapp" if isolation == "process" else "supernode"
    for each in node["containers"]:
        resources = each.get("resources", {})
        if each["name"] == trains:
            assert resources["limits"][resource] == resources["requests"][resource] == count
        else:
            assert resource not in resources.get("limits", {})


def test_gpus_are_asked_for_only_when_enabled() -> None:
    node = supernode_pod(pool={"gpu": {"vendor": "nvidia"}})
    assert "resources" not in container(node, "supernode")


def test_all_gpus_of_an_nvidia_node() -> None:
    fields = {"gpu": {"enabled": True, "vendor": "nvidia", "mountAll": True}}
    node = supernode_pod(mode="DaemonSet", isolation="process", pool=fields)
    assert node["runtimeClassName"] == "nvidia"
    for each in node["containers"]:
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in each["env"]
        assert "resources" not in each


def test_all_gpus_of_an_amd_node() -> None:
    fields = {"gpu": {"enabled": True, "vendor": "amd", "mountAll": True}}
    node = supernode_pod(mode="DaemonSet", isolation="process", pool=fields)
    assert "runtimeClassName" not in node
    paths = {each["name"]: each["hostPath"]["path"] for each in node["volumes"][1:]}
    assert paths == {"dev-kfd": "/dev/kfd", "dev-dri": "/dev/dri"}
    for each in node["containers"]:
        assert {"name": "ROCR_VISIBLE_DEVICES", "value": "all"} in each["env"]
        assert {"name": "dev-kfd", "mountPath": "/dev/kfd"} in each["volumeMounts"]
        assert each["securityContext"] == {"privileged": True}


def test_volumes_and_mounts() -> None:
    fields = {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    node = supernode_pod(isolation="process", pool=fields)
    assert {"name": "data", "emptyDir": {}} in node["volumes"]
    mount = {"name": "data", "mountPath": "/data"}
    assert all(mount in each["volumeMounts"] for each in node["containers"])
    own = [{"name": "data", "mountPath": "/app/data"}]
    node = supernode_pod(isolation="process", pool={**fields, "superexecVolumeMounts": own})
    clientapp = container(node, "superexec-clientapp")["volumeMounts"]
    assert own[0] in clientapp
    assert mount not in clientapp


def test_a_users_volume_never_takes_the_place_of_ours_by_chance() -> None:
    for name in ("scratch", "tls", "ca", "superexec", "node-config"):
        volume = {"name": name, "persistentVolumeClaim": {"claimName": "mine"}}
        node = supernode_pod(isolation="process", insecure=False, pool={"volumes": [volume]})
        assert volume in node["volumes"]
        ours = [each for each in node["volumes"] if each["name"].startswith("flower-")]
        assert names_of(ours) == ["flower-scratch", "flower-ca"]
        assert all("persistentVolumeClaim" not in each for each in ours)


def test_a_users_mount_takes_the_place_of_ours() -> None:
    fields = {
        "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "hf"}}],
        "volumeMounts": [{"name": "cache", "mountPath": "/app/.cache"}],
    }
    mounts = container(supernode_pod(pool=fields), "supernode")["volumeMounts"]
    assert [each["name"] for each in mounts if each["mountPath"] == "/app/.cache"] == ["cache"]


def test_claims_make_the_superlink_a_statefulset() -> None:
    claim = {"metadata": {"name": "state"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    fields = {
        "volumeClaimTemplates": [claim],
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    workload = find(plan(superlink=fields), "StatefulSet", "fed-superlink")
    (template,) = workload["spec"]["volumeClaimTemplates"]
    assert template["metadata"]["name"] == "state"
    assert workload["spec"]["replicas"] == 1
    assert "strategy" not in workload["spec"]


def test_a_daemonset_has_no_claims_and_says_so() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {}}
    rendered = plan("DaemonSet", pool={"volumeClaimTemplates": [claim]})
    assert (
        "volumeClaimTemplates" not in find(rendered, "DaemonSet", "fed-supernode-default")["spec"]
    )
    assert "a DaemonSet has no claims of its own" in rendered.notices[0]


def test_only_one_superlink_ever_runs() -> None:
    spec = find(plan(), "Deployment", "fed-superlink")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_a_statefulset_names_no_service_that_is_not_there() -> None:
    spec = find(plan(), "StatefulSet", "fed-supernode-default")["spec"]
    assert "serviceName" not in spec
    assert spec["podManagementPolicy"] == "Parallel"


def test_pods_run_as_flowers_own_user_without_privilege() -> None:
    for workload in plan(isolation="process").objects[1:]:
        spec = workload["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 49999
        assert spec["automountServiceAccountToken"] is False
        for each in spec["containers"]:
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            folders = {mount["mountPath"] for mount in each["volumeMounts"]}
            assert folders == {"/app/.flwr", "/app/.cache", "/app/.config", "/tmp", "/var/tmp"}


def test_ready_means_that_the_fleet_api_answers() -> None:
    old = container(pod(plan(), "Deployment", "fed-superlink"), "superlink")
    assert old["readinessProbe"]["tcpSocket"] == {"port": 9092}
    new = plan(version="1.41.0", insecure=False)
    probe = container(pod(new, "Deployment", "fed-superlink"), "superlink")["readinessProbe"]
    assert probe["httpGet"] == {"path": "/health", "port": 8000, "scheme": "HTTPS"}


def supernode_tls(**fields: Any) -> tuple[bool, bool]:
    """Whether a SuperNode's own API has TLS, and whether its SuperExec demands that."""
    node = pod(
        plan(isolation="process", insecure=False, **fields), "StatefulSet", "fed-supernode-default"
    )
    serves = any(text.endswith("ssl-certfile") for text in container(node, "supernode")["args"])
    asks = "--insecure" not in container(node, "superexec-clientapp")["args"]
    mounted = "flower-supernode-tls" in names_of(node["volumes"])
    assert serves == mounted
    return serves, asks


def test_a_supernodes_own_api_has_tls_where_both_sides_can() -> None:
    assert supernode_tls(version="1.29.0") == (False, False)
    assert supernode_tls(version="1.30.0") == supernode_tls(version="1.41.0") == (True, True)
    # With a certificate from elsewhere there is no CA to sign another.
    for tls in ({"secretName": "mine"}, {"issuerRef": {"name": "house-ca"}}):
        assert supernode_tls(version="1.41.0", tls=tls) == (False, False)


def test_of_a_secret_of_ones_own_only_the_certificate_is_mounted() -> None:
    superlink = pod(plan(insecure=False, tls={"secretName": "mine"}), "Deployment", "fed-superlink")
    (volume,) = (each for each in superlink["volumes"] if each["name"] == "flower-tls")
    assert volume["secret"] == {
        "secretName": "mine",
        "items": [{"key": key, "path": key} for key in ("ca.crt", "tls.crt", "tls.key")],
    }


def test_who_uses_node_ports_is_told_to_name_the_nodes() -> None:
    def told(**tls: Any) -> bool:
        link = {"service": {"type": "NodePort"}}
        parsed = parse(document(superlink=link, insecure=False, tls=tls))
        return bool(name_notices(parsed))

    assert told()
    assert not told(subjectAltNames=["192.0.2.7"])
    assert not told(secretName="mine")
    assert name_notices(parse(document(superlink={"service": {"type": "NodePort"}}))) == []


def test_every_container_has_its_probes() -> None:
    for workload in plan(isolation="process").objects[1:]:
        for each in workload["spec"]["template"]["spec"]["containers"]:
            address = value_of(each["args"], "--health-server-address")
            for probe in ("startupProbe", "livenessProbe"):
                assert address == f"0.0.0.0:{each[probe]['grpc']['port']}"


def test_the_pod_template_is_merged_by_name() -> None:
    template = {
        "metadata": {"labels": {"team": "a", "flower.flwr.ai/pool": "stolen"}},
        "spec": {
            "nodeSelector": {"gpu": "yes"},
            "tolerations": [{"operator": "Exists"}],
            "securityContext": {"runAsUser": 1000},
            "volumes": [{"name": "flower-scratch", "emptyDir": {"sizeLimit": "1Gi"}}],
            "containers": [
                {"name": "supernode", "imagePullPolicy": "Always"},
                {"name": "helper", "image": "busybox"},
            ],
        },
    }
    workload = find(plan(pool={"podTemplate": template}), "StatefulSet", "fed-supernode-default")[
        "spec"
    ]["template"]
    labels = workload["metadata"]["labels"]
    assert (labels["team"], labels["flower.flwr.ai/pool"]) == ("a", "default")
    spec = workload["spec"]
    assert spec["nodeSelector"] == {"gpu": "yes"}
    assert spec["securityContext"]["runAsUser"] == 1000
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["volumes"] == [{"name": "flower-scratch", "emptyDir": {"sizeLimit": "1Gi"}}]
    assert names_of(spec["containers"]) == ["supernode", "helper"]
    supernode = container(spec, "supernode")
    assert supernode["imagePullPolicy"] == "Always"
    assert supernode["image"] == "flwr/supernode:1.25.0"


def test_a_container_without_an_image_is_named() -> None:
    template = {"spec": {"containers": [{"name": "supernod"}]}}
    (said,) = render_problems(pool={"podTemplate": template})
    assert said == (
        "spec.supernodes.pools[0].podTemplate: container supernod has no image; to change one of "
        "the operator's containers, use its name: supernode"
    )


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"initContainers": [{"name": "supernode", "image": "i"}]},
            "two containers are named supernode; rename one",
        ),
        (
            {"volumes": [{"name": "data", "emptyDir": {}}]},
            "volume data has the name of a claim; rename one of them",
        ),
    ],
)
def test_names_that_clash_in_a_merged_template_are_named(spec: Document, said: str) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    pool = {"podTemplate": {"spec": spec}, "volumeClaimTemplates": claims}
    assert render_problems(pool=pool) == [f"spec.supernodes.pools[0].podTemplate: {said}"]


def test_a_mount_of_nothing_is_named() -> None:
    (said,) = render_problems(superlink={"volumeMounts": [{"name": "db", "mountPath": "/db"}]})
    assert said == (
        "spec.superlink: container superlink mounts db, which is no volume; add it to volumes or "
        "volumeClaimTemplates"
    )


def test_rendering_leaves_its_input_alone() -> None:
    federation = parse(document(isolation="process", pool={"gpu": {"enabled": True}}))
    before = federation.model_dump_json()
    first = json.dumps(render(federation, Facts()).objects)
    assert json.dumps(render(federation, Facts()).objects) == first
    assert federation.model_dump_json() == before


@pytest.mark.parametrize(
    ("mode", "own", "field"),
    [
        ("StatefulSet", "FLOWER_INDEX", "metadata.labels['apps.kubernetes.io/pod-index']"),
        ("DaemonSet", "FLOWER_NODE_NAME", "spec.nodeName"),
    ],
)
def test_a_supernode_sees_its_own_key_and_no_other(mode: str, own: str, field: str) -> None:
    secure = plan(mode, "process", insecure=False, supernodeAuth={"enabled": True})
    spec = pod(secure, mode, "fed-supernode-default")
    node, executor = container(spec, "supernode"), container(spec, "superexec-clientapp")
    (mount,) = (each for each in node["volumeMounts"] if each["name"] == "flower-keys")
    assert mount["subPathExpr"] == f"$({own})"
    assert {"name": own, "valueFrom": {"fieldRef": {"fieldPath": field}}} in node["env"]
    assert value_of(node["args"], "--auth-supernode-private-key") == mount["mountPath"]
    assert "flower-keys" not in [each["name"] for each in executor["volumeMounts"]]
    link = container(pod(secure, "Deployment", "fed-superlink"), "superlink")
    assert "--enable-supernode-auth" in link["args"]
    assert "flower-keys" not in [each["name"] for each in link["volumeMounts"]]


def test_pods_with_keys_are_held_back_where_someone_lets_them_go() -> None:
    authenticated = document(
        "StatefulSet", "process", insecure=False, supernodeAuth={"enabled": True}
    )
    rounds = (("default", "2026-01-01T00:00:00+00:00"),)
    facts = Facts(identities=Identities("certificate", "authority", keys=rounds))
    template = find(render(parse(authenticated), facts), "StatefulSet", "fed-supernode-default")[
        "spec"
    ]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": "flower.flwr.ai/key"}]
    assert template["metadata"]["annotations"]["flower.flwr.ai/keys"] == rounds[0][1]
    alone = find(render(parse(authenticated), Facts()), "StatefulSet", "fed-supernode-default")
    assert "schedulingGates" not in alone["spec"]["template"]["spec"]


def test_more_keys_than_fit_into_a_secret_are_refused() -> None:
    many = document(
        "StatefulSet",
        "process",
        insecure=False,
        supernodeAuth={"enabled": True},
        pool={"replicas": 1001},
    )
    with pytest.raises(InvalidFederation) as refusal:
        render(parse(many), Facts())
    (problem,) = refusal.value.problems
    assert problem.path == "spec.supernodes.pools[0].replicas"
    assert "1000 is the most" in problem.message
