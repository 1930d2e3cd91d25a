"""What is done about the difference between what is wanted and what is there."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from flower_operator.api.documents import read_documents
from flower_operator.kube.applied import with_live_selector
from flower_operator.kube.errors import ApiError
from flower_operator.operator.actions import (
    APPLIED,
    Action,
    Create,
    Remove,
    Update,
    Wait,
    decide,
    first_mark,
    needs_replacement,
    replacement,
)
from flower_operator.operator.desired import (
    SUPERLINK as SUPERLINK_PART,
)
from flower_operator.operator.desired import (
    WORKLOADS,
    Desired,
    Identity,
    Wanted,
    desired_of,
    part_of,
    pool_part,
)
from flower_operator.render.metadata import MANAGER, PREFIX
from scripts.manifests import EXAMPLES
from tests.unit.federations import Document, document
from tests.unit.observations import applied, federation, observe_all

SERVICE: Identity = ("Service", "fed-superlink")
SUPERLINK: Identity = ("Deployment", "fed-superlink")
POOL: Identity = ("StatefulSet", "fed-supernode-default")
SECOND: Identity = ("StatefulSet", "fed-supernode-second")
SECOND_CONFIG: Identity = ("ConfigMap", "fed-supernode-second")
EVERY = [SERVICE, SUPERLINK, POOL, SECOND_CONFIG, SECOND]

CLAIM = {
    "metadata": {"name": "state"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def two_pools(**fields: Any) -> Document:
    """A Federation of every kind of child but the DaemonSet."""
    numbered = {"nodeConfig": {"partition-id": "{partition}"}}
    pools: list[Document] = [{"name": "default"}, {"name": "second", **numbered}]
    return document(pools=pools, **fields)


def desired(manifest: Document) -> Desired:
    return desired_of(federation(manifest))[0]


def wanted_of(manifest: Document, identity: Identity) -> Wanted:
    (found,) = (each for each in desired(manifest).children if each.identity == identity)
    return found


def actions(manifest: Document, there: dict[Identity, Document]) -> list[Action]:
    return decide(desired(manifest).children, observe_all(there.values()))


def uid(identity: Identity) -> str:
    return "uid-{}-{}".format(*identity)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_nothing_is_done_at_rest(path: Any) -> None:
    for manifest in read_documents(path.read_text()):
        assert actions(manifest, applied(manifest)) == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_child_belongs_to_the_superlink_or_to_a_pool(path: Any) -> None:
    for manifest in read_documents(path.read_text()):
        made = desired(manifest)
        parts = {pool_part(each.name) for each in made.outline.pools}
        # What SuperNodes of all pools trust, or the SuperLink that has it itself.
        parts.add(pool_part("") if made.outline.external else SUPERLINK_PART)
        assert {part_of(each.labels) for each in made.children} == parts


def test_everything_is_created_where_there_is_nothing() -> None:
    created = actions(two_pools(), {})
    assert [each.wanted.identity for each in created if isinstance(each, Create)] == EVERY
    assert len(created) == len(EVERY)


@pytest.mark.parametrize("missing", EVERY, ids="/".join)
def test_what_is_missing_is_created_and_nothing_else_is_touched(missing: Identity) -> None:
    there = applied(two_pools())
    del there[missing]
    assert actions(two_pools(), there) == [Create(wanted_of(two_pools(), missing))]


def test_a_new_image_updates_the_workloads_that_run_it_to_their_next_generation() -> None:
    changed = two_pools(supernodes={"image": "flwr/supernode:1.25.1"})
    there = applied(two_pools())
    there[SECOND]["metadata"]["generation"] = 7
    there[SECOND]["metadata"]["annotations"][APPLIED] = f"{'0' * 16}.7"
    assert actions(changed, there) == [
        Update(wanted_of(changed, POOL), uid(POOL), 2),
        Update(wanted_of(changed, SECOND), uid(SECOND), 8),
    ]


def test_parts_that_are_held_back_stay_as_they_are_with_all_that_is_theirs() -> None:
    """The SuperLink's ports change with its release, and here its kind does too."""
    changed = two_pools(version="1.41.0", superlink={"volumeClaimTemplates": [CLAIM]})
    there = applied(two_pools())
    held = {SUPERLINK_PART, pool_part("second")}
    assert decide(desired(changed).children, observe_all(there.values()), held) == [
        Update(wanted_of(changed, POOL), uid(POOL), 2)
    ]
    del there[SECOND_CONFIG]
    held = {pool_part("default"), pool_part("second")}
    done = decide(desired(changed).children, observe_all(there.values()), held)
    assert [type(each) for each in done] == [Remove, Update, Wait]


def test_a_service_has_no_generation_to_count() -> None:
    changed = two_pools(superlink={"service": {"type": "NodePort"}})
    assert actions(changed, applied(two_pools())) == [
        Update(wanted_of(changed, SERVICE), uid(SERVICE), 0)
    ]


def test_a_config_map_has_no_generation_to_count() -> None:
    changed = document(
        pools=[
            {"name": "default", "replicas": 3},
            {"name": "second", "nodeConfig": {"partition-id": "{partition}"}},
        ]
    )
    assert Update(wanted_of(changed, SECOND_CONFIG), uid(SECOND_CONFIG), 0) in actions(
        changed, applied(two_pools())
    )


def set_generation(child: Document) -> None:
    # The server counts it whenever someone changes the spec, `kubectl scale` for one.
    child["metadata"]["generation"] = 2
    child["spec"]["replicas"] = 9


def change_label(child: Document) -> None:
    child["metadata"]["labels"][f"{PREFIX}/component"] = "mine"


def remove_label(child: Document) -> None:
    del child["metadata"]["labels"]["app.kubernetes.io/managed-by"]


def remove_mark(child: Document) -> None:
    del child["metadata"]["annotations"][APPLIED]


def forge_mark(child: Document) -> None:
    child["metadata"]["annotations"][APPLIED] = f"{'f' * 16}.1"


def change_port(child: Document) -> None:
    child["spec"]["ports"][0]["targetPort"] = 1


def remove_port(child: Document) -> None:
    del child["spec"]["ports"][0]


def change_selector(child: Document) -> None:
    child["spec"]["selector"][f"{PREFIX}/federation"] = "other"


def narrow_selector(child: Document) -> None:
    child["spec"]["selector"]["app"] = "mine"


def remove_selector(child: Document) -> None:
    del child["spec"]["selector"]


def change_data(child: Document) -> None:
    child["data"]["0.toml"] = "partition-id = 99\n"


def remove_data(child: Document) -> None:
    del child["data"]


@pytest.mark.parametrize(
    ("identity", "hand", "generation"),
    [
        (SUPERLINK, set_generation, 3),
        (POOL, set_generation, 3),
        (SUPERLINK, change_label, 1),
        (POOL, remove_label, 1),
        (POOL, remove_mark, 2),
        (POOL, forge_mark, 2),
        (SERVICE, change_label, 0),
        (SERVICE, remove_mark, 0),
        (SERVICE, change_port, 0),
        (SERVICE, remove_port, 0),
        (SERVICE, change_selector, 0),
        (SERVICE, narrow_selector, 0),
        (SERVICE, remove_selector, 0),
        (SECOND_CONFIG, change_data, 0),
        (SECOND_CONFIG, remove_data, 0),
        (SECOND_CONFIG, remove_label, 0),
    ],
)
def test_what_a_hand_changed_is_put_right(
    identity: Identity, hand: Callable[[Document], None], generation: int
) -> None:
    there = applied(two_pools())
    hand(there[identity])
    wanted = wanted_of(two_pools(), identity)
    foreign = APPLIED not in there[identity]["metadata"]["annotations"]
    assert actions(two_pools(), there) == [Update(wanted, uid(identity), generation, foreign)]


def test_what_bears_no_mark_of_ours_was_made_by_someone_else() -> None:
    there = applied(two_pools())
    for child in there.values():
        child["metadata"]["annotations"] = {}
    found = actions(two_pools(), there)
    assert len(found) == len(there)
    assert all(isinstance(each, Update) and each.foreign for each in found)


def test_an_annotation_that_the_spec_asks_for_is_put_right() -> None:
    manifest = document(superlink={"service": {"annotations": {"lb": "internal"}}})
    there = applied(manifest)
    there[SERVICE]["metadata"]["annotations"]["lb"] = "public"
    assert actions(manifest, there) == [Update(wanted_of(manifest, SERVICE), uid(SERVICE), 0)]


def test_what_the_server_and_other_tools_add_stays() -> None:
    there = applied(two_pools())
    for child in there.values():
        child["metadata"]["labels"]["argocd.argoproj.io/instance"] = "flower"
        child["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "4"
        child["metadata"]["finalizers"] = ["service.kubernetes.io/load-balancer-cleanup"]
        child["metadata"]["managedFields"] = [{"manager": MANAGER, "operation": "Apply"}]
    service = there[SERVICE]["spec"]
    service |= {"clusterIP": "10.0.0.7", "sessionAffinity": "None", "ipFamilies": ["IPv4"]}
    for number, port in enumerate(service["ports"]):
        port["nodePort"] = 30000 + number
    service["ports"].insert(0, {"name": "mesh", "port": 15001, "protocol": "TCP"})
    there[SECOND_CONFIG]["data"]["notes.txt"] = "not ours"
    there[POOL]["status"] = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1}
    assert actions(two_pools(), there) == []


def test_a_removed_pool_goes_with_its_pods_before_anything_else_happens() -> None:
    gone = actions(document(), applied(two_pools()))
    assert sorted(gone, key=repr) == [
        Remove("ConfigMap", "fed-supernode-second", uid(SECOND_CONFIG), "Background"),
        Remove("StatefulSet", "fed-supernode-second", uid(SECOND), "Foreground"),
    ]


def test_what_is_removed_already_is_waited_for() -> None:
    there = applied(two_pools())
    there[SECOND]["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
    del there[SECOND_CONFIG]
    assert actions(document(), there) == [Wait(*SECOND)]


@pytest.mark.parametrize("identity", EVERY, ids="/".join)
def test_what_is_wanted_but_on_its_way_out_is_waited_for(identity: Identity) -> None:
    there = applied(two_pools())
    there[identity]["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
    assert actions(two_pools(), there) == [Wait(*identity)]


@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [
        (document(), document("DaemonSet"), POOL, ("DaemonSet", POOL[1])),
        (document("DaemonSet"), document(), ("DaemonSet", POOL[1]), POOL),
        (
            document(),
            document(superlink={"volumeClaimTemplates": [CLAIM]}),
            SUPERLINK,
            ("StatefulSet", SUPERLINK[1]),
        ),
        (
            document(superlink={"volumeClaimTemplates": [CLAIM]}),
            document(),
            ("StatefulSet", SUPERLINK[1]),
            SUPERLINK,
        ),
    ],
    ids=["to DaemonSet", "to StatefulSet", "SuperLink gains claims", "SuperLink loses claims"],
)
def test_another_kind_of_the_same_name_waits_until_the_old_one_is_gone(
    before: Document, after: Document, old: Identity, new: Identity
) -> None:
    there = applied(before)
    assert actions(after, there) == [Remove(*old, uid(old), "Foreground"), Wait(*new)]
    there[old]["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
    assert actions(after, there) == [Wait(*old), Wait(*new)]
    del there[old]
    assert actions(after, there) == [Create(wanted_of(after, new))]


def test_a_service_does_not_wait_for_a_workload_of_its_name() -> None:
    there = applied(document())
    del there[SERVICE]
    after = document(superlink={"volumeClaimTemplates": [CLAIM]})
    assert Create(wanted_of(after, SERVICE)) in actions(after, there)


def test_a_first_mark_names_the_generation_that_creation_gives() -> None:
    for wanted in desired(two_pools()).children:
        generation = 1 if wanted.kind in WORKLOADS else 0
        assert first_mark(wanted) == f"{wanted.digest}.{generation}"


STATEFUL_SET_FORBIDS = (
    'StatefulSet.apps "x" is invalid: spec: Forbidden: updates to statefulset spec for fields '
    "other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
SELECTOR_IS_IMMUTABLE = (
    '{} "x" is invalid: spec.selector: Invalid value: '
    '{{"matchLabels":{{"app":"y"}}}}: field is immutable'
)


@pytest.mark.parametrize(
    ("code", "message", "needs"),
    [
        (422, STATEFUL_SET_FORBIDS, True),
        (422, SELECTOR_IS_IMMUTABLE.format("Deployment.apps"), True),
        (422, SELECTOR_IS_IMMUTABLE.format("DaemonSet.apps"), True),
        (422, 'Deployment.apps "x" is invalid: metadata.uid: field is immutable', False),
        (422, 'Service "x" is invalid: spec.clusterIPs[0]: may not change', False),
        (422, 'StatefulSet.apps "x" is invalid: spec.template.spec.containers: Required', False),
        (403, STATEFUL_SET_FORBIDS, False),
        (500, SELECTOR_IS_IMMUTABLE.format("Deployment.apps"), False),
    ],
)
def test_only_what_can_never_be_changed_is_made_anew(code: int, message: str, needs: bool) -> None:
    assert needs_replacement(ApiError(code, "Invalid", message)) == needs


def stateful(labels: Document | None = None, claims: Sequence[str] = ()) -> Document:
    spec: Document = {"selector": {"matchLabels": labels or {"app": "x"}}, "replicas": 2}
    if claims:
        spec["volumeClaimTemplates"] = [{**CLAIM, "metadata": {"name": each}} for each in claims]
    return {"kind": "StatefulSet", "metadata": {"name": "x"}, "spec": spec}


def test_pods_that_the_new_workload_can_have_are_left_for_it() -> None:
    assert replacement(stateful(), stateful()) == "Orphan"
    assert replacement(stateful(claims=["a", "b"]), stateful(claims=["b", "a"])) == "Orphan"
    labelled = stateful({"app": "x", "team": "blue"})
    assert replacement(labelled, stateful({"app": "x"})) == "Orphan"


def test_what_the_server_adds_to_claims_does_not_cost_the_pods() -> None:
    current = stateful(claims=["state"])
    current["spec"]["volumeClaimTemplates"][0] |= {"status": {"phase": "Pending"}}
    current["spec"]["podManagementPolicy"] = "Parallel"
    assert replacement(current, stateful(claims=["state"])) == "Orphan"


@pytest.mark.parametrize(
    ("current", "wanted"),
    [
        (stateful({"app": "x"}), stateful({"app": "y"})),
        (stateful({"app": "x"}), stateful({"app": "x", "team": "blue"})),
        (stateful(), stateful(claims=["state"])),
        (stateful(claims=["state"]), stateful()),
        (stateful(claims=["state"]), stateful(claims=["data"])),
    ],
    ids=["other labels", "more labels", "claims come", "claims go", "claims of another name"],
)
def test_pods_that_would_not_fit_go_with_the_old_workload(
    current: Document, wanted: Document
) -> None:
    assert replacement(current, wanted) == "Foreground"


def selecting(labels: Document, pods: Document | None = None, **more: Any) -> Document:
    """A workload with this selector, and these labels on its pods."""
    template = {"metadata": {"labels": pods or labels}}
    return {"spec": {"selector": {"matchLabels": labels, **more}, "template": template}}


def test_a_selector_with_more_labels_is_kept_while_the_pods_have_those() -> None:
    live = selecting({"app": "x", "team": "blue"})
    wanted = selecting({"app": "x"}, {"app": "x", "team": "blue", "new": "one"})
    kept = with_live_selector(live, wanted)
    assert kept
    assert kept["spec"]["selector"] == live["spec"]["selector"]
    assert kept["spec"]["template"] == wanted["spec"]["template"]
    assert wanted["spec"]["selector"] == {"matchLabels": {"app": "x"}}, "it was changed itself"


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        (selecting({"app": "x"}), selecting({"app": "x"})),
        (selecting({"app": "x", "team": "blue"}), selecting({"app": "x"})),
        (
            selecting({"app": "x", "team": "blue"}),
            selecting({"app": "x"}, {"app": "x", "team": "red"}),
        ),
        (selecting({"app": "y"}), selecting({"app": "x"}, {"app": "y"})),
        (
            selecting({"app": "x"}, matchExpressions=[{"key": "team", "operator": "Exists"}]),
            selecting({"app": "x"}),
        ),
    ],
    ids=["the same", "a label less", "another value", "not ours", "an expression"],
)
def test_any_other_selector_is_not_kept(live: Document, wanted: Document) -> None:
    assert with_live_selector(live, wanted) is None
