"""A hub's objects at hand, and which Federations their changes concern."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from ..kube.cache import Cache, Key
from ..kube.client import Client
from ..render.metadata import COMPONENT, MANAGER
from . import observed
from .addon import ADDON_PREFIX, FEDERATION, NAMESPACE
from .observed import Addon, Cluster, Decision, Object, Work
from .resources import ADDON, MANAGED_CLUSTER, OWN, PLACEMENT_DECISION, WORK, WORK_SET

OURS = {"labelSelector": f"app.kubernetes.io/managed-by={MANAGER},{COMPONENT}=fleet"}
OF_ADDONS = {"labelSelector": observed.ADDON_NAME}
OF_SETS = {"labelSelector": observed.WORK_SET_NAME}
CALM_SECONDS = 0.5
Identity = tuple[str, str, str]
"""Kind, namespace and name."""


class Hub:
    """`concerned` hears of each Federation that something has happened to."""

    def __init__(self, client: Client, concerned: Callable[[Key], None]) -> None:
        self._concerned = concerned
        self._quiet = False
        self._followers: dict[tuple[str, str], set[Key]] = {}
        self._pools: dict[str, Key] = {}
        self._decisions: Cache[observed.DecisionForm, Decision] = Cache(
            client,
            PLACEMENT_DECISION,
            observed.DecisionForm,
            observed.decision_of,
            index=lambda each: (each.namespace, each.placement),
            changed=self._decision_changed,
        )
        self._clusters: Cache[observed.ClusterForm, Cluster] = Cache(
            client,
            MANAGED_CLUSTER,
            observed.ClusterForm,
            observed.cluster_of,
            calm=CALM_SECONDS,
            changed=self._cluster_changed,
        )
        self._works, self._apps = (
            Cache(
                client,
                WORK,
                observed.WorkForm,
                _our_work,
                select=select,
                calm=CALM_SECONDS,
                index=lambda work: work.addon,
                changed=self._work_changed,
            )
            for select in (OF_ADDONS, OF_SETS)
        )
        self._objects: dict[str, Cache[Any, Any]] = {}
        for resource in OWN.values():
            form, keep = _FORMS.get(resource.kind, (observed.ObjectForm, observed.object_of))
            self._objects[resource.kind] = Cache(
                client,
                resource,
                form,
                keep,
                select=OURS,
                calm=CALM_SECONDS,
                index=_federation,
                changed=self._object_changed,
            )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for cache in self._all():
                group.create_task(cache.run())

    @property
    def synced(self) -> bool:
        return all(cache.synced for cache in self._all())

    async def wait_until_synced(self) -> None:
        for cache in self._all():
            await cache.wait_until_synced()

    def follow(self, key: Key, placements: Iterable[str], addons: Iterable[str]) -> None:
        """From now on this Federation hears of these, and of no others."""
        self.forget(key)
        for placement in placements:
            self._followers.setdefault((key[0], placement), set()).add(key)
        self._pools |= dict.fromkeys(addons, key)

    def forget(self, key: Key) -> None:
        for followers in self._followers.values():
            followers.discard(key)
        self._followers = {each: keys for each, keys in self._followers.items() if keys}
        self._pools = {addon: owner for addon, owner in self._pools.items() if owner != key}

    def decided(self, namespace: str, placement: str) -> set[str] | None:
        """The clusters that a Placement selects; None: it is not there, or yet to decide."""
        pages = self._decisions.group((namespace, placement))
        return {name for page in pages for name in page.clusters} if pages else None

    @property
    def clusters(self) -> dict[str, Cluster]:
        return {each.name: each for each in self._clusters.values()}

    def works(self, addon: str) -> dict[str, Work]:
        return {work.cluster: work for work in self._works.group(addon)}

    def apps(self, addon: str) -> dict[str, Work]:
        """The works with the SuperExecs of an addon's ClientApps, by cluster."""
        return {work.cluster: work for work in self._apps.group(addon)}

    def objects(self, key: Key) -> dict[Identity, Object]:
        """Everything that was made for a Federation."""
        return {
            (kind, each.metadata.namespace, each.metadata.name): each
            for kind, cache in self._objects.items()
            for each in cache.group(key)
        }

    def addons(self, key: Key, addon: str) -> dict[str, Addon]:
        """By cluster."""
        found = self._objects[ADDON.kind].group(key)
        return {each.metadata.namespace: each for each in found if each.metadata.name == addon}

    def newest_apps(self, namespace: str, addon: str) -> str | None:
        """The mark of what ClientApps are to run in; None: there is no such thing apart."""
        found: Object | None = self._objects[WORK_SET.kind].get((namespace, addon))
        return found.metadata.annotations.get(observed.MARKED) if found else None

    def put(self, kind: str, answer: bytes) -> Object:
        """Take over the answer to a write of ours; its writer knows of it and is not told."""
        self._quiet = True
        try:
            kept = self._objects[kind].put(answer)
        finally:
            self._quiet = False
        assert isinstance(kept, Object)
        return kept

    def _all(self) -> list[Cache[Any, Any]]:
        works = [self._works, self._apps]
        return [self._decisions, self._clusters, *works, *self._objects.values()]

    def _decision_changed(self, key: Key, old: Decision | None, new: Decision | None) -> None:
        for each in (old, new):
            if each:
                for follower in self._followers.get((each.namespace, each.placement), ()):
                    self._concerned(follower)

    def _cluster_changed(self, key: Key, old: Cluster | None, new: Cluster | None) -> None:
        for followers in self._followers.values():
            for follower in followers:
                self._concerned(follower)

    def _work_changed(self, key: Key, old: Work | None, new: Work | None) -> None:
        for each in (old, new):
            if each and (owner := self._pools.get(each.addon)):
                self._concerned(owner)

    def _object_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if not self._quiet:
            for each in (old, new):
                if each and (owner := _federation(each)):
                    self._concerned(owner)


_FORMS: dict[str, tuple[Any, Any]] = {
    ADDON.kind: (observed.AddonForm, observed.addon_of),
}


def _our_work(form: observed.WorkForm) -> Work | None:
    work = observed.work_of(form)
    return work if work.addon.startswith(ADDON_PREFIX) else None


def _federation(each: Object) -> Key | None:
    labels = each.metadata.labels
    name = labels.get(FEDERATION)
    return (labels.get(NAMESPACE, ""), name) if name else None
