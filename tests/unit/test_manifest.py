"""What a user is told about a broken manifest: the field, the fault, the remedy."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from flower_operator.api.crd import federation_schema
from flower_operator.api.kubernetes import QUANTITY, SHARE
from flower_operator.api.manifest import is_federation, parse
from flower_operator.api.patterns import MEANINGS
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
        (
            document(superlink={"service": {"ports": {"grpc": 9093}}}),
            "spec.superlink.service.ports.extra: spec.superlink.service.ports.grpc and extra must "
            "not be the same port: each leads to another API",
        ),
        (
            document(isolation="process", superlink={"service": {"ports": {"grpc": 9091}}}),
            "spec.superlink.service.ports.serverAppIO: spec.superlink.service.ports.serverAppIO "
            "must not be the port of grpc or extra when isolationMode=process: each leads to "
            "another API",
        ),
        (
            document(
                superlink={
                    "service": {"type": "NodePort", "nodePorts": {"grpc": 30000, "extra": 30000}}
                }
            ),
            "spec.superlink.service.nodePorts: spec.superlink.service.nodePorts must be different "
            "ports",
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


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (
            "apiVersion",
            "flwr.example/v1",
            "apiVersion: must be 'flwr.exalsius.ai/v1', not 'flwr.example/v1'",
        ),
        (
            "apiVersion",
            "flwr.exalsius.ai/v2",
            "apiVersion: must be 'flwr.exalsius.ai/v1', not 'flwr.exalsius.ai/v2'",
        ),
        ("apiVersion", None, "apiVersion: is required"),
        ("kind", "federation", "kind: must be 'Federation', not 'federation'"),
        ("kind", "Federations", "kind: must be 'Federation', not 'Federations'"),
        ("kind", None, "kind: is required"),
        ("metadata", None, "metadata.name: is required"),
        ("metadata", {}, "metadata.name: is required"),
    ],
)
def test_what_is_nearly_a_federation_says_what_it_lacks(field: str, value: Any, said: str) -> None:
    manifest = document() | {field: value}
    assert is_federation(manifest)
    assert problems(manifest) == [said]


def test_objects_of_other_kinds_are_no_federations() -> None:
    assert not is_federation({"apiVersion": "v1", "kind": "Service"})
    assert not is_federation({"metadata": {"name": "x"}})
    assert not is_federation("Federation")


DIGEST = "sha256:" + "0123456789abcdef" * 4
# As judged by the parser of the distribution project (v0.6.0), which the kubelet uses.
IMAGES = (
    "a",
    "flwr/superlink:1.25.0",
    "my-app/client:latest",
    "localhost:5000/flwr/superlink:1.25.0",
    "Registry.example.com:443/a/b/c",
    "UPPER/path",
    "[2001:db8::1]:5000/repo:tag",
    "my_org/a__b.c---d/e",
    "a.b/c",
    f"flwr/superlink@{DIGEST}",
    f"flwr/superlink:1.41.0-py3.13-ubuntu24.04@{DIGEST}",
    "a/b:" + "_" + "x" * 127,
    "a/b:TAG.with-all_of.it",
    "a@sha512:" + "abcdef01" * 16,
)
NO_IMAGES = (
    "flwr/superlink:1.41.0:foo bar",
    "flwr/superlink:1.41.0:foo",
    "flwr/superlink:1.41.0 ",
    " a",
    "a\n",
    "a b",
    "https://registry.example.com/a",
    "flwr/SuperLink",
    "Superlink",
    "a//b",
    "/a",
    "a/",
    "a:",
    "a@",
    "a@sha256:abc",
    "a:-tag",
    "a:" + "x" * 129,
    "a_-b",
    "a..b",
    "-a",
    "a:ä",
    "ä",
    "$(IMAGE)",
    "a.b:c/d",
)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_that_a_runtime_can_pull_is_valid(image: str) -> None:
    parse(document(superlink={"image": image}, pool={"images": {"supernode": image}}))


@pytest.mark.parametrize("image", NO_IMAGES)
def test_an_image_that_no_runtime_can_pull_is_refused(image: str) -> None:
    wrong = {
        "spec.superlink.image": document(superlink={"image": image}),
        "spec.supernodes.image": document(supernodes={"image": image}),
        "spec.superlink.superexecImage": document(
            isolation="process", superlink={"superexecImage": image}
        ),
        "spec.supernodes.pools[0].images.supernode": document(
            pool={"images": {"supernode": image}}
        ),
        "spec.supernodes.pools[0].images.superexecClientApp": document(
            isolation="process", pool={"images": {"superexecClientApp": image}}
        ),
    }
    for path, manifest in wrong.items():
        (said,) = problems(manifest)
        assert said.startswith(
            f"{path}: must be an image such as flwr/superlink:1.42.0, as in "
            "[HOST[:PORT]/]PATH[:TAG][@DIGEST], not "
        )


def test_every_pattern_is_told_in_words() -> None:
    def patterns(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str):
                yield node["pattern"]
            node = list(node.values())
        if isinstance(node, list):
            for child in node:
                yield from patterns(child)

    assert set(patterns(federation_schema())) - {QUANTITY, SHARE} == set(MEANINGS)
    manifest = document(tls={"rotation": {"maxWait": "12 hours"}})
    assert problems(manifest) == [
        "spec.tls.rotation.maxWait: must be a duration such as 12h or 1h30m, not '12 hours'"
    ]


def test_how_long_a_restart_may_wait_is_a_time() -> None:
    def longest(text: str) -> timedelta | None:
        return Rotation(max_wait=text).longest

    assert Rotation().longest is None
    assert longest("12h") == timedelta(hours=12)
    assert longest("1h30m5s") == timedelta(hours=1, minutes=30, seconds=5)
    assert longest(f"{'9' * 31}h") == timedelta(days=3650)
