"""What Events say that nothing else does."""

from datetime import datetime

import msgspec
from msgspec import Struct

# The kubelet waits up to 122 s before it tries to mount a volume again, and tells if it could not.
MOUNT_SECONDS = 150.0


class _EventMetadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _InvolvedObject(Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""


class EventForm(Struct, rename="camel"):
    metadata: _EventMetadata = msgspec.field(default_factory=_EventMetadata)
    involved_object: _InvolvedObject = msgspec.field(default_factory=_InvolvedObject)
    reason: str = ""
    message: str = ""
    count: int | None = 1
    last_timestamp: str | None = None


class Refusal(Struct):
    """The API server's words to a workload that wanted a pod."""

    uid: str
    workload: str
    message: str

    @property
    def workloads(self) -> set[str]:
        return {self.workload}


class Mishap(Struct):
    """The kubelet's words about a pod that it cannot start: a volume is not there."""

    namespace: str
    pod: str
    message: str
    until: float
    """When it is taken to be over, as seconds of the epoch, unless it happens again."""

    @property
    def workloads(self) -> set[str]:
        """Whose pod it can be: names of pods end with a number, or with one or two hashes."""
        parts = self.pod.split("-")
        return {"-".join(parts[:-1]), "-".join(parts[:-2])}


def told_by(form: EventForm) -> Refusal | Mishap | None:
    """What an Event says that nothing else does."""
    match form.reason:
        case "FailedCreate":
            return _refusal_of(form)
        case "FailedMount":
            return _mishap_of(form)
    return None


def _refusal_of(form: EventForm) -> Refusal | None:
    """A Deployment tells it in its own status, these two only in Events."""
    about = form.involved_object
    if about.kind not in ("StatefulSet", "DaemonSet"):
        return None
    return Refusal(about.uid, about.name, form.message)


def _mishap_of(form: EventForm) -> Mishap | None:
    """Twice is nothing: a pod and what it mounts are often made at the same time."""
    if form.involved_object.kind != "Pod" or not form.last_timestamp or (form.count or 1) < 3:
        return None
    last: float = datetime.fromisoformat(form.last_timestamp).timestamp()
    pod = form.involved_object.name
    return Mishap(form.metadata.namespace, pod, form.message, last + MOUNT_SECONDS)
