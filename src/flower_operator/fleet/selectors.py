"""Selectors of workloads on managed clusters: one that exists there cannot be changed."""

import copy
from collections.abc import Iterable
from typing import Any

from ..kube.applied import with_live_selector
from .resources import TEMPLATE, WORK_SET

Object = dict[str, Any]

WITH_WORKLOADS = (TEMPLATE.kind, WORK_SET.kind)


def keep_selector(wanted: Object, live: Iterable[Object]) -> Object:
    """An AddOnTemplate or a ManifestWorkReplicaSet with the selector that its workload has in one
    of those that exist, if pods that are wanted still match it."""
    workload = _manifests(wanted)[-1]  # unless the pool is suspended
    for manifest in (manifest for each in live for manifest in _manifests(each)):
        if not _are_workload(manifest, workload):
            continue
        if kept := with_live_selector(manifest, workload):
            result = copy.deepcopy(wanted)
            _manifests(result)[-1] = kept
            return result
    return wanted


def _manifests(body: Object) -> list[Object]:
    spec = body["spec"]
    part = spec.get("agentSpec") or spec["manifestWorkTemplate"]
    found: list[Object] = part["workload"].get("manifests", [])
    return found


def _are_workload(one: Object, other: Object) -> bool:
    """Whether both are the same workload."""
    names = [(each["kind"], each["metadata"]["name"]) for each in (one, other)]
    return names[0] == names[1] and "template" in one.get("spec", {})
