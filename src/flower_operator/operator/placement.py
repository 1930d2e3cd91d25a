"""Federations with pools on other clusters: what of them is the hub's."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from ..fleet.addon import Route
from ..fleet.advance import Advance
from ..fleet.hub import Hub
from ..fleet.keys import (
    NOBODY,
    Enrolled,
    Record,
    Renewal,
    Report,
    admitted,
    enrol,
    key_limit,
    read_record,
    renew,
    round_of,
    write_record,
)
from ..fleet.partitions import Holder, Partitions, allocate, read, total, write
from ..fleet.placing import Order, Outcome, Placing
from ..fleet.resources import CLUSTER_GROUP
from ..fleet.route import linked_route, route_of
from ..fleet.survey import PlacedPool, Survey, Surveyor
from ..kube.client import Client
from ..render import Facts
from ..render.agent import ROUND_VARIABLE, admitted_files
from ..render.facts import Numbers
from ..render.metadata import PREFIX
from ..render.skupper import Grant
from ..status.interconnect import grants_of
from ..status.observation import Connected, Fault, Placed
from ..status.observed import Federation, FederationForm, Workload
from ..status.outline import Exposure, Outline
from ..trust.keys import Enrolment
from .caches import Caches, Key
from .desired import FEDERATION, parsed_of
from .ledger import Ledger
from .transitions import Transition

FINALIZER = f"{PREFIX}/fleet"
NOT_THERE = (
    "pools with placement need Open Cluster Management: this cluster has no API group "
    f"{CLUSTER_GROUP}, or its operator was started before that or without --fleet"
)
NO_GRANT = ("Interconnecting", "Skupper's AccessGrant lets nobody link yet")


@dataclass(frozen=True)
class Look:
    """Where pools are to run, and which partitions everyone has."""

    survey: Survey
    partitions: Partitions
    numbers: Numbers
    enrolled: Enrolled = NOBODY
    """The keys of SuperNodes elsewhere, where they have keys."""
    enrolment: Enrolment | None = None
    """What the SuperLink knows of them."""
    told: tuple[Transition, ...] = ()
    notes: tuple[str, ...] = ()
    """What waits, and for what."""
    recheck: float | None = None
    """Seconds until time alone may change it."""

    @property
    def connected(self) -> dict[Holder, int]:
        if self.enrolment is None:
            return {}
        online = self.enrolment.online
        return {holder: len(keys & online) for holder, keys in self.enrolled.current.items()}


class Placements:
    """None of a hub where Open Cluster Management is not installed."""

    def __init__(
        self, client: Client, caches: Caches, hub: Hub | None, clock: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock
        self._surveyor = Surveyor(hub, clock) if hub else None
        self._placing = Placing(client, hub, clock) if hub else None
        self._ledger = Ledger(client, "partitions", read, write)
        self._keys = Ledger(client, "fleet-keys", read_record, write_record)

    async def look(
        self, key: Key, federation: Federation, outline: Outline, connected: Connected
    ) -> Look | None:
        """Numbers and keys are written down here, before anyone hears of them. Raises
        TrustFault."""
        if not outline.placed or self._surveyor is None:
            return None
        await self._hold(federation)
        pools = _pools(outline)
        survey = self._surveyor.survey(key, pools)
        written = await self._ledger.read(federation)
        held = self._surveyor.recorded(key, pools) if written is None else written
        wanted = {(pool.name, ""): pool.size for pool in outline.pools}
        wanted |= survey.holders(pools, held)
        partitions = allocate(held, wanted)
        if partitions != written:
            await self._ledger.write(federation, partitions)
        own = tuple(
            (pool.name, tuple(map(str, partitions[pool.name, ""]))) for pool in outline.pools
        )
        numbers = Numbers(own, str(total(partitions)))
        look = Look(survey, partitions, numbers, recheck=survey.recheck)
        if not outline.authenticated:
            return look
        reports = self._surveyor.reports(key, pools)
        return await self._look_at_keys(federation, outline, connected, reports, look)

    def advances(self, key: Key, outline: Outline, look: Look | None) -> list[Advance]:
        if look is None or self._surveyor is None:
            return []
        return self._surveyor.advances(key, _pools(outline), look.survey)

    def workloads(self, key: Key, outline: Outline) -> list[Workload]:
        """Of other clusters: what trusts the SuperLink there."""
        return self._surveyor.workloads(key, _pools(outline)) if self._surveyor else []

    async def _look_at_keys(
        self,
        federation: Federation,
        outline: Outline,
        connected: Connected,
        reports: Mapping[Holder, Report],
        look: Look,
    ) -> Look:
        now, enrolment = self._clock(), connected.enrolment
        record = await self._keys.read(federation) or Record()
        limits = {pool.name: key_limit(pool.size) for pool in outline.placed}
        enrolled = enrol(record, look.survey.keyholders, reports, limits, enrolment, now)
        busy = bool(connected.busy) if enrolment else None
        renewal = renew(enrolled, reports, now, busy=busy, max_wait=outline.max_wait)
        if renewal.record != record:
            await self._keys.write(federation, renewal.record)
        turns = [look.recheck, (renewal.again - now).total_seconds() if renewal.again else None]
        return replace(
            look,
            enrolled=replace(enrolled, record=renewal.record),
            enrolment=enrolment,
            told=_told(renewal),
            notes=_notes(renewal),
            recheck=min((each for each in turns if each is not None), default=None),
        )

    async def care(
        self,
        key: Key,
        federation: Federation,
        outline: Outline,
        look: Look | None,
        facts: Facts,
        bundle: str | None,
        version: tuple[Any, ...],
        held: Collection[Holder],
    ) -> tuple[list[Placed], Outcome]:
        """`held`: those that stay at the Flower release that they have."""
        if not outline.placed:
            await self._let_go(key, federation)
            return [], Outcome()
        if not self._placing or not self._surveyor or look is None or outline.exposure is None:
            missing = ("NoClusterManagement", NOT_THERE)
            return [Placed(pool, waiting=missing) for pool in outline.placed], Outcome()
        route = self._route(key, outline, outline.exposure)
        if isinstance(route, tuple):
            return [Placed(pool, waiting=route) for pool in outline.placed], Outcome()
        pools = _pools(outline)
        grant = self._grant(federation) if outline.interconnected else None
        # What runs elsewhere is linked: without a grant it stays as it is.
        locked = outline.interconnected and grant is None
        order = Order(partial(parsed_of, federation), version, facts, route, bundle, grant)
        further = _of_keys(outline, look) if outline.authenticated else {}
        outcome = Outcome()
        if not locked:
            outcome = await self._placing.care(
                key, order, pools, look.survey, look.partitions, further, held
            )
        outcome.refused += [
            f"cluster {cluster} tells of a key that is another's: it is not let in with that"
            for _, cluster in look.enrolled.claimed
        ]
        placed = []
        for pool, known in zip(outline.placed, pools, strict=True):
            clusters = self._surveyor.statuses(
                key, known, look.survey, look.partitions, look.connected
            )
            waiting = None if clusters else _nowhere(known, look.survey)
            if locked and any(each.addon == "Placing" for each in clusters):
                waiting = NO_GRANT
            apps = self._surveyor.spread(key, known, look.survey)
            told = apps.missing, apps.fault, apps.recheck
            keys = _excess(known, look)
            placed.append(Placed(pool, tuple(clusters), waiting, *told, keys_faults=keys))
        return placed, outcome

    def _route(self, key: Key, outline: Outline, exposure: Exposure) -> Route | tuple[str, str]:
        if outline.interconnected:
            return linked_route(outline.superlink, exposure)
        addresses = self._caches.addresses(key[0], outline.superlink)
        node_port = self._caches.node_port(key[0], outline.superlink, "fleet")
        return route_of(exposure, addresses, node_port)

    def _grant(self, federation: Federation) -> Grant | None:
        children = self._caches.children(federation.metadata.uid).values()
        return grants_of(children, self._clock()).current

    async def leave(self, key: Key, federation: Federation) -> bool:
        """Of a Federation that is to go: whether nothing of it is left elsewhere."""
        if FINALIZER not in federation.metadata.finalizers:
            return True
        self._ledger.forget(federation.metadata.uid)
        self._keys.forget(federation.metadata.uid)
        return await self._let_go(key, federation)

    async def _let_go(self, key: Key, federation: Federation) -> bool:
        if FINALIZER not in federation.metadata.finalizers:
            return True
        if self._surveyor:
            self._surveyor.forget(key)
        if self._placing and not await self._placing.leave(key):
            return False
        await self._set_finalizer(federation, wanted=False)
        return True

    async def _hold(self, federation: Federation) -> None:
        """Other clusters must be cleared before it may go."""
        if FINALIZER not in federation.metadata.finalizers:
            await self._set_finalizer(federation, wanted=True)

    async def _set_finalizer(self, federation: Federation, *, wanted: bool) -> None:
        """Replace the list that was just read, and no other: a patch replaces the whole list.
        Raises ApiError (409) if it was changed in between."""
        metadata = federation.metadata
        path = FEDERATION.path(metadata.namespace, metadata.name)
        live = msgspec.json.decode(await self._client.get(path), type=FederationForm).metadata
        finalizers = [each for each in live.finalizers if each != FINALIZER]
        finalizers += [FINALIZER] if wanted else []
        changes = {
            "uid": metadata.uid,
            "resourceVersion": live.resource_version,
            "finalizers": finalizers,
        }
        answer = await self._client.patch(
            FEDERATION, metadata.namespace, metadata.name, {"metadata": changes}
        )
        if finalizers:
            self._caches.put(FEDERATION.kind, answer)


def _pools(outline: Outline) -> list[PlacedPool]:
    return [
        PlacedPool(
            pool.name,
            pool.position,
            pool.placement,
            pool.size,
            pool.replicas,
            pool.release,
            pool.rollout,
        )
        for pool in outline.placed
    ]


def _of_keys(outline: Outline, look: Look) -> dict[Holder, dict[str, str]]:
    """What each cluster is told about the keys of its SuperNodes, as variables of its config."""
    files = {pool.name: admitted_files(pool.size) for pool in outline.placed}
    current, record = look.enrolled.current, look.enrolled.record
    return {
        holder: admitted(current.get(holder, ()), look.enrolment, files[holder[0]])
        | {ROUND_VARIABLE: round_of(record, holder)}
        for holder in look.survey.members
    }


def _excess(pool: PlacedPool, look: Look) -> tuple[Fault, ...]:
    limit = key_limit(pool.size)
    return tuple(
        Fault(
            "TooManyKeys",
            f"cluster {cluster} reports {count} keys for at most {limit} SuperNode"
            f"{'s' if limit != 1 else ''}; no new key of that cluster is registered",
        )
        for (name, cluster), count in look.enrolled.excess.items()
        if name == pool.name
    )


def _told(renewal: Renewal) -> tuple[Transition, ...]:
    return tuple(
        Transition("KeysDue", f"pool {pool}: SuperNodes on {cluster} get new keys", warning=False)
        for pool, cluster in renewal.begun
    )


def _notes(renewal: Renewal) -> tuple[str, ...]:
    if not renewal.waiting:
        return ()
    number = len({cluster for _, cluster in renewal.waiting})
    return (f"new keys of SuperNodes on {number} clusters wait until no run is under way",)


def _nowhere(pool: PlacedPool, survey: Survey) -> tuple[str, str]:
    if survey.memberships[pool.name] is None:
        return "NoPlacement", (
            f"pool {pool.name}: Placement {pool.placement} is not there or has not decided yet"
        )
    return "NoClusters", f"pool {pool.name}: Placement {pool.placement} selects no cluster"
