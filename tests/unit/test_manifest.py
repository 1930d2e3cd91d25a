"""What a user is told about a broken manifest: the field, the fault, the remedy."""

from datetime import timedelta
from typing import Any

import pytest

from flower_operator.api.manifest import is_federation, parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.api.types import Rotation
from tests.unit.federations import document


def problems(manifest: Any) -> list[str]:
    with pytest.raises(InvalidFederation) as caught:
        parse(manifest)
    return [str(problem) for problem in caught.value.problems]


def test_defaults_are_those_of_the_api() -> None:
    federation = parse(document())
    service = federation.spec.superlink.service
    assert federation.spec.insecure is True
    assert service.type == "ClusterIP"
    assert (service.ports.grpc, service.ports.server_app_io, service.ports.extra) == (
        9092,
        9091,
        9093,
    )
    gpu = federation.spec.supernodes.pools[0].gpu
    assert (gpu.enabled, gpu.count, gpu.mount_all) == (False, 1, False)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (
            document(superlink={"imag": "x"}),
            "spec.superlink.imag: is not a field; did you mean image?",
        ),
        (document(superlink={"image": ""}), "spec.superlink.image: must not be empty"),
        (
            document(superlink={"image": None}),
            "spec.superlink.image: spec.superlink.image is required unless spec.superlink.external "
            "is set",
        ),
        (
            document(mode="Deployment"),
            "spec.mode: must be 'DaemonSet' or 'StatefulSet', not 'Deployment'",
        ),
        (
            document(pool={"replicas": "2"}),
            "spec.supernodes.pools[0].replicas: must be an integer, not '2'",
        ),
        (
            document(pool={"replicas": 0}),
            "spec.supernodes.pools[0].replicas: must be 1 or more, not 0",
        ),
        (
            document(pool={"nodeConfig": {"partition-id": 3}}),
            "spec.supernodes.pools[0].nodeConfig.partition-id: must be a string, not 3; "
            'write it in quotes: "3"',
        ),
        (
            document(pool={"nodeConfig": {"shuffle": True}}),
            "spec.supernodes.pools[0].nodeConfig.shuffle: must be a string, not true; "
            'write it in quotes: "true"',
        ),
        (
            document(superlink={"podTemplate": {"spec": {"nodeSelectr": {}}}}),
            "spec.superlink.podTemplate.spec.nodeSelectr: is not a field; "
            "did you mean nodeSelector?",
        ),
        (
            document(superlink={"resources": {"limits": {"cpu": 1.5}}}),
            "spec.superlink.resources.limits.cpu: must be a quantity such as 2, 500m or 1Gi",
        ),
        (
            document(superlink={"env": [{"name": "A"}, {"name": "A"}]}),
            "spec.superlink.env: two entries have the same name: A",
        ),
        (
            document(pools=[{"name": "a"}, {"name": "a"}]),
            "spec.supernodes.pools: two entries have the same name: a",
        ),
        (
            document(pools=[]),
            "spec.supernodes.pools: spec.supernodes.pools must contain at least one pool",
        ),
        (
            document("DaemonSet", pool={"replicas": 1}),
            "spec.supernodes.pools[0].replicas: replicas must not be set for pools when mode is "
            "DaemonSet",
        ),
    ],
)
def test_a_fault_is_named_with_its_field_and_remedy(manifest: Any, said: str) -> None:
    assert problems(manifest) == [said]


def test_all_faults_are_told_at_once() -> None:
    manifest = document(superlink={"image": 1}, pool={"gpu": {"count": 0}}, version="")
    assert len(problems(manifest)) == 3


def test_a_null_is_a_field_left_out() -> None:
    federation = parse(document(pool={"images": None, "nodeConfig": {"a": None}}))
    assert federation.spec.supernodes.pools[0].node_config == {}


@pytest.mark.parametrize("name", ["1st", "Fed", "a.b", "-a", "a-", "a" * 54])
def test_a_name_that_no_service_can_have_is_refused(name: str) -> None:
    manifest = document()
    manifest["metadata"]["name"] = name
    assert all(said.startswith(("metadata.name", "spec.supernodes")) for said in problems(manifest))


def test_a_stateful_name_leaves_room_for_the_revision_hash() -> None:
    names = {"name": "p" * (52 - len("fed-supernode-"))}
    parse(document(pool=names))
    assert problems(document(pool={"name": names["name"] + "p"}))
    parse(document("DaemonSet", pool={"name": "p" * (63 - len("fed-supernode-"))}))


@pytest.mark.parametrize("manifest", [None, [], "text", 5, {}, {"kind": "Federation"}])
def test_anything_else_is_refused_not_crashed_on(manifest: Any) -> None:
    assert problems(manifest)


def test_a_federation_of_another_group_is_none_of_ours() -> None:
    assert is_federation({"apiVersion": "flwr.exalsius.ai/v2", "kind": "Federation"})
    assert is_federation({"kind": "Federation"})
    assert not is_federation({"apiVersion": "core.kubefed.io/v1", "kind": "Federation"})
    assert not is_federation({"apiVersion": "v1", "kind": "Service"})


def test_how_long_a_restart_may_wait_is_a_time() -> None:
    def longest(text: str) -> timedelta | None:
        return Rotation(max_wait=text).longest

    assert Rotation().longest is None
    assert longest("12h") == timedelta(hours=12)
    assert longest("1h30m5s") == timedelta(hours=1, minutes=30, seconds=5)
    assert longest(f"{'9' * 31}h") == timedelta(days=3650)
