"""Everything that the operator follows, and whom a change concerns."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..kube.cache import Cache, Key
from ..kube.client import Client
from ..kube.resources import (
    CONFIG_MAP,
    DAEMON_SET,
    DEPLOYMENT,
    EVENT,
    NETWORK_POLICY,
    POD,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Resource,
)
from ..render.metadata import COMPONENT, FEDERATION_LABEL, MANAGED_BY, MANAGER, TRUST
from ..status import observed
from ..status.observed import Federation, Metadata, Mishap, Pod, Refusal, Trust, Workload
from .actions import Existing
from .desired import FEDERATION, SKUPPER, WORKLOADS, Identity

OURS = {"labelSelector": f"{MANAGED_BY}={MANAGER},{COMPONENT}!={TRUST}"}
TRUSTED = {"labelSelector": f"{MANAGED_BY}={MANAGER},{COMPONENT}={TRUST}"}
# The API server goes through all Events anew for each watch of them, so there is one. What comes
# most often of warnings is told by the pods themselves.
_OFTEN = ("BackOff", "FailedScheduling", "Unhealthy")
WARNINGS = {"fieldSelector": ",".join(["type=Warning", *(f"reason!={each}" for each in _OFTEN)])}
# Objects and pods change many times in a row; to look at them once for all is soon enough.
CALM_SECONDS = 0.5

__all__ = ["Caches", "Key"]


class Caches:
    """`changed` hears of each Federation that is another now, `news` of each that something has
    happened to."""

    def __init__(
        self,
        client: Client,
        namespaces: Sequence[str],
        changed: Callable[[Key], None],
        news: Callable[[Key], None],
        *,
        task_executor: bool = True,
    ) -> None:
        self._changed = changed
        self._news = news
        self._ours = False
        self.federations: Cache[observed.FederationForm, Federation] = Cache(
            client,
            FEDERATION,
            observed.FederationForm,
            observed.federation_of,
            namespaces=namespaces,
            changed=self._federation_changed,
        )
        self.pods: Cache[observed.PodForm, Pod] = Cache(
            client,
            POD,
            observed.PodForm,
            observed.pod_of,
            namespaces=namespaces,
            select=OURS,
            calm=CALM_SECONDS,
            index=lambda pod: (pod.namespace, pod.federation),
            changed=self._pod_changed,
        )
        self._events: Cache[observed.EventForm, Refusal | Mishap] = Cache(
            client,
            EVENT,
            observed.EventForm,
            observed.told_by,
            namespaces=namespaces,
            select=WARNINGS,
            calm=CALM_SECONDS,
            index=_concerning,
            changed=self._event_changed,
        )
        self._trust: dict[str, Cache[observed.TrustForm, Trust]] = {
            resource.kind: Cache(
                client,
                resource,
                observed.TrustForm,
                observed.trust_of,
                namespaces=namespaces,
                select=TRUSTED,
                calm=CALM_SECONDS,
                index=_federation,
                changed=self._trust_changed,
            )
            for resource in (SECRET, CONFIG_MAP)
        }
        self._client, self._namespaces = client, namespaces
        self._children: dict[str, Cache[Any, Any]] = {}
        for resource, form, keep in (
            (NETWORK_POLICY, observed.CountedForm, observed.counted_of),
            (SERVICE, observed.ServiceForm, observed.service_of),
            (CONFIG_MAP, observed.ChildForm, observed.child_of),
            (SERVICE_ACCOUNT, observed.ServiceAccountForm, observed.service_account_of),
            (ROLE_BINDING, observed.RoleBindingForm, observed.role_binding_of),
            (DEPLOYMENT, observed.WorkloadForm, observed.deployment_of),
            (STATEFUL_SET, observed.WorkloadForm, observed.stateful_set_of),
            (DAEMON_SET, observed.WorkloadForm, observed.daemon_set_of),
        ):
            # Without the executor the operator has no permission for these.
            if task_executor or resource not in (SERVICE_ACCOUNT, ROLE_BINDING):
                self._children[resource.kind] = self._children_of(resource, form, keep)

    def _children_of(
        self, resource: Resource, form: type[Any], keep: Callable[[Any], Any]
    ) -> Cache[Any, Any]:
        return Cache(
            self._client,
            resource,
            form,
            keep,
            namespaces=self._namespaces,
            select=OURS,
            calm=CALM_SECONDS,
            index=_owner_uid,
            changed=self._child_changed,
        )

    def add_skupper(self) -> list[Cache[Any, Any]]:
        """Caches of objects that only some clusters know; whoever adds them runs them."""
        added = {
            kind: self._children_of(
                resource, observed.InterconnectionForm, partial(observed.interconnection_of, kind)
            )
            for kind, resource in SKUPPER.items()
        }
        self._children |= added
        return list(added.values())

    @property
    def synced(self) -> bool:
        return all(cache.synced for cache in self._all())

    async def wait_until_synced(self) -> None:
        for cache in self._all():
            await cache.wait_until_synced()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for cache in self._all():
                group.create_task(cache.run())

    def children(self, uid: str) -> dict[Identity, Existing]:
        """All objects of the Federation with this uid."""
        return {
            (kind, child.metadata.name): child
            for kind, cache in self._children.items()
            for child in cache.group(uid)
        }

    def workloads(self, uid: str) -> dict[Identity, Workload]:
        return {
            (kind, workload.metadata.name): workload
            for kind in WORKLOADS
            for workload in self._children[kind].group(uid)
        }

    def refusal(self, uid: str) -> str | None:
        """The API server's latest words to a workload that wanted a pod."""
        found = self._events.group(uid)
        return found[-1].message if found else None

    def mishaps(self, namespace: str, workloads: Iterable[Workload]) -> list[Mishap]:
        names = {workload.metadata.name for workload in workloads}
        found = self._events.group((namespace,))
        return [each for each in found if isinstance(each, Mishap) and each.workloads & names]

    def addresses(self, namespace: str, service: str) -> tuple[str, ...]:
        """Where a Service says that it is reached from outside."""
        found: observed.Service | None = self._children[SERVICE.kind].get((namespace, service))
        return found.addresses if found else ()

    def node_port(self, namespace: str, service: str, port: str) -> int | None:
        """The number that a Service was given on every node, for one of its ports."""
        found: observed.Service | None = self._children[SERVICE.kind].get((namespace, service))
        return observed.node_port_of(found, port) if found else None

    def trust(self, kind: str, namespace: str, name: str) -> Trust | None:
        return self._trust[kind].get((namespace, name))

    def secrets(self, key: Key) -> list[str]:
        """Names of the Secrets with keys and certificates of a Federation."""
        return [each.metadata.name for each in self._trust[SECRET.kind].group(key)]

    def put_trust(self, kind: str, answer: bytes) -> None:
        with self._quietly():
            self._trust[kind].put(answer)

    def put(self, kind: str, answer: bytes) -> Metadata:
        """Take over the answer to a write of ours; its writer knows of it and is not told."""
        cache: Any = self.federations if kind == FEDERATION.kind else self._children[kind]
        with self._quietly():
            kept: Existing | Federation = cache.put(answer)
        return kept.metadata

    @contextmanager
    def _quietly(self) -> Any:
        self._ours = True
        try:
            yield
        finally:
            self._ours = False

    def _all(self) -> list[Cache[Any, Any]]:
        rest = [*self._trust.values(), *self._children.values()]
        return [self.federations, self.pods, self._events, *rest]

    def _tell(self, key: Key) -> None:
        if not self._ours:
            self._news(key)

    def _federation_changed(self, key: Key, old: Federation | None, new: Federation | None) -> None:
        if self._ours and old and new and (old.metadata, old.spec) == (new.metadata, new.spec):
            return  # just the status that was written; anything else came in between
        self._changed(key)

    def _trust_changed(self, key: Key, old: Trust | None, new: Trust | None) -> None:
        """By label: what another controller made has no owner at first."""
        for each in (old, new):
            if each:
                self._tell(_federation(each))

    def _child_changed(self, key: Key, old: Existing | None, new: Existing | None) -> None:
        for each in (old, new):
            if each and (owner := each.metadata.owner):
                self._tell((key[0], owner.name))

    def _pod_changed(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        if pod := new or old:
            self._tell((key[0], pod.federation))

    def _event_changed(
        self, key: Key, old: Refusal | Mishap | None, new: Refusal | Mishap | None
    ) -> None:
        if event := new or old:
            for name in event.workloads:
                self._workload_changed(key[0], name)

    def _workload_changed(self, namespace: str, name: str) -> None:
        for kind in WORKLOADS:
            workload = self._children[kind].get((namespace, name))
            self._child_changed((namespace, name), workload, None)


def _owner_uid(child: Existing) -> str | None:
    owner = child.metadata.owner
    return owner.uid if owner else None


def _concerning(event: Refusal | Mishap) -> Hashable:
    return event.uid if isinstance(event, Refusal) else (event.namespace,)


def _federation(trust: Trust) -> Key:
    return trust.metadata.namespace, trust.metadata.labels.get(FEDERATION_LABEL, "")
