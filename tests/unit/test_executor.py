"""SuperExecs with Flower's Kubernetes executor: tasks in pods of their own."""

from typing import Any

import pytest
import yaml

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.operator.actions import Action, Update, decide
from flower_operator.operator.desired import Identity, desired_of
from flower_operator.operator.tasks import left_over
from flower_operator.render import Facts, Plan, render
from flower_operator.status.observed import Pod
from flower_operator.status.outline import Outline, outline_of
from flower_operator.trust.names import supernode_names
from tests.unit.federations import Document, container, document, find, plan, pod, value_of
from tests.unit.observations import applied, federation, observe_all

KUBERNETES = {"executor": "kubernetes"}
SUPERLINK: dict[str, Any] = {"superlink": KUBERNETES}
POOL: dict[str, Any] = {"pool": KUBERNETES}


def launching(release: str = "1.41.0", *, superlink: Document | None = None, **fields: Any) -> Plan:
    """A Federation all of whose tasks are pods, with these fields laid over it."""
    fields["pool"] = {**KUBERNETES, **fields.get("pool", {})}
    superlink = {**KUBERNETES, **(superlink or {})}
    return plan(isolation="process", version=release, superlink=superlink, **fields)


def config_of(
    rendered: Plan, name: str = "fed-clientapp-default", file: str = "0.yaml"
) -> Document:
    config: Document = yaml.safe_load(find(rendered, "ConfigMap", name)["data"][file])
    return config


def superexec_of(rendered: Plan) -> Document:
    return container(pod(rendered, "StatefulSet", "fed-supernode-default"), "superexec-clientapp")


def problems(**fields: Any) -> list[tuple[str, str]]:
    fields.setdefault("isolation", "process")
    with pytest.raises(InvalidFederation) as caught:
        plan(**fields)
    return [(problem.reason, str(problem)) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {**SUPERLINK, "isolation": "subprocess"},
            "spec.superlink.executor: spec.superlink.executor may be kubernetes only when "
            "isolationMode=process",
        ),
        (
            {**POOL, "isolation": "subprocess"},
            "spec.supernodes.pools[0].executor: spec.supernodes.pools[*].executor may be "
            "kubernetes only when isolationMode=process",
        ),
        ({**POOL, "mode": "DaemonSet"}, "only when mode is StatefulSet"),
        (
            {**POOL, "insecure": False, "tls": {"secretName": "mine"}},
            "no CA could sign certificates for SuperNodes",
        ),
        (
            {"pool": {**KUBERNETES, "gpu": {"mountAll": True, "vendor": "amd"}}},
            "spec.supernodes.pools[0].gpu.mountAll: ",
        ),
        ({"superlink": {"executor": "docker"}}, "must be 'subprocess' or 'kubernetes'"),
    ],
)
def test_what_cannot_be_is_refused(fields: Document, said: str) -> None:
    ((reason, message),) = problems(version="1.41.0", **fields)
    assert reason == "InvalidSpec"
    assert said in message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {**POOL, "version": "1.31.0"},
            "spec.supernodes.pools[0].executor: Flower 1.31.0 cannot run tasks in pods of their "
            "own; use 1.32 or newer, or subprocess",
        ),
        (
            {**SUPERLINK, "version": "1.25.0"},
            "spec.superlink.executor: Flower 1.25.0 cannot run tasks in pods of their own; use "
            "1.32 or newer, or subprocess",
        ),
        (
            {**SUPERLINK, "version": "1.36.0", "insecure": False},
            "spec.superlink.executor: Flower 1.36.0 has no TLS between a SuperLink and its tasks' "
            "pods; use 1.37 or newer, or subprocess",
        ),
    ],
)
def test_a_release_that_cannot_do_it_is_named(fields: Document, message: str) -> None:
    assert problems(**fields) == [("ReleaseMismatch", message)]


def test_without_an_executor_nothing_changes() -> None:
    told = plan(isolation="process", superlink={"executor": "subprocess"}, version="1.41.0")
    assert told.objects == plan(isolation="process", version="1.41.0").objects


def test_the_objects_beside_the_usual_ones() -> None:
    assert [(each["kind"], each["metadata"]["name"]) for each in launching().objects] == [
        ("Service", "fed-superlink"),
        ("ConfigMap", "fed-serverapp"),
        ("ServiceAccount", "fed-serverapp"),
        ("ServiceAccount", "fed-superlink"),
        ("RoleBinding", "fed-superlink"),
        ("Deployment", "fed-superlink"),
        ("ConfigMap", "fed-clientapp-default"),
        ("ServiceAccount", "fed-clientapp-default"),
        ("ServiceAccount", "fed-supernode-default"),
        ("RoleBinding", "fed-supernode-default"),
        ("StatefulSet", "fed-supernode-default"),
    ]


@pytest.mark.parametrize(
    ("release", "listens"), [("1.32.0", "0.0.0.0:9094"), ("1.41.0", "0.0.0.0")]
)
def test_tasks_reach_what_they_work_for(release: str, listens: str) -> None:
    rendered = launching(release)
    node = pod(rendered, "StatefulSet", "fed-supernode-default")
    flag = "--appio-api-address" if release == "1.32.0" else "--runtime-api-address"
    assert value_of(superexec_of(rendered)["args"], flag) == "$(FLOWER_POD_IP):9094"
    own = {each["name"]: each.get("valueFrom") for each in superexec_of(rendered)["env"]}
    assert own["FLOWER_POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert listens in container(node, "supernode")["args"]

    link = container(pod(rendered, "Deployment", "fed-superlink"), "superexec-serverapp")
    assert value_of(link["args"], flag) == "fed-superlink.team.svc:9091"
    ports = find(rendered, "Service", "fed-superlink")["spec"]["ports"]
    assert 9091 in [each["port"] for each in ports]


def test_a_secure_superlink_serves_its_tasks_by_the_name_in_its_certificate() -> None:
    rendered = plan(isolation="process", version="1.41.0", insecure=False, **SUPERLINK)
    link = container(pod(rendered, "Deployment", "fed-superlink"), "superexec-serverapp")
    assert value_of(link["args"], "--runtime-api-address") == "fed-superlink.team.svc:9091"
    # The executor hands these on to tasks by itself.
    assert value_of(link["args"], "--root-certificates") == "/etc/flower/ca/ca.crt"
    assert "--insecure" not in link["args"]
    ports = find(rendered, "Service", "fed-superlink")["spec"]["ports"]
    assert "serverappio" in [each["name"] for each in ports]


def test_secure_supernodes_serve_their_tasks_by_a_name_in_their_certificate() -> None:
    rendered = plan(isolation="process", version="1.41.0", insecure=False, **POOL)
    superexec = superexec_of(rendered)
    name = "$(FLOWER_POD_NAME).fed-supernodes.team.svc"
    assert value_of(superexec["args"], "--runtime-api-address") == f"{name}:9094"
    assert value_of(superexec["args"], "--root-certificates") == "/etc/flower/ca/ca.crt"
    assert "*.fed-supernodes.team.svc" in supernode_names("fed", "team")
    service = find(rendered, "Service", "fed-supernodes")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    workload = find(rendered, "StatefulSet", "fed-supernode-default")["spec"]
    assert workload["serviceName"] == "fed-supernodes"
    assert service["selector"].items() <= workload["template"]["metadata"]["labels"].items()
    node = container(workload["template"]["spec"], "supernode")
    assert "0.0.0.0" in node["args"]
    assert "--ssl-certfile" in node["args"]


def test_only_the_superexec_has_the_token() -> None:
    rendered = launching()
    for kind, name in [("Deployment", "fed-superlink"), ("StatefulSet", "fed-supernode-default")]:
        spec = pod(rendered, kind, name)
        assert spec["automountServiceAccountToken"] is False
        assert spec["serviceAccountName"] == name
        owner, superexec = spec["containers"]
        assert "flower-token" not in [each["name"] for each in owner["volumeMounts"]]
        (token,) = (each for each in superexec["volumeMounts"] if each["name"] == "flower-token")
        assert token["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert all(
        each["automountServiceAccountToken"] is False
        for each in rendered.objects
        if each["kind"] == "ServiceAccount"
    )


def test_no_two_superexecs_share_the_labels_that_they_sweep_by() -> None:
    rendered = launching(pool={"replicas": 3})
    files = [("fed-serverapp", "executor.yaml")]
    files += [("fed-clientapp-default", f"{index}.yaml") for index in range(3)]
    labels = [config_of(rendered, *file)["labels"] for file in files]
    for one in labels:
        assert one["app.kubernetes.io/managed-by"] == "flower-operator"
        assert one["flower.flwr.ai/federation"] == "fed"
        # A selector of one's own labels finds nobody else's pods.
        assert [other for other in labels if one.items() <= other.items()] == [one]
    mount = next(
        each for each in superexec_of(rendered)["volumeMounts"] if each["name"] == "flower-executor"
    )
    assert mount["subPathExpr"] == "$(FLOWER_INDEX).yaml"


def test_tasks_are_like_the_superexec_that_starts_them() -> None:
    spec: Document = {
        "nodeSelector": {"gpu": "yes"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "low",
        "imagePullSecrets": [{"name": "registry"}],
        "containers": [{"name": "superexec-clientapp", "imagePullPolicy": "Always"}],
    }
    rendered = launching(
        pool={
            "superexecResources": {"limits": {"memory": "1Gi"}},
            "gpu": {"enabled": True, "vendor": "nvidia"},
            "env": [{"name": "A", "value": "b"}],
            "podTemplate": {"metadata": {"annotations": {"mesh": "off"}}, "spec": spec},
        }
    )
    config = config_of(rendered)
    assert config["namespace"] == "team"
    assert config["image"] == "flwr/superexec:1.25.0"
    assert config["image-pull-policy"] == "Always"
    assert config["annotations"] == {"mesh": "off"}
    assert {"name": "A", "value": "b"} in config["env"]
    assert config["resources"]["limits"] == {"memory": "1Gi", "nvidia.com/gpu": "1"}
    assert config["node-selector"] == {"gpu": "yes"}
    assert config["tolerations"] == [{"operator": "Exists"}]
    assert config["affinity"] == {"nodeAffinity": {}}
    assert config["priority-class-name"] == "low"
    assert config["pod-security-context"]["runAsNonRoot"] is True
    assert config["container-security-context"]["capabilities"] == {"drop": ["ALL"]}
    # Pull secrets come with the account; the resources are not needed twice.
    account = find(rendered, "ServiceAccount", config["service-account-name"])
    assert account["imagePullSecrets"] == [{"name": "registry"}]
    assert "resources" not in superexec_of(rendered)


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
@pytest.mark.parametrize(
    ("part", "fields"),
    [("spec.superlink", "superlink"), ("spec.supernodes.pools[0]", "pool")],
)
def test_the_role_is_bound_to_no_account_that_a_user_names(
    field: str, part: str, fields: str
) -> None:
    template = {"podTemplate": {"spec": {field: "mine"}}}
    ((reason, message),) = problems(version="1.41.0", **{fields: KUBERNETES | template})
    assert reason == "InvalidSpec"
    assert message.startswith(f"{part}.podTemplate.spec.{field}: ")
    # Without the executor there is no role, and the account is the user's affair.
    assert plan(**{fields: template})


DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
SECRET = {"name": "key", "secret": {"secretName": "key"}}
MOUNTS = [{"name": "data", "mountPath": "/data"}, {"name": "key", "mountPath": "/key"}]


def test_mounts_reach_tasks_as_far_as_flower_allows() -> None:
    rendered = launching(pool={"volumes": [DATA, SECRET], "volumeMounts": MOUNTS})
    config = config_of(rendered)
    assert [each["name"] for each in config["volumes"]] == ["flower-scratch", "data"]
    paths = [each["mountPath"] for each in config["volume-mounts"]]
    assert {"/app/.flwr", "/tmp", "/data"} <= set(paths)
    assert not {"/key", "/etc/flower/executor/executor.yaml"} & set(paths)
    told = (
        "spec.supernodes.pools[0].volumeMounts: /key is not to be had in tasks' pods: Flower "
        "mounts no secrets there"
    )
    assert told in rendered.notices


@pytest.mark.parametrize(
    ("release", "pool", "said"),
    [
        ("1.41.0", {"volumes": [DATA, SECRET]}, "/key is not to be had in tasks' pods"),
        ("1.32.0", {"volumes": [DATA, SECRET]}, "Flower mounts no volumes there before 1.33"),
        (
            "1.41.0",
            {
                "volumes": [SECRET],
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
            },
            "it is a claim of one pod's own",
        ),
    ],
)
def test_what_a_task_was_promised_and_cannot_have_is_refused(
    release: str, pool: Document, said: str
) -> None:
    asked = {**KUBERNETES, **pool, "superexecVolumeMounts": MOUNTS}
    found = problems(version=release, pool=asked)
    assert all(
        text.startswith("spec.supernodes.pools[0].superexecVolumeMounts") for _, text in found
    )
    assert any(said in text for _, text in found)


def test_a_release_without_volumes_is_told_of_none() -> None:
    assert not {"volumes", "volume-mounts"} & config_of(launching("1.32.0")).keys()
    assert {"volumes", "volume-mounts"} <= config_of(launching("1.33.0")).keys()


def test_what_does_not_reach_tasks_is_told() -> None:
    env = [
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
        {"name": "EXA_API_KEY", "value": "x"},
        {"name": "with.dot", "value": "x"},
        {"name": "EMPTY"},
    ]
    template = {"spec": {"runtimeClassName": "nvidia", "nodeSelector": {}}}
    rendered = launching(superlink={"env": env, "podTemplate": template})
    passed = config_of(rendered, "fed-serverapp", "executor.yaml")["env"]
    assert [each["name"] for each in passed][3:] == ["EMPTY"]
    told = [notice for notice in rendered.notices if "tasks" in notice]
    assert [notice.partition(" ")[0] for notice in told] == [
        *["spec.superlink.env:"] * 3,
        "spec.superlink.podTemplate.spec.runtimeClassName:",
    ]


def test_superexecs_restart_with_their_config_and_not_for_more_replicas() -> None:
    def annotation(**fields: Any) -> str:
        workload = find(launching(pool=fields), "StatefulSet", "fed-supernode-default")
        found: str = workload["spec"]["template"]["metadata"]["annotations"][
            "flower.flwr.ai/executor-config"
        ]
        return found

    assert annotation() == annotation(replicas=7)
    assert annotation() != annotation(superexecResources={"limits": {"cpu": 1}})


def test_more_replicas_than_a_config_map_holds_are_refused() -> None:
    ((_, said),) = problems(version="1.41.0", pool={**KUBERNETES, "replicas": 5000})
    assert said.startswith(
        "spec.supernodes.pools[0].executor: kubernetes is not to be had for 5000"
    )


# What is cleared away.


def outline(**fields: Any) -> Outline:
    manifest = document(isolation="process", version="1.41.0", **fields)
    parsed = parse(manifest)
    return outline_of(parsed, render(parsed, Facts()), Facts())


def task(component: str = "clientapp", index: int = 0, **fields: Any) -> Pod:
    usual: Document = {"namespace": "team", "federation": "fed", "name": "flwr-taskexecutor-1-a"}
    usual |= {"component": component, "pool": "default", "index": str(index), **fields}
    return Pod(ended=False, troubles=(), **usual)


@pytest.mark.parametrize(
    ("fields", "stays"),
    [
        ({**SUPERLINK, **POOL}, ["serverapp", "clientapp 0", "clientapp 1"]),
        (SUPERLINK, ["serverapp"]),
        (POOL, ["clientapp 0", "clientapp 1"]),
        ({"pool": {**KUBERNETES, "replicas": 1}}, ["clientapp 0"]),
        ({"pool": {**KUBERNETES, "name": "other"}}, []),
        ({**POOL, "suspend": True}, []),
    ],
)
def test_tasks_without_a_superexec_are_cleared_away(fields: Document, stays: list[str]) -> None:
    tasks = {
        "serverapp": task("serverapp"),
        "clientapp 0": task(index=0),
        "clientapp 1": task(index=1),
    }
    gone = left_over(tasks.values(), outline(**fields))
    assert [name for name, each in tasks.items() if each not in gone] == stays


def test_with_their_federation_all_tasks_go_and_nothing_else() -> None:
    tasks = [task("serverapp"), task()]
    others = [task("superlink"), task("supernode"), task(name="somebody-elses")]
    assert left_over([*tasks, *others], None) == tasks


# What others do to the objects.


def actions(identity: Identity, **change: Any) -> list[Action]:
    manifest = document(isolation="process", version="1.41.0", **SUPERLINK)
    there = applied(manifest)
    there[identity] |= change
    return decide(desired_of(federation(manifest))[0].children, observe_all(there.values()))


def test_one_subject_more_is_taken_away_again() -> None:
    identity = ("RoleBinding", "fed-superlink")
    assert actions(identity) == []
    stranger = {"kind": "ServiceAccount", "name": "stranger", "namespace": "team"}
    binding = find(launching(), *identity)
    (action,) = actions(identity, subjects=[*binding["subjects"], stranger])
    assert isinstance(action, Update)
    assert action.wanted.identity == identity


def test_what_a_cloud_adds_to_an_account_stays() -> None:
    identity = ("ServiceAccount", "fed-serverapp")
    assert actions(identity, imagePullSecrets=[{"name": "of-the-cloud"}]) == []
    (action,) = actions(identity, automountServiceAccountToken=True)
    assert isinstance(action, Update)
