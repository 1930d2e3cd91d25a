"""What a SuperLink has to know after a restart, on a claim of its own."""

from typing import Any

import pytest

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.render import Facts, render
from flower_operator.status.outline import outline_of
from tests.unit.federations import Document, container, document, find, plan, pod, value_of
from tests.unit.test_local import local
from tests.unit.test_render import render_problems

LOSES = "spec.superlink.persistence: not set, so a restart of the SuperLink loses its runs"


def persistent(superlink: Document | None = None, **fields: Any) -> Document:
    """The fields of a Federation whose SuperLink has a claim."""
    return {"superlink": {"persistence": {"size": "1Gi"}, **(superlink or {})}, **fields}


def test_the_superlink_is_a_statefulset_with_a_claim_for_its_state() -> None:
    rendered = plan(**persistent())
    workload = find(rendered, "StatefulSet", "fed-superlink")
    (claim,) = workload["spec"]["volumeClaimTemplates"]
    assert claim["metadata"] == {"name": "state"}
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    found = container(workload["spec"]["template"]["spec"], "superlink")
    assert {"name": "state", "mountPath": "/var/lib/flower"} in found["volumeMounts"]
    federation = parse(document(**persistent()))
    assert outline_of(federation, rendered, Facts()).superlink_kind == "StatefulSet"


def test_the_claim_is_as_it_is_asked_for() -> None:
    wanted = {"size": 1000, "storageClassName": "fast", "accessModes": ["ReadWriteOncePod"]}
    own = {"metadata": {"name": "data"}, "spec": {}}
    superlink = {"persistence": wanted, "volumeClaimTemplates": [own]}
    workload = find(plan(superlink=superlink), "StatefulSet", "fed-superlink")
    first, second = workload["spec"]["volumeClaimTemplates"]
    assert first["metadata"]["name"] == "data"
    assert second["spec"] == {
        "accessModes": ["ReadWriteOncePod"],
        "resources": {"requests": {"storage": 1000}},
        "storageClassName": "fast",
    }


@pytest.mark.parametrize(("release", "apps"), [("1.28.0", True), ("1.29.0", False)])
def test_all_of_the_state_is_on_the_claim(release: str, apps: bool) -> None:
    found = pod(plan(version=release, **persistent()), "StatefulSet", "fed-superlink")
    arguments = container(found, "superlink")["args"]
    assert value_of(arguments, "--database") == "/var/lib/flower/superlink.db"
    assert ("--storage-dir" in arguments) == apps
    if apps:
        assert value_of(arguments, "--storage-dir") == "/var/lib/flower/apps"


@pytest.mark.parametrize(
    ("superlink", "said"),
    [
        ({"extraArgs": ["--database", "/x"]}, "extraArgs: --database is set by persistence"),
        ({"extraArgs": ["--database=/x"]}, "extraArgs: --database is set by persistence"),
        ({"extraArgs": ["--storage-dir", "/x"]}, "extraArgs: --storage-dir is set by persistence"),
        (
            {"volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": {}}]},
            "volumeClaimTemplates: spec.superlink.volumes and volumeClaimTemplates must not hold",
        ),
        (
            {"volumes": [{"name": "state", "emptyDir": {}}]},
            "volumes: spec.superlink.volumes and volumeClaimTemplates must not hold 'state' when",
        ),
        (
            {"podTemplate": {"spec": {"volumes": [{"name": "state", "emptyDir": {}}]}}},
            "podTemplate: volume state has the name of a claim; rename one of them",
        ),
        (
            {
                "volumes": [{"name": "mine", "emptyDir": {}}],
                "volumeMounts": [{"name": "mine", "mountPath": "/var/lib/flower"}],
            },
            "volumeMounts: mine is mounted at /var/lib/flower, where persistence has its claim",
        ),
    ],
)
def test_what_is_in_its_place_is_named(superlink: Document, said: str) -> None:
    (found,) = render_problems(**persistent(superlink))
    assert found.startswith(f"spec.superlink.{said}")


def test_without_it_the_loss_is_told() -> None:
    assert LOSES in notices()
    assert LOSES not in notices(**persistent())
    for arguments in (["--database", "/x"], ["--database=/x"]):
        assert LOSES not in notices(superlink={"extraArgs": arguments})
    assert plan().notices == (), "nobody has to act on it beforehand"


def notices(**fields: Any) -> tuple[str, ...]:
    federation, facts = parse(document(**fields)), Facts()
    return outline_of(federation, render(federation, facts), facts).notices


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], 2),
        ([{"key": "gpu", "operator": "Exists"}], 2),
        ([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}], 1),
        ([{"operator": "Exists"}], 0),
    ],
)
def test_its_pod_leaves_a_node_that_is_gone_unless_told_otherwise(
    own: list[Document], added: int
) -> None:
    template = {"spec": {"tolerations": own}}
    found = pod(plan(**persistent({"podTemplate": template})), "StatefulSet", "fed-superlink")
    assert found["tolerations"][: len(own)] == own
    assert [each["tolerationSeconds"] for each in found["tolerations"][len(own) :]] == [30] * added


def test_on_this_machine_the_claim_is_a_folder() -> None:
    found = local(**persistent())["superlink/superlink"]
    folder = "/state/fed/volumes/superlink/state"
    assert value_of(found.command, "--database") == f"{folder}/superlink.db"
    assert value_of(found.command, "--storage-dir") == f"{folder}/apps"
    assert folder in found.folders


def test_policies_are_nothing_to_run_on_this_machine() -> None:
    assert len(local(networkPolicy={"enabled": True})) == 3


def test_a_long_name_leaves_no_room_for_a_statefulset() -> None:
    manifest = document(**persistent())
    manifest["metadata"]["name"] = "f" * 43
    with pytest.raises(InvalidFederation) as caught:
        parse(manifest)
    assert "52 with persistence or volumeClaimTemplates" in str(caught.value)


@pytest.mark.parametrize(
    ("persistence", "said"),
    [
        ({}, "size: is required"),
        ({"size": "lots"}, "size: must be a quantity such as"),
        ({"size": "1Gi", "accessModes": []}, "accessModes: must not be empty"),
        ({"size": "1Gi", "accessModes": ["ReadOnlyMany"]}, "accessModes[0]: must be"),
    ],
)
def test_a_wrong_claim_is_refused(persistence: Document, said: str) -> None:
    with pytest.raises(InvalidFederation) as caught:
        parse(document(superlink={"persistence": persistence}))
    assert f"spec.superlink.persistence.{said}" in str(caught.value)


def test_openshift_gives_pods_their_users() -> None:
    rendered = render(parse(document(**persistent())), Facts(openshift=True))
    for each in rendered.objects[1:]:
        context = each["spec"]["template"]["spec"]["securityContext"]
        assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
