"""The controllers and the kubelet of a cluster in memory: garbage collection, workloads, pods.

A pod runs as soon as it has no scheduling gate. As on kwok's nodes, the annotation `test/fate` or
an image that ends with `:missing` keeps it from becoming ready.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from flower_operator.kube.client import JSON, MERGE_PATCH
from flower_operator.kube.resources import DAEMON_SET, DEPLOYMENT, POD, STATEFUL_SET, Resource

from ..nodes import FATE
from .field_managers import Object
from .requests import Request
from .server import MemoryApiServer

MANAGER = "kube-controller-manager"
REVISION = "controller-revision-hash"
POD_INDEX = "apps.kubernetes.io/pod-index"
STEP_SECONDS = 0.05
WORKLOADS = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)


class Controllers:
    """Acts on what the server has, one level-triggered step after another."""

    def __init__(self, server: MemoryApiServer, nodes: Sequence[str] = ("node-0", "node-1")):
        self.nodes = nodes
        self.collects_garbage = True
        self._server = server
        self._number = 0

    async def run(self) -> None:
        news = asyncio.Event()
        self._server.changed.append(news.set)
        while True:
            news.clear()
            before = self._server.version
            self.step()
            if self._server.version == before:
                await news.wait()
            await asyncio.sleep(STEP_SECONDS + self._server.latency())

    def step(self) -> None:
        if self.collects_garbage:
            self._collect_garbage()
        for pod in self._server.objects(POD):
            self._run_pod(pod)
        for resource in WORKLOADS:
            for workload in self._server.objects(resource):
                if not workload["metadata"].get("deletionTimestamp"):
                    self._run_workload(resource, workload)

    # Garbage collection.

    def _collect_garbage(self) -> None:
        everything = [
            (resource, body)
            for resource in self._server.resources.values()
            for body in self._server.objects(resource)
        ]
        by_uid = {body["metadata"]["uid"]: body for _, body in everything}
        for resource, body in everything:
            owners = body["metadata"].get("ownerReferences", [])
            if owners and not any(owner["uid"] in by_uid for owner in owners):
                self._delete(resource, body)
        for resource, body in everything:
            finalizers = body["metadata"].get("finalizers", [])
            if body["metadata"].get("deletionTimestamp") and finalizers:
                dependents = list(_dependents(everything, body["metadata"]["uid"]))
                self._finish(resource, body, finalizers, dependents)

    def _finish(
        self,
        resource: Resource,
        body: Object,
        finalizers: list[str],
        dependents: list[tuple[Resource, Object]],
    ) -> None:
        """Delete or orphan the dependents of an object that waits for that."""
        if "foregroundDeletion" in finalizers:
            for kind, dependent in dependents:
                self._delete(kind, dependent)
            done = "" if dependents else "foregroundDeletion"
        else:
            for kind, dependent in dependents:
                self._patch(kind, dependent, {"metadata": {"ownerReferences": []}})
            done = "orphan"
        if done in finalizers:
            rest = [name for name in finalizers if name != done]
            self._patch(resource, body, {"metadata": {"finalizers": rest}})

    # Workloads.

    def _run_workload(self, resource: Resource, workload: Object) -> None:
        pods = self._pods_of(workload)
        revision = _revision(workload)
        wanted = self._wanted(resource, workload)
        for pod in pods:
            outdated = pod["metadata"]["annotations"].get(REVISION) != revision
            surplus = wanted is not None and pod["metadata"]["name"] not in wanted
            if (outdated or surplus) and not pod["metadata"].get("deletionTimestamp"):
                self._delete(POD, pod)
        names = {pod["metadata"]["name"] for pod in pods}
        if wanted is None:  # a Deployment that recreates: the old pod is gone before the new one
            missing = [self._pod_name(workload)] if not names and _replicas(workload) else []
        else:
            missing = [name for name in wanted if name not in names]
        for name in missing:
            self._create_pod(workload, name, revision)
        self._write_status(resource, workload, revision)

    def _wanted(self, resource: Resource, workload: Object) -> list[str] | None:
        name = workload["metadata"]["name"]
        if resource == STATEFUL_SET:
            return [f"{name}-{number}" for number in range(_replicas(workload))]
        if resource == DAEMON_SET:
            selector = workload["spec"]["template"]["spec"].get("nodeSelector")
            return [] if selector else [f"{name}-{node}" for node in self.nodes]
        return [] if not _replicas(workload) else None

    def _pod_name(self, workload: Object) -> str:
        self._number += 1
        return f"{workload['metadata']['name']}-{_revision(workload)[:8]}-{self._number:05d}"

    def _pods_of(self, workload: Object) -> list[Object]:
        """The workload's pods; those without a controller that it selects are adopted."""
        selector = workload["spec"]["selector"]["matchLabels"].items()
        found = []
        for pod in self._server.objects(POD, workload["metadata"]["namespace"]):
            owners = pod["metadata"].get("ownerReferences", [])
            selected = selector <= pod["metadata"].get("labels", {}).items()
            if selected and not owners:
                changes = {"metadata": {"ownerReferences": [_reference(workload)]}}
                self._patch(POD, pod, changes)
                found.append(pod)
            elif any(owner["uid"] == workload["metadata"]["uid"] for owner in owners):
                found.append(pod)
        return found

    def _create_pod(self, workload: Object, name: str, revision: str) -> None:
        template = workload["spec"]["template"]
        labels = dict(template["metadata"]["labels"])
        if workload["kind"] == "StatefulSet":
            labels[POD_INDEX] = name.rpartition("-")[2]
        spec = dict(template["spec"])
        if workload["kind"] == "DaemonSet":
            node = name.removeprefix(f"{workload['metadata']['name']}-")
            spec["affinity"] = _node_affinity(node)
        annotations = {**template["metadata"].get("annotations", {}), REVISION: revision}
        metadata = {
            "name": name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [_reference(workload)],
        }
        path = POD.path(workload["metadata"]["namespace"])
        self._send("POST", path, {"metadata": metadata, "spec": spec})

    def _write_status(self, resource: Resource, workload: Object, revision: str) -> None:
        pods = [
            pod for pod in self._pods_of(workload) if not pod["metadata"].get("deletionTimestamp")
        ]
        ready = sum(map(is_ready, pods))
        updated = sum(pod["metadata"]["annotations"].get(REVISION) == revision for pod in pods)
        status = {"observedGeneration": workload["metadata"]["generation"]}
        if resource == DAEMON_SET:
            status |= {
                "desiredNumberScheduled": len(self._wanted(resource, workload) or ()),
                "currentNumberScheduled": len(pods),
                "updatedNumberScheduled": updated,
                "numberReady": ready,
            }
        else:
            status |= {
                "replicas": len(pods),
                "readyReplicas": ready,
                "availableReplicas": ready,
                "updatedReplicas": updated,
            }
        if workload.get("status") != status:
            self._patch(resource, workload, {"status": status}, "/status")

    # Pods.

    def _run_pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            if not metadata.get("finalizers"):
                path = POD.path(metadata["namespace"], metadata["name"])
                self._send("DELETE", path, {"gracePeriodSeconds": 0})
            return
        if pod["spec"].get("schedulingGates"):
            return
        if not pod["spec"].get("nodeName"):
            self._patch(POD, pod, {"spec": {"nodeName": self.nodes[0]}})
        fate = _fate(pod)
        if pod.get("status", {}).get("fate") != fate:
            now = self._server.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
            self._patch(POD, pod, {"status": _pod_status(pod, fate, now)}, "/status")

    # Requests.

    def _delete(self, resource: Resource, body: Object) -> None:
        metadata = body["metadata"]
        options = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"}
        self._send("DELETE", resource.path(metadata["namespace"], metadata["name"]), options)

    def _patch(
        self, resource: Resource, body: Object, changes: Mapping[str, Any], subresource: str = ""
    ) -> None:
        path = resource.path(body["metadata"]["namespace"], body["metadata"]["name"])
        self._send("PATCH", path + subresource, changes, MERGE_PATCH)

    def _send(self, method: str, path: str, body: object, content: str = JSON) -> None:
        """An object may have changed or gone since it was read: the next step sees it."""
        self._server.handle(Request(method, path, MANAGER, body=body, content=content))


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _dependents(
    everything: Iterable[tuple[Resource, Object]], uid: str
) -> Iterable[tuple[Resource, Object]]:
    for resource, body in everything:
        references = body["metadata"].get("ownerReferences", [])
        if any(owner["uid"] == uid for owner in references):
            yield resource, body


def _replicas(workload: Object) -> int:
    replicas: int = workload["spec"].get("replicas", 1)
    return replicas


def _revision(workload: Object) -> str:
    return hashlib.sha256(msgspec.json.encode(workload["spec"]["template"])).hexdigest()[:16]


def _reference(workload: Object) -> Object:
    return {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": workload["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _node_affinity(node: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _fate(pod: Object) -> str:
    images = [container["image"] for container in pod["spec"]["containers"]]
    if any(image.endswith(":missing") for image in images):
        return "image-missing"
    fate: str = pod["metadata"].get("annotations", {}).get(FATE, "healthy")
    return fate


def _pod_status(pod: Object, fate: str, now: str) -> Object:
    state: Object = {"running": {"startedAt": now}}
    if fate == "image-missing":
        state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    ready = "True" if fate == "healthy" else "False"
    return {
        "phase": "Pending" if fate == "image-missing" else "Running",
        "fate": fate,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now}],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "ready": fate == "healthy",
                "restartCount": 0,
                "state": state,
            }
            for container in pod["spec"]["containers"]
        ],
    }
