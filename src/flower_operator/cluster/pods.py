"""Pods of a Federation: what they are called, which of them a word means, what ails them."""

from collections.abc import Iterator, Sequence

import msgspec

from ..api.rules import pool_name
from ..render.metadata import COMPONENT, PREFIX, SUPEREXEC_SERVERAPP
from ..status.troubles import PodStatus, Trouble, troubles_of
from .errors import ClusterError

Struct = msgspec.Struct

SUPERLINK = "superlink"
# The pod of the SuperExec that runs them, if not the SuperLink's; on a machine there is none.
SERVERAPP = "serverapp"


class _Metadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Container(Struct):
    name: str = ""
    image: str = ""


class _Spec(Struct, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class Pod(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def pool(self) -> str:
        """The pool that it belongs to; none for the SuperLink's."""
        return self.metadata.labels.get(f"{PREFIX}/pool", "")

    @property
    def is_superlink(self) -> bool:
        return self.metadata.labels.get(COMPONENT) == SUPERLINK

    @property
    def title(self) -> str:
        """In a word, that of a machine where it has such a pod: superlink, serverapp, POOL-0."""
        if self.is_superlink:
            return SUPERLINK
        if self.metadata.labels.get(COMPONENT) == SUPEREXEC_SERVERAPP:
            return SERVERAPP
        federation = self.metadata.labels.get(f"{PREFIX}/federation", "")
        return self.name.removeprefix(pool_name(federation, ""))

    @property
    def containers(self) -> tuple[str, ...]:
        own = (*self.spec.init_containers, *self.spec.containers)
        return tuple(each.name for each in own)

    @property
    def leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        conditions = self.status.conditions or ()
        said = any(each.type == "Ready" and each.status == "True" for each in conditions)
        return said and not self.leaving

    def state_of(self, container: str) -> tuple[int, bool]:
        """How often a container was restarted, and whether it runs."""
        own = (
            *(self.status.container_statuses or ()),
            *(self.status.init_container_statuses or ()),
        )
        for each in own:
            if each.name == container:
                return each.restart_count, each.state.running is not None
        return 0, False

    def troubles(self, now: float) -> Iterator[Trouble]:
        """What is wrong with it at this time."""
        if not self.leaving:
            for trouble in troubles_of(self.status, self.spec.node_name):
                if trouble.until is None or trouble.until > now:
                    yield trouble


Meant = list[tuple[Pod, tuple[str, ...]]]
"""Pods, each with the containers of it that are meant."""


def matching(pods: Sequence[Pod], component: str | None) -> Meant:
    """The pods that a word means: those of a machine (superlink, POOL, POOL-0,
    POOL-0/supernode), serverapp, or a pod's own name. Without a word, all."""
    if component is None:
        return [(pod, pod.containers) for pod in pods]
    name, slash, container = component.partition("/")
    found = []
    for pod in pods:
        names = {pod.name, pod.title} | ({pod.pool} if not slash else set())
        containers = (container,) if slash else pod.containers
        if name in names and set(containers) <= set(pod.containers):
            found.append((pod, containers))
    if not found:
        known = ", ".join(sorted({pod.title for pod in pods})) or "no pods yet"
        raise ClusterError(f"there is no component {component}; there are {known}")
    return found


def superlink_pod(federation: str, pods: Sequence[Pod]) -> str:
    """The pod whose ports are worth a connection."""
    own = [pod for pod in pods if pod.is_superlink]
    for pod in own:
        if pod.ready:
            return pod.name
    hint = f"look at: kubectl flower status {federation}"
    if not own:
        raise ClusterError(f"the SuperLink of {federation} has no pod; {hint}")
    raise ClusterError(f"the SuperLink of {federation} is not ready; {hint}")
