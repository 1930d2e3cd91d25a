"""What a Federation on a cluster should be made of."""

import json
from pathlib import Path
from typing import Any

import pytest

from flower_operator.api.documents import read_documents
from flower_operator.api.problems import InvalidFederation
from flower_operator.kube.applied import digest
from flower_operator.operator.desired import (
    CHILDREN,
    FEDERATION,
    WORKLOADS,
    Identity,
    desired_of,
    version_of,
)
from flower_operator.render.facts import Facts, Identities, Numbers
from flower_operator.render.metadata import RESTARTED_AT
from scripts.manifests import EXAMPLES, small_federation
from tests.unit.federations import Document, document
from tests.unit.observations import NAMESPACE, UID, federation

EXAMPLE_FILES = sorted(EXAMPLES.glob("*.yaml"))
SERVICE: Identity = ("Service", "fed-superlink")
SUPERLINK: Identity = ("Deployment", "fed-superlink")
POOL: Identity = ("StatefulSet", "fed-supernode-default")
RESTARTED = {RESTARTED_AT: "2026-11-15T12:00:00Z"}
NOTED = {"note": "look here"}
PARTITIONED: list[Document] = [
    {"name": "default"},
    {"name": "second", "nodeConfig": {"partition-id": "{partition}"}},
]


def digests(manifest: Document, annotations: dict[str, str] | None = None) -> dict[Identity, str]:
    desired, _ = desired_of(federation(manifest, annotations=annotations))
    return {each.identity: each.digest for each in desired.children}


def reasons(manifest: Document) -> list[str]:
    with pytest.raises(InvalidFederation) as caught:
        desired_of(federation(manifest))
    return [problem.reason for problem in caught.value.problems]


@pytest.mark.parametrize("path", EXAMPLE_FILES, ids=lambda path: path.stem)
def test_every_example_has_a_superlink_and_its_pools(path: Path) -> None:
    for manifest in read_documents(path.read_text()):
        name = manifest["metadata"]["name"]
        desired, bodies = desired_of(federation(manifest))
        assert {each.identity for each in desired.children} == bodies.keys()
        own = not desired.outline.external
        assert (("Service", f"{name}-superlink") in bodies) == own
        assert ((desired.outline.superlink_kind, desired.outline.superlink) in bodies) == own
        for pool in desired.outline.pools:
            assert (pool.kind, pool.workload) in bodies
        # The operator has a resource for each, or it could not apply it.
        assert {kind for kind, _ in bodies} <= CHILDREN.keys()


@pytest.mark.parametrize("path", EXAMPLE_FILES, ids=lambda path: path.stem)
def test_every_child_belongs_to_its_federation_and_its_namespace(path: Path) -> None:
    for manifest in read_documents(path.read_text()):
        _, bodies = desired_of(federation(manifest))
        for body in bodies.values():
            assert body["metadata"]["namespace"] == NAMESPACE
            assert body["metadata"]["ownerReferences"] == [
                {
                    "apiVersion": FEDERATION.api_version,
                    "kind": "Federation",
                    "name": manifest["metadata"]["name"],
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]


@pytest.mark.parametrize("isolation", ["process", "subprocess"])
@pytest.mark.parametrize("insecure", [True, False])
def test_digests_are_the_same_on_every_call(isolation: str, insecure: bool) -> None:
    small = small_federation("fed", "1.41.0", isolation, insecure)
    manifest = small.model_dump(by_alias=True, exclude_unset=True)
    assert digests(manifest) == digests(manifest)
    # Someone's editor, or the server, may order maps otherwise.
    backwards = json.loads(json.dumps(manifest), object_pairs_hook=lambda p: dict(reversed(p)))
    assert digests(manifest) == digests(backwards)


def test_a_digest_is_of_the_object_with_its_owner() -> None:
    desired, bodies = desired_of(federation(document()))
    for each in desired.children:
        assert each.digest == digest(bodies[each.identity])


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({"pool": {"replicas": 3}}, {POOL}),
        ({"pool": {"env": [{"name": "A", "value": "b"}]}}, {POOL}),
        ({"pool": {"podTemplate": {"spec": {"nodeSelector": {"gpu": "yes"}}}}}, {POOL}),
        ({"superlink": {"image": "flwr/superlink:1.25.1"}}, {SUPERLINK}),
        ({"superlink": {"extraArgs": ["--verbose"]}}, {SUPERLINK}),
        ({"superlink": {"service": {"annotations": {"lb": "internal"}}}}, {SERVICE}),
        ({"superlink": {"service": {"ports": {"grpc": 19092}}}}, {SERVICE, POOL}),
        ({"insecure": False, "networkPolicy": {"enabled": False}}, {SUPERLINK, POOL}),
        ({"suspend": True}, {POOL}),
    ],
)
def test_a_change_shows_in_the_digests_of_what_it_concerns_and_no_others(
    fields: Any, changed: set[Identity]
) -> None:
    before, after = digests(document()), digests(document(**fields))
    assert before.keys() == after.keys()
    assert {identity for identity in before if before[identity] != after[identity]} == changed


def test_another_owner_of_the_same_name_has_other_digests() -> None:
    first, second = federation(document()), federation(document())
    second.metadata.uid = "5f6c1d0a-0000-4000-8000-000000000002"
    mine, other = ({each.digest for each in desired_of(one)[0].children} for one in (first, second))
    assert not mine & other


def test_asking_for_a_restart_changes_every_workload_and_nothing_else() -> None:
    manifest = document(pools=PARTITIONED)
    before, after = digests(manifest), digests(manifest, RESTARTED)
    for kind, name in before:
        same = before[kind, name] == after[kind, name]
        assert same == (kind not in WORKLOADS), (kind, name)


def test_other_annotations_of_a_federation_change_nothing() -> None:
    assert digests(document()) == digests(document(), NOTED)


def test_the_version_tells_whether_rendering_again_is_called_for() -> None:
    version = version_of(federation(document(), generation=1))
    assert version == version_of(federation(document(), generation=1, annotations=NOTED))
    assert version != version_of(federation(document(), generation=2))
    assert version != version_of(federation(document(), generation=1, annotations=RESTARTED))
    facts = Facts(identities=Identities("a", "b"))
    assert version != version_of(federation(document(), generation=1), facts)
    facts = Facts(numbers=Numbers((), "3"))
    assert version != version_of(federation(document(), generation=1), facts)
    other = federation(document(), generation=1)
    other.metadata.uid = "another"
    assert version != version_of(other)


def test_a_suspended_pool_has_no_pods_but_keeps_its_place() -> None:
    desired, bodies = desired_of(federation(document(suspend=True)))
    assert bodies[POOL]["spec"]["replicas"] == 0
    assert bodies[SUPERLINK]["spec"]["replicas"] == 1
    assert desired.outline.suspended
    assert [pool.replicas for pool in desired.outline.pools] == [0]


def test_a_suspended_daemon_set_is_not_there_at_all() -> None:
    desired, bodies = desired_of(federation(document("DaemonSet", suspend=True)))
    assert bodies.keys() == {SERVICE, SUPERLINK}
    assert [pool.replicas for pool in desired.outline.pools] == [0]
    running, _ = desired_of(federation(document("DaemonSet")))
    assert [pool.replicas for pool in running.outline.pools] == [None]


def test_only_kinds_without_a_generation_are_compared_by_content() -> None:
    desired, bodies = desired_of(federation(document(pools=PARTITIONED)))
    content = {each.identity: each.content for each in desired.children}
    second = ("ConfigMap", "fed-supernode-second")
    assert json.loads(content[SERVICE] or "") == bodies[SERVICE]["spec"]
    assert json.loads(content[second] or "") == bodies[second]["data"]
    assert content[SUPERLINK] is content[POOL] is None


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (document(version="stable"), "UnknownRelease"),
        (document(version="1.22.0"), "UnknownRelease"),
        (document(superlink={"image": "flwr/superlink:1.17.0"}), "UnknownRelease"),
        (document(supernodes={"image": "flwr/supernode:1.41.0"}), "ReleaseMismatch"),
        (document(pool={"nodeConfig": {"no spaces": "1"}}), "InvalidSpec"),
        (document("DaemonSet", pool={"nodeConfig": {"id": "{index}"}}), "InvalidSpec"),
        (document(mode="Deployment"), "InvalidSpec"),
        (document(surprise=1), "InvalidSpec"),
        (document(pools=[{"name": "a"}, {"name": "a"}]), "InvalidSpec"),
    ],
)
def test_what_cannot_be_rendered_says_why_in_one_word(manifest: Document, reason: str) -> None:
    assert reason in reasons(manifest)


def test_a_spec_that_is_no_mapping_is_refused_and_not_a_crash() -> None:
    # Only a CRD without our schema would let it through.
    assert reasons({**document(), "spec": []}) == ["InvalidSpec"]
