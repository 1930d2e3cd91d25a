"""Deployments, StatefulSets and DaemonSets in the numbers that they have in common."""

import msgspec
from msgspec import Struct

from ...render.secrets import AUTHORITY, CERTIFICATE, KEYS
from .metadata import Metadata, unversioned

REVISION = "deployment.kubernetes.io/revision"


class _Condition(Struct):
    type: str = ""
    status: str = ""
    message: str = ""


class _TemplateAnnotations(Struct):
    certificate: str = msgspec.field(name=CERTIFICATE, default="")
    authority: str = msgspec.field(name=AUTHORITY, default="")
    keys: str = msgspec.field(name=KEYS, default="")


class _TemplateMetadata(Struct):
    annotations: _TemplateAnnotations = msgspec.field(default_factory=_TemplateAnnotations)


class _Template(Struct):
    metadata: _TemplateMetadata = msgspec.field(default_factory=_TemplateMetadata)


class _WorkloadSpec(Struct):
    replicas: int = 1
    template: _Template = msgspec.field(default_factory=_Template)


class _WorkloadStatus(Struct, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0
    conditions: list[_Condition] | None = None


class WorkloadForm(Struct):
    """A Deployment, StatefulSet or DaemonSet as the API server tells it."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = msgspec.field(default_factory=_WorkloadStatus)


class Workload(Struct):
    """A workload in the numbers that all three kinds have in common."""

    metadata: Metadata
    desired: int
    created: int
    ready: int
    settled: bool
    """Whether exactly the pods of the current generation run, and all are ready."""
    refused: str | None = None
    """Why pods could not be created, where the workload itself says so."""
    certificate: str = ""
    authority: str = ""
    keys: str = ""
    """What its pods are started with, where they are told."""


def deployment_of(form: WorkloadForm) -> Workload:
    form.metadata.annotations.pop(REVISION, None)  # the controller's count is nobody's news
    return _replicated(form, form.status.available_replicas)


def stateful_set_of(form: WorkloadForm) -> Workload:
    return _replicated(form, form.status.ready_replicas)


def daemon_set_of(form: WorkloadForm) -> Workload:
    status = form.status
    desired = status.desired_number_scheduled
    whole = status.updated_number_scheduled == desired and status.number_ready >= desired
    return Workload(
        metadata=unversioned(form.metadata),
        desired=desired,
        created=status.current_number_scheduled,
        ready=status.number_ready,
        settled=_current(form) and whole,
        **_started_with(form),
    )


def _replicated(form: WorkloadForm, available: int) -> Workload:
    status, desired = form.status, form.spec.replicas
    failures = [each for each in status.conditions or () if each.type == "ReplicaFailure"]
    whole = status.replicas == status.updated_replicas == desired and available >= desired
    return Workload(
        metadata=unversioned(form.metadata),
        desired=desired,
        created=status.replicas,
        ready=status.ready_replicas,
        settled=_current(form) and whole,
        refused=next((each.message for each in failures if each.status == "True"), None),
        **_started_with(form),
    )


def _started_with(form: WorkloadForm) -> dict[str, str]:
    given = form.spec.template.metadata.annotations
    return {
        "certificate": given.certificate,
        "authority": given.authority,
        "keys": given.keys,
    }


def _current(form: WorkloadForm) -> bool:
    return form.status.observed_generation >= form.metadata.generation
