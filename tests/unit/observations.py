"""Objects as the API server would have them, and as the operator sees them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from flower_operator.kube.applied import marked
from flower_operator.operator.actions import APPLIED, Existing, first_mark
from flower_operator.operator.desired import COUNTED, Identity, desired_of
from flower_operator.status import observed
from flower_operator.status.observed import Federation, Workload
from tests.unit.federations import Document

UID = "5f6c1d0a-0000-4000-8000-000000000001"
NAMESPACE = "team"

_KEPT: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "NetworkPolicy": (observed.CountedForm, observed.counted_of),
    "Service": (observed.ServiceForm, observed.service_of),
    "ConfigMap": (observed.ChildForm, observed.child_of),
    "ServiceAccount": (observed.ServiceAccountForm, observed.service_account_of),
    "RoleBinding": (observed.RoleBindingForm, observed.role_binding_of),
    "Deployment": (observed.WorkloadForm, observed.deployment_of),
    "StatefulSet": (observed.WorkloadForm, observed.stateful_set_of),
    "DaemonSet": (observed.WorkloadForm, observed.daemon_set_of),
}


def federation(
    manifest: Document, *, generation: int = 1, annotations: Mapping[str, str] | None = None
) -> Federation:
    """A manifest as the cache has it once it is on the cluster."""
    metadata = {
        "name": manifest["metadata"]["name"],
        "namespace": NAMESPACE,
        "uid": UID,
        "generation": generation,
        "resourceVersion": "41",
        "annotations": dict(annotations or {}),
    }
    answer = msgspec.json.encode({**manifest, "metadata": metadata})
    return observed.federation_of(msgspec.json.decode(answer, type=observed.FederationForm))


def observe(answer: Document) -> Existing:
    """An object through JSON and the form of its kind, as the cache takes it in."""
    form, keep = _KEPT[answer["kind"]]
    kept: Existing = keep(msgspec.json.decode(msgspec.json.encode(answer), type=form))
    return kept


def observe_all(answers: Iterable[Document]) -> dict[Identity, Existing]:
    return {(each["kind"], each["metadata"]["name"]): observe(each) for each in answers}


def workload(kind: str, name: str, status: Document, **spec: Any) -> Workload:
    """A workload of generation 1 with this status."""
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    answer = {"kind": kind, "metadata": metadata, "spec": spec, "status": status}
    kept = observe(answer)
    assert isinstance(kept, Workload)
    return kept


def applied(manifest: Document) -> dict[Identity, Document]:
    """All children of a Federation as the API server has them after the first apply."""
    desired, bodies = desired_of(federation(manifest))
    children = {}
    for wanted in desired.children:
        body = marked(bodies[wanted.identity], APPLIED, first_mark(wanted))
        metadata = {**body["metadata"], "uid": f"uid-{wanted.kind}-{wanted.name}"}
        metadata["resourceVersion"] = "42"
        if wanted.kind in COUNTED:
            metadata["generation"] = 1
        # Through JSON: the copy may be changed without touching what was rendered.
        copy = msgspec.json.decode(msgspec.json.encode({**body, "metadata": metadata}))
        children[wanted.identity] = copy
    return children
