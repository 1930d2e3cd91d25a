"""What the API server does with objects by their kind: status, generations, immutable fields."""

from collections.abc import Iterable, Mapping
from typing import Any

from flower_operator.kube import resources as kinds
from flower_operator.kube.resources import Resource

from .field_managers import Object
from .requests import Target

BUILT_IN = (
    kinds.CONFIG_MAP,
    kinds.EVENT,
    kinds.POD,
    kinds.SECRET,
    kinds.SERVICE,
    kinds.SERVICE_ACCOUNT,
    kinds.DAEMON_SET,
    kinds.NETWORK_POLICY,
    kinds.DEPLOYMENT,
    kinds.STATEFUL_SET,
    kinds.ROLE_BINDING,
    kinds.LEASE,
)
WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet"}
# The API server counts generations of these, and of custom resources.
COUNTED = {*WORKLOADS, "NetworkPolicy"}
WITH_STATUS = {*WORKLOADS, "Pod", "Service"}
# The answer to their deletion is the object, not a Status.
RETURNED_WHEN_DELETED = {"Pod", "Service", "ServiceAccount"}
# Nobody applies these, so that nobody asks who owns their fields.
WITHOUT_MANAGERS = {"Event", "Lease", "Pod"}
FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
POD_GRACE_SECONDS = 30


def counts_generations(resource: Resource) -> bool:
    return resource not in BUILT_IN or resource.kind in COUNTED


def has_status(resource: Resource) -> bool:
    return resource not in BUILT_IN or resource.kind in WITH_STATUS


def without_status(resource: Resource, body: Object) -> Object:
    if not has_status(resource):
        return body
    rest = {name: value for name, value in body.items() if name != "status"}
    return rest if resource.kind != "Pod" else {**rest, "status": {"phase": "Pending"}}


def writable(target: Target, live: Object, new: Object) -> Object:
    """The new object with everything from the old one that this request may not write."""
    head = {name: live[name] for name in ("apiVersion", "kind")}
    fixed = {
        name: live["metadata"][name]
        for name in (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        )
        if name in live["metadata"]
    }
    if target.subresource:
        status = {"status": new["status"]} if "status" in new else {}
        return {**live, **status}
    metadata = {
        name: value for name, value in {**new["metadata"], **fixed}.items() if value not in ({}, [])
    }
    new = {**new, **head, "metadata": metadata}
    if has_status(target.resource):
        new.pop("status", None)
        if "status" in live:
            new["status"] = live["status"]
    return new


def has_grace(resource: Resource, live: Object, options: Mapping[str, Any]) -> bool:
    """Whether a kubelet has to stop a pod before it is gone."""
    on_node = resource.kind == "Pod" and bool(live["spec"].get("nodeName"))
    return on_node and options.get("gracePeriodSeconds", POD_GRACE_SECONDS) > 0


def immutable_field(live: Object | None, new: Object) -> str:
    """The message about a changed field of a workload that must not change, if there is one."""
    if live is None or new["kind"] not in WORKLOADS:
        return ""
    changed = {name for name in live["spec"] if live["spec"][name] != new["spec"].get(name)}
    changed |= new["spec"].keys() - live["spec"].keys()
    if new["kind"] != "StatefulSet":
        message = "spec.selector: Invalid value: field is immutable"
        return message if "selector" in changed else ""
    if changed & {"selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy"}:
        return "spec: Forbidden: updates to statefulset spec for fields other than 'replicas'"
    return ""


def is_new_generation(live: Object, new: Object) -> bool:
    parts = (live.keys() | new.keys()) - {"metadata", "status"}
    if any(live.get(part) != new.get(part) for part in parts):
        return True
    before, after = (body["metadata"].get("annotations") for body in (live, new))
    return bool(new["kind"] == "Deployment" and before != after)


def untimed(entries: Iterable[Object]) -> list[Object]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


def success(body: Object) -> Object:
    details = {"name": body["metadata"]["name"], "uid": body["metadata"]["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details}
