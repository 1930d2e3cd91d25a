"""What the operator relies on in an API server, as scenarios over the Client's interface.

`tests/unit/test_memory_api_server.py` runs them against the in-memory server,
`tests/cluster/test_api_contract.py` against a real kube-apiserver.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from flower_operator.kube.applied import sole_manager
from flower_operator.kube.client import APPLY, Client
from flower_operator.kube.errors import ApiError, error_of
from flower_operator.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Resource,
)
from flower_operator.operator.actions import needs_replacement
from flower_operator.operator.desired import FEDERATION
from tests.unit.federations import document

Document = dict[str, Any]

STATUS = {"supernodes": "1/2", "desiredSupernodes": 2, "readySupernodes": 1}
OTHER_UID = "00000000-0000-4000-8000-000000000000"
WATCH_SECONDS = 20.0


@dataclass(frozen=True)
class Api:
    """Two clients of one server, each a field manager, and a namespace for one scenario."""

    client: Client
    other: Client
    namespace: str

    async def create(self, resource: Resource, name: str, **fields: Any) -> Document:
        body = self.body(resource, name, **fields)
        return decode(await self.client.create(resource, self.namespace, body))

    async def apply(self, resource: Resource, name: str, **fields: Any) -> Document:
        return decode(await self.client.apply(resource, self.body(resource, name, **fields)))

    async def patch(self, resource: Resource, name: str, changes: Mapping[str, Any]) -> Document:
        return decode(await self.client.patch(resource, self.namespace, name, changes))

    async def patch_by_other(
        self, resource: Resource, name: str, changes: Mapping[str, Any]
    ) -> Document:
        return decode(await self.other.patch(resource, self.namespace, name, changes))

    async def get(self, resource: Resource, name: str) -> Document:
        return decode(await self.client.get(resource.path(self.namespace, name)))

    async def list(self, resource: Resource, **parameters: str) -> Document:
        return decode(await self.client.get(resource.path(self.namespace), **parameters))

    async def delete(
        self, resource: Resource, name: str, uid: str | None = None, how: str = "Background"
    ) -> Document:
        return decode(await self.client.delete(resource, self.namespace, name, uid, how))

    async def exists(self, resource: Resource, name: str) -> bool:
        try:
            await self.get(resource, name)
        except ApiError as error:
            assert error.code == 404, error
            return False
        return True

    def body(self, resource: Resource, name: str, **fields: Any) -> Document:
        metadata = {"name": name, "namespace": self.namespace, **fields.pop("metadata", {})}
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return {**head, "metadata": metadata, **fields}

    @asynccontextmanager
    async def watch(
        self, resource: Resource, position: str, seconds: int = 60, **parameters: str
    ) -> AsyncIterator[AsyncIterator[Document]]:
        """The events of a watch, decoded."""
        async with self.client.watch(
            resource.path(self.namespace),
            0.0,
            watch="1",
            resourceVersion=position,
            timeoutSeconds=str(seconds),
            **parameters,
        ) as lines:
            yield (decode(line) async for line in lines)


Scenario = Callable[[Api], Awaitable[None]]


def decode(answer: bytes) -> Document:
    decoded: Document = msgspec.json.decode(answer)
    return decoded


def version_of(body: Mapping[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])


async def refusal(request: Awaitable[object]) -> ApiError:
    """The error that a request is answered with."""
    try:
        await request
    except ApiError as error:
        return error
    raise AssertionError("the request was not refused")


async def next_event(events: AsyncIterator[Document]) -> tuple[str, Document]:
    async with asyncio.timeout(WATCH_SECONDS):
        event = await anext(events)
    return event["type"], event["object"]


def workload(**changes: Any) -> Document:
    """The spec of a Deployment or StatefulSet."""
    container = {"name": "main", "image": "image:1", "env": [{"name": "A", "value": "1"}]}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    return {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "x"}},
        "template": template,
        **changes,
    }


def federation_spec(**spec: Any) -> Document:
    result: Document = document(**spec)["spec"]
    return result


# Objects and versions.


async def a_created_object_is_stored_with_uid_and_version(api: Api) -> None:
    created = await api.create(CONFIG_MAP, "a", data={"key": "value"})
    metadata = created["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"]
    assert version_of(created) > 1, "version 1 is older than every object"
    assert await api.get(CONFIG_MAP, "a") == created


async def a_name_is_created_once(api: Api) -> None:
    created = await api.create(CONFIG_MAP, "a", data={"key": "first"})
    error = await refusal(api.create(CONFIG_MAP, "a", data={"key": "second"}))
    assert (error.code, error.reason) == (409, "AlreadyExists")
    assert await api.get(CONFIG_MAP, "a") == created


async def a_missing_object_is_not_found(api: Api) -> None:
    body = api.body(CONFIG_MAP, "a", metadata={"resourceVersion": "5"})
    for request in (
        api.get(CONFIG_MAP, "a"),
        api.patch(CONFIG_MAP, "a", {"data": {"key": "value"}}),
        api.client.replace(CONFIG_MAP, body),
        api.delete(CONFIG_MAP, "a"),
        api.client.patch_status(FEDERATION, api.namespace, "a", OTHER_UID, {}),
        api.client.get("/apis/example.test/v1/widgets"),
    ):
        assert (await refusal(request)).code in (404, 409)
    error = await refusal(api.get(CONFIG_MAP, "a"))
    assert (error.code, error.reason) == (404, "NotFound")


async def versions_increase_over_all_kinds(api: Api) -> None:
    first = await api.create(CONFIG_MAP, "a")
    second = await api.create(SECRET, "b")
    third = await api.patch(CONFIG_MAP, "a", {"data": {"key": "value"}})
    assert version_of(first) < version_of(second) < version_of(third)


async def a_write_that_changes_nothing_keeps_the_version(api: Api) -> None:
    applied = await api.apply(DEPLOYMENT, "a", spec=workload())
    again = await api.apply(DEPLOYMENT, "a", spec=workload())
    assert again["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]
    patched = await api.patch_by_other(DEPLOYMENT, "a", {"spec": {"replicas": 1}})
    assert patched["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]


async def a_replacement_of_an_older_version_is_refused(api: Api) -> None:
    created = await api.create(CONFIG_MAP, "a", data={"key": "1"})
    await api.patch(CONFIG_MAP, "a", {"data": {"key": "2"}})
    error = await refusal(api.client.replace(CONFIG_MAP, {**created, "data": {"key": "3"}}))
    assert error.code == 409
    current = await api.get(CONFIG_MAP, "a")
    replaced = decode(await api.client.replace(CONFIG_MAP, {**current, "data": {"other": "4"}}))
    assert replaced["data"] == {"other": "4"}


async def a_merge_patch_changes_and_removes_what_it_names(api: Api) -> None:
    await api.create(CONFIG_MAP, "a", data={"kept": "1", "changed": "1", "removed": "1"})
    patched = await api.patch(CONFIG_MAP, "a", {"data": {"changed": "2", "removed": None}})
    assert patched["data"] == {"kept": "1", "changed": "2"}


async def a_merge_patch_with_another_uid_is_refused(api: Api) -> None:
    created = await api.create(CONFIG_MAP, "a", data={"key": "1"})
    changes = {"metadata": {"uid": OTHER_UID}, "data": {"key": "2"}}
    error = await refusal(api.patch(CONFIG_MAP, "a", changes))
    assert error.code == 422
    assert "metadata.uid" in error.message
    assert await api.get(CONFIG_MAP, "a") == created
    changes["metadata"]["uid"] = created["metadata"]["uid"]
    assert (await api.patch(CONFIG_MAP, "a", changes))["data"] == {"key": "2"}


async def generated_names_are_unique(api: Api) -> None:
    names = set()
    for _ in range(3):
        body = event(api, "Normal", "Created")
        created = decode(await api.client.create(EVENT, api.namespace, body))
        names.add(created["metadata"]["name"])
    assert len(names) == 3
    assert all(name.startswith("x.") for name in names)


def event(api: Api, kind: str, reason: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "x.", "namespace": api.namespace},
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": api.namespace},
        "type": kind,
        "reason": reason,
        "message": "text",
    }


# Server-side apply.


async def an_apply_creates_what_is_missing(api: Api) -> None:
    applied = await api.apply(CONFIG_MAP, "a", data={"key": "value"})
    assert await api.get(CONFIG_MAP, "a") == applied
    (entry,) = applied["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("contract", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:key": {}}}


async def an_apply_of_a_new_object_is_refused_if_the_name_is_taken(api: Api) -> None:
    body = api.body(CONFIG_MAP, "a", data={"key": "first"})
    created = decode(await api.client.apply_new(CONFIG_MAP, body))
    error = await refusal(api.client.apply_new(CONFIG_MAP, {**body, "data": {"key": "second"}}))
    assert error.code == 409
    assert await api.get(CONFIG_MAP, "a") == created


async def an_apply_with_another_uid_is_refused(api: Api) -> None:
    applied = await api.apply(CONFIG_MAP, "a", data={"key": "1"})
    uid = applied["metadata"]["uid"]
    error = await refusal(
        api.apply(CONFIG_MAP, "a", metadata={"uid": OTHER_UID}, data={"key": "2"})
    )
    assert error.code == 422
    assert "metadata.uid" in error.message
    assert await api.get(CONFIG_MAP, "a") == applied
    again = await api.apply(CONFIG_MAP, "a", metadata={"uid": uid}, data={"key": "2"})
    assert again["data"] == {"key": "2"}


async def an_apply_with_a_uid_never_creates(api: Api) -> None:
    error = await refusal(api.apply(CONFIG_MAP, "a", metadata={"uid": OTHER_UID}))
    assert error.code == 409
    assert not await api.exists(CONFIG_MAP, "a")


async def an_apply_leaves_fields_of_others(api: Api) -> None:
    await api.apply(DEPLOYMENT, "a", metadata={"labels": {"ours": "1"}}, spec=workload())
    await api.patch_by_other(DEPLOYMENT, "a", {"metadata": {"labels": {"theirs": "1"}}})
    again = await api.apply(
        DEPLOYMENT, "a", metadata={"labels": {"ours": "2"}}, spec=workload(replicas=2)
    )
    assert again["metadata"]["labels"] == {"ours": "2", "theirs": "1"}
    assert again["spec"]["replicas"] == 2


async def an_apply_removes_fields_that_its_manager_applied_before(api: Api) -> None:
    spec = workload()
    pod = spec["template"]["spec"]
    pod |= {"hostname": "odd", "volumes": [{"name": "v", "emptyDir": {}}]}
    pod["containers"][0]["env"].append({"name": "B", "value": "2"})
    pod["containers"].append({"name": "second", "image": "image:2"})
    labels, annotations = {"a": "1", "b": "1"}, {"note": "1"}
    metadata = {"labels": labels, "annotations": annotations}
    await api.apply(DEPLOYMENT, "a", metadata=metadata, spec=spec)
    again = await api.apply(DEPLOYMENT, "a", metadata={"labels": {"a": "1"}}, spec=workload())
    assert again["metadata"]["labels"] == {"a": "1"}
    assert not again["metadata"].get("annotations")
    pod = again["spec"]["template"]["spec"]
    assert "hostname" not in pod
    assert not pod.get("volumes")
    (container,) = pod["containers"]
    assert container["env"] == [{"name": "A", "value": "1"}]


async def a_field_with_a_second_owner_stays(api: Api) -> None:
    await api.apply(CONFIG_MAP, "a", data={"shared": "1", "ours": "1"})
    shared = api.body(CONFIG_MAP, "a", data={"shared": "1"})
    await api.other.apply(CONFIG_MAP, shared)
    again = await api.apply(CONFIG_MAP, "a", data={})
    assert again["data"] == {"shared": "1"}


async def an_apply_without_force_is_refused_on_a_conflict(api: Api) -> None:
    await api.apply(CONFIG_MAP, "a", data={"key": "1"})
    body = api.body(CONFIG_MAP, "a", data={"key": "2"})
    path = CONFIG_MAP.path(api.namespace, "a")
    error = await refusal(api.other._write("PATCH", path, body, APPLY))
    assert error.code == 409
    assert "contract" in error.message
    same = api.body(CONFIG_MAP, "a", data={"key": "1"})
    await api.other._write("PATCH", path, same, APPLY)
    assert (await api.get(CONFIG_MAP, "a"))["data"] == {"key": "1"}


async def a_forced_apply_takes_fields_over(api: Api) -> None:
    await api.apply(CONFIG_MAP, "a", data={"key": "1", "second": "1"})
    taken = decode(await api.other.apply(CONFIG_MAP, api.body(CONFIG_MAP, "a", data={"key": "2"})))
    assert taken["data"] == {"key": "2", "second": "1"}
    again = await api.apply(CONFIG_MAP, "a", data={"second": "1"})
    assert again["data"] == {"key": "2", "second": "1"}, "it is no longer ours to remove"


async def a_changed_field_is_put_right_by_the_next_apply(api: Api) -> None:
    await api.apply(SERVICE, "a", spec=service())
    changes = {"spec": {"selector": {"extra": "x"}, "publishNotReadyAddresses": True}}
    await api.patch_by_other(SERVICE, "a", changes)
    again = await api.apply(SERVICE, "a", spec=service())
    assert again["spec"]["selector"] == {"app": "x"}, "a selector is one value"
    assert again["spec"]["publishNotReadyAddresses"] is True, "nobody applies this one"


def service() -> Document:
    port = {"name": "fleet", "port": 9092, "targetPort": 9092, "protocol": "TCP"}
    return {"selector": {"app": "x"}, "ports": [port]}


async def items_that_others_added_to_a_list_stay(api: Api) -> None:
    await api.apply(SERVICE, "a", spec=service())
    theirs = {"name": "theirs", "port": 1, "targetPort": 1, "protocol": "TCP"}
    await api.patch_by_other(SERVICE, "a", {"spec": {"ports": [*service()["ports"], theirs]}})
    changed = service()
    changed["ports"][0]["name"] = "renamed"
    again = await api.apply(SERVICE, "a", spec=changed)
    assert [port["name"] for port in again["spec"]["ports"]] == ["renamed", "theirs"]


async def owners_of_fields_can_be_replaced(api: Api) -> None:
    """An object from another operator: its fields become ours, and the next apply drops them."""
    spec = workload()
    spec["template"]["spec"]["containers"][0]["command"] = ["theirs"]
    body = api.body(DEPLOYMENT, "a", metadata={"labels": {"theirs": "1"}}, spec=spec)
    created = decode(await api.other.create(DEPLOYMENT, api.namespace, body))
    owners = sole_manager(created["metadata"]["managedFields"], "contract")
    path = DEPLOYMENT.path(api.namespace, "a")
    stale = await refusal(api.client.patch_managers(path, "2", owners))
    assert stale.code in (409, 422)
    await api.client.patch_managers(path, created["metadata"]["resourceVersion"], owners)
    applied = await api.apply(DEPLOYMENT, "a", metadata={"labels": {"ours": "1"}}, spec=workload())
    assert applied["metadata"]["labels"] == {"ours": "1"}
    assert "command" not in applied["spec"]["template"]["spec"]["containers"][0]


async def a_dry_run_changes_nothing(api: Api) -> None:
    applied = await api.apply(CONFIG_MAP, "a", data={"key": "1"})
    path = CONFIG_MAP.path(api.namespace, "a")
    body = api.body(CONFIG_MAP, "a", data={"key": "2"})
    answer = await api.client._write("PATCH", path, body, APPLY, force="true", dryRun="All")
    assert decode(answer)["data"] == {"key": "2"}
    assert await api.get(CONFIG_MAP, "a") == applied


# Generations, status and validation.


async def a_changed_spec_counts_as_a_generation(api: Api) -> None:
    for resource, spec, changes in (
        (DEPLOYMENT, workload(), {"replicas": 2}),
        (STATEFUL_SET, workload(serviceName=""), {"replicas": 2}),
        (NETWORK_POLICY, {"podSelector": {}}, {"policyTypes": ["Egress"]}),
        (FEDERATION, federation_spec(), {"suspend": True}),
    ):
        created = await api.apply(resource, "a", spec=spec)
        assert created["metadata"]["generation"] == 1, resource.kind
        labelled = await api.patch(resource, "a", {"metadata": {"labels": {"x": "y"}}})
        assert labelled["metadata"]["generation"] == 1, resource.kind
        changed = await api.patch(resource, "a", {"spec": changes})
        assert changed["metadata"]["generation"] == 2, resource.kind


async def annotations_count_as_a_generation_of_deployments_alone(api: Api) -> None:
    counted = {}
    for resource, spec in (
        (DEPLOYMENT, workload()),
        (STATEFUL_SET, workload(serviceName="")),
        (FEDERATION, federation_spec()),
    ):
        await api.apply(resource, "a", spec=spec)
        changed = await api.patch(resource, "a", {"metadata": {"annotations": {"x": "y"}}})
        counted[resource.kind] = changed["metadata"]["generation"]
    assert counted == {"Deployment": 2, "StatefulSet": 1, "Federation": 1}


async def services_and_config_maps_have_no_generation(api: Api) -> None:
    for resource, fields in ((SERVICE, {"spec": service()}), (CONFIG_MAP, {"data": {"a": "b"}})):
        created = await api.apply(resource, "a", **fields)
        assert "generation" not in created["metadata"]


async def a_status_is_written_apart_from_the_spec(api: Api) -> None:
    created = await api.create(FEDERATION, "a", spec=federation_spec(), status={"supernodes": "x"})
    assert not created.get("status"), "a new object has no status"
    uid = created["metadata"]["uid"]
    answer = await api.client.patch_status(FEDERATION, api.namespace, "a", uid, STATUS)
    written = decode(answer)
    assert written["status"] == STATUS
    assert written["metadata"]["generation"] == 1
    assert version_of(written) > version_of(created)
    patched = await api.patch(FEDERATION, "a", {"status": {"supernodes": "2/2"}})
    assert patched["status"] == STATUS, "the main resource does not change the status"


async def a_status_is_not_written_to_a_namesake(api: Api) -> None:
    created = await api.create(FEDERATION, "a", spec=federation_spec())
    request = api.client.patch_status(FEDERATION, api.namespace, "a", OTHER_UID, {"supernodes": ""})
    assert (await refusal(request)).code == 422
    assert await api.get(FEDERATION, "a") == created


async def the_same_status_again_keeps_the_version(api: Api) -> None:
    uid = (await api.create(FEDERATION, "a", spec=federation_spec()))["metadata"]["uid"]
    answers = [
        await api.client.patch_status(FEDERATION, api.namespace, "a", uid, {"supernodes": "1/2"})
        for _ in range(2)
    ]
    assert answers[0] == answers[1]


async def the_selector_of_a_workload_cannot_change(api: Api) -> None:
    for resource, spec in ((DEPLOYMENT, workload()), (STATEFUL_SET, workload(serviceName=""))):
        applied = await api.apply(resource, "a", spec=spec)
        changed = {**spec, "selector": {"matchLabels": {"app": "y"}}}
        changed["template"] = {**spec["template"], "metadata": {"labels": {"app": "y"}}}
        error = await refusal(api.apply(resource, "a", spec=changed))
        assert error.code == 422
        assert needs_replacement(error), error.message
        assert await api.get(resource, "a") == applied


async def the_claims_of_a_stateful_set_cannot_change(api: Api) -> None:
    def claim(size: str) -> Document:
        resources = {"requests": {"storage": size}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
        return {"metadata": {"name": "state"}, "spec": spec}

    spec = workload(serviceName="")
    await api.apply(STATEFUL_SET, "a", spec={**spec, "volumeClaimTemplates": [claim("1Gi")]})
    changed = api.apply(STATEFUL_SET, "a", spec={**spec, "volumeClaimTemplates": [claim("2Gi")]})
    error = await refusal(changed)
    assert error.code == 422
    assert needs_replacement(error), error.message


# Deletion.


async def a_deleted_object_is_gone(api: Api) -> None:
    await api.create(CONFIG_MAP, "a")
    answer = await api.delete(CONFIG_MAP, "a")
    assert answer["kind"] == "Status"
    assert not await api.exists(CONFIG_MAP, "a")


async def a_deleted_service_is_the_answer_to_its_deletion(api: Api) -> None:
    created = await api.create(SERVICE, "a", spec=service())
    answer = await api.delete(SERVICE, "a")
    assert answer["kind"] == "Service"
    assert version_of(answer) > version_of(created), "the version of the deletion"
    assert not await api.exists(SERVICE, "a")


async def a_deletion_with_another_uid_is_refused(api: Api) -> None:
    created = await api.create(CONFIG_MAP, "a")
    assert (await refusal(api.delete(CONFIG_MAP, "a", OTHER_UID))).code == 409
    assert await api.get(CONFIG_MAP, "a") == created
    await api.delete(CONFIG_MAP, "a", created["metadata"]["uid"])
    assert not await api.exists(CONFIG_MAP, "a")


async def a_namesake_has_another_uid(api: Api) -> None:
    first = await api.create(CONFIG_MAP, "a")
    await api.delete(CONFIG_MAP, "a")
    second = await api.create(CONFIG_MAP, "a")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def an_object_with_finalizers_stays_until_they_are_removed(api: Api) -> None:
    metadata = {"finalizers": ["example.test/hold", "example.test/other"]}
    await api.create(FEDERATION, "a", metadata=metadata, spec=federation_spec())
    await api.delete(FEDERATION, "a")
    leaving = await api.get(FEDERATION, "a")
    assert leaving["metadata"]["deletionTimestamp"]
    assert leaving["metadata"]["generation"] == 2
    await api.delete(FEDERATION, "a")
    assert await api.get(FEDERATION, "a") == leaving, "a second deletion changes nothing"
    some = {"metadata": {"finalizers": ["example.test/other"]}}
    assert (await api.patch(FEDERATION, "a", some))["metadata"]["finalizers"]
    await api.patch(FEDERATION, "a", {"metadata": {"finalizers": []}})
    assert not await api.exists(FEDERATION, "a")


async def propagation_that_waits_for_dependents_leaves_the_object(api: Api) -> None:
    for how, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        await api.create(STATEFUL_SET, "a", spec=workload(serviceName=""))
        answer = await api.delete(STATEFUL_SET, "a", how=how)
        assert answer["kind"] == "StatefulSet"
        leaving = await api.get(STATEFUL_SET, "a")
        assert leaving["metadata"]["finalizers"] == [finalizer]
        assert leaving["metadata"]["deletionTimestamp"]
        await api.patch(STATEFUL_SET, "a", {"metadata": {"finalizers": None}})
        assert not await api.exists(STATEFUL_SET, "a")


async def a_pod_on_a_node_is_deleted_by_its_kubelet(api: Api) -> None:
    await api.create(SERVICE_ACCOUNT, "default")
    container = {"name": "main", "image": "image:1"}
    for name, place in (("pending", {}), ("running", {"nodeName": "node"})):
        await api.create(POD, name, spec={"containers": [container], **place})
        await api.delete(POD, name)
    assert not await api.exists(POD, "pending")
    leaving = await api.get(POD, "running")
    assert leaving["metadata"]["deletionGracePeriodSeconds"] > 0
    await api.client._write(
        "DELETE", POD.path(api.namespace, "running"), {"gracePeriodSeconds": 0}, "application/json"
    )
    assert not await api.exists(POD, "running")


async def a_gate_is_taken_off_a_pod(api: Api) -> None:
    await api.create(SERVICE_ACCOUNT, "default")
    gates = [{"name": "example.test/a"}, {"name": "example.test/b"}]
    spec = {"containers": [{"name": "main", "image": "image:1"}], "schedulingGates": gates}
    created = await api.create(POD, "a", spec=spec)
    metadata = {"uid": created["metadata"]["uid"]}
    patched = await api.patch(POD, "a", {"metadata": metadata, "spec": {"schedulingGates": []}})
    assert not patched["spec"].get("schedulingGates")


# Lists and watches.


async def lists_are_selected_by_labels(api: Api) -> None:
    for name, labels in (
        ("a", {"team": "x", "part": "1"}),
        ("b", {"team": "x", "part": "2"}),
        ("c", {"team": "y"}),
        ("d", {}),
    ):
        await api.create(SECRET, name, metadata={"labels": labels})
    for selector, expected in (
        ("team=x", {"a", "b"}),
        ("team=x,part!=2", {"a"}),
        ("part!=2", {"a", "c", "d"}),
        ("part", {"a", "b"}),
    ):
        items = (await api.list(SECRET, labelSelector=selector))["items"]
        assert {item["metadata"]["name"] for item in items} == expected, selector


async def events_are_selected_by_fields(api: Api) -> None:
    for kind, reason in (("Normal", "A"), ("Warning", "B"), ("Warning", "C")):
        await api.client.create(EVENT, api.namespace, event(api, kind, reason))
    items = (await api.list(EVENT, fieldSelector="type=Warning,reason!=C"))["items"]
    assert [item["reason"] for item in items] == ["B"]


async def a_long_list_comes_in_pages(api: Api) -> None:
    for number in range(5):
        await api.create(SECRET, f"s{number}")
    first = await api.list(SECRET, limit="2")
    await api.create(SECRET, "late")
    names, page = [], first
    while True:
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
        if not token:
            break
        page = await api.list(SECRET, **{"limit": "2", "continue": token})
    assert names == [f"s{number}" for number in range(5)], "as it was at the first page"
    assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def a_watch_shows_every_change_after_the_list(api: Api) -> None:
    await api.create(SECRET, "before")
    position = (await api.list(SECRET))["metadata"]["resourceVersion"]
    created = await api.create(SECRET, "a")
    async with api.watch(SECRET, position) as events:
        assert await next_event(events) == ("ADDED", whole(SECRET, created))
        changed = await api.patch(SECRET, "a", {"metadata": {"labels": {"x": "y"}}})
        assert await next_event(events) == ("MODIFIED", whole(SECRET, changed))
        await api.delete(SECRET, "a")
        kind, deleted = await next_event(events)
        assert kind == "DELETED"
        assert deleted["metadata"]["uid"] == created["metadata"]["uid"]
        assert version_of(deleted) > version_of(changed)


def whole(resource: Resource, body: Document) -> Document:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


async def an_object_that_leaves_the_selection_is_deleted_to_a_watch(api: Api) -> None:
    await api.create(SECRET, "a", metadata={"labels": {"team": "x"}})
    position = (await api.list(SECRET))["metadata"]["resourceVersion"]
    async with api.watch(SECRET, position, labelSelector="team=x") as events:
        await api.create(SECRET, "b", metadata={"labels": {"team": "y"}})
        left = await api.patch(SECRET, "a", {"metadata": {"labels": {"team": "y"}}})
        kind, deleted = await next_event(events)
        assert (kind, version_of(deleted)) == ("DELETED", version_of(left))
        await api.patch(SECRET, "a", {"metadata": {"labels": {"team": "x"}}})
        assert (await next_event(events))[0] == "ADDED"


async def a_watch_of_a_status_shows_the_change(api: Api) -> None:
    created = await api.create(FEDERATION, "a", spec=federation_spec())
    async with api.watch(FEDERATION, created["metadata"]["resourceVersion"]) as events:
        uid = created["metadata"]["uid"]
        await api.client.patch_status(FEDERATION, api.namespace, "a", uid, STATUS)
        kind, modified = await next_event(events)
        assert (kind, modified["status"]) == ("MODIFIED", STATUS)


async def a_watch_from_a_version_that_is_too_old_is_gone(api: Api) -> None:
    async with api.watch(FEDERATION, "1") as events:
        kind, body = await next_event(events)
    assert kind == "ERROR"
    assert error_of(500, msgspec.json.encode(body)).code == 410


async def a_watch_ends_in_time(api: Api) -> None:
    created = await api.create(FEDERATION, "a", spec=federation_spec())
    position = created["metadata"]["resourceVersion"]
    async with (
        asyncio.timeout(WATCH_SECONDS),
        api.watch(FEDERATION, position, seconds=1, allowWatchBookmarks="true") as events,
    ):
        assert [received async for received in events] == []


SCENARIOS: tuple[Scenario, ...] = (
    a_created_object_is_stored_with_uid_and_version,
    a_name_is_created_once,
    a_missing_object_is_not_found,
    versions_increase_over_all_kinds,
    a_write_that_changes_nothing_keeps_the_version,
    a_replacement_of_an_older_version_is_refused,
    a_merge_patch_changes_and_removes_what_it_names,
    a_merge_patch_with_another_uid_is_refused,
    generated_names_are_unique,
    an_apply_creates_what_is_missing,
    an_apply_of_a_new_object_is_refused_if_the_name_is_taken,
    an_apply_with_another_uid_is_refused,
    an_apply_with_a_uid_never_creates,
    an_apply_leaves_fields_of_others,
    an_apply_removes_fields_that_its_manager_applied_before,
    a_field_with_a_second_owner_stays,
    an_apply_without_force_is_refused_on_a_conflict,
    a_forced_apply_takes_fields_over,
    a_changed_field_is_put_right_by_the_next_apply,
    items_that_others_added_to_a_list_stay,
    owners_of_fields_can_be_replaced,
    a_dry_run_changes_nothing,
    a_changed_spec_counts_as_a_generation,
    annotations_count_as_a_generation_of_deployments_alone,
    services_and_config_maps_have_no_generation,
    a_status_is_written_apart_from_the_spec,
    a_status_is_not_written_to_a_namesake,
    the_same_status_again_keeps_the_version,
    the_selector_of_a_workload_cannot_change,
    the_claims_of_a_stateful_set_cannot_change,
    a_deleted_object_is_gone,
    a_deleted_service_is_the_answer_to_its_deletion,
    a_deletion_with_another_uid_is_refused,
    a_namesake_has_another_uid,
    an_object_with_finalizers_stays_until_they_are_removed,
    propagation_that_waits_for_dependents_leaves_the_object,
    a_pod_on_a_node_is_deleted_by_its_kubelet,
    a_gate_is_taken_off_a_pod,
    lists_are_selected_by_labels,
    events_are_selected_by_fields,
    a_long_list_comes_in_pages,
    a_watch_shows_every_change_after_the_list,
    an_object_that_leaves_the_selection_is_deleted_to_a_watch,
    a_watch_of_a_status_shows_the_change,
    a_watch_from_a_version_that_is_too_old_is_gone,
    a_watch_ends_in_time,
)
