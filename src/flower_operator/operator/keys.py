"""Keeps the keys of SuperNodes, and lets pods go whose key the SuperLink accepts."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import POD
from ..render.secrets import GATE
from ..status.admissions import Admissions, admissions_of, names_of
from ..status.observation import Connected
from ..status.observed import Federation, Pod, Workload
from ..status.outline import Outline, PoolOutline
from ..trust.decisions import Step
from ..trust.keys import (
    KeyDecision,
    Keyring,
    Roster,
    changed_keyring,
    decide_keys,
    keyring_name,
    pool_of,
    read_keyring,
    with_retired,
)
from ..trust.layout import Files
from ..trust.records import Unreadable
from .desired import Identity
from .maker import Maker
from .safe import Safe
from .transitions import Transition, transition_of


@dataclass(frozen=True)
class Keyed:
    """The keys of a Federation's SuperNodes, by pool."""

    roster: Roster
    """Also of pools that are gone, as long as keys of theirs may be registered."""
    rounds: tuple[tuple[str, str], ...]
    told: tuple[Transition, ...]
    recheck: float | None
    """Seconds until time alone may change it."""

    @property
    def rings(self) -> dict[str, Keyring]:
        return {pool: ring for pool, ring, _ in self.roster}


class KeyKeeper:
    def __init__(
        self, client: Client, safe: Safe, maker: Maker, clock: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._safe = safe
        self._maker = maker
        self._clock = clock

    async def care(
        self,
        federation: Federation,
        outline: Outline,
        workloads: Mapping[Identity, Workload],
        pods: Collection[Pod],
        connected: Connected,
        before: Roster,
    ) -> Keyed:
        """See to it that every SuperNode has a key. `before`: what the SuperLink was told of, for
        a keyring that was lost. Raises TrustFault."""
        now, told_of = self._clock(), {pool: ring for pool, ring, _ in before}
        roster, told, turns = [], [], []
        for pool in outline.pools:
            workload = workloads.get((pool.kind, pool.workload))
            name = keyring_name(federation.metadata.name, pool.name)
            files = self._safe.files(federation, name, secret=True)
            names = _names(outline, pool, workload, pods, files)
            decision = decide_keys(
                files,
                names,
                now,
                enrolment=connected.enrolment,
                busy=bool(connected.busy),
                max_wait=outline.max_wait,
            )
            if decision.step is not Step.KEEP:
                lost = told_of.get(pool.name) if decision.anew else None
                files = await self._change(federation, name, files, decision, lost)
                told.append(transition_of(decision))
            elif decision.again:
                turns.append((decision.again - now).total_seconds())
            ring = read_keyring(files)
            assert ring
            current = workload is not None and workload.settled and workload.keys == ring.round
            roster.append((pool.name, ring, current))
        rounds = tuple((pool, ring.round) for pool, ring, _ in roster)
        roster += await self._retire(federation, outline, connected)
        return Keyed(tuple(roster), rounds, tuple(told), min(turns, default=None))

    def look(
        self, outline: Outline, keyed: Keyed, pods: Iterable[Pod], connected: Connected
    ) -> Admissions:
        return admissions_of(
            pods,
            keyed.rings,
            connected.enrolment,
            connected.why_not,
            [pool.name for pool in outline.pools if pool.hangs],
            self._clock().timestamp(),
            busy=bool(connected.busy),
        )

    async def admit(self, admissions: Admissions) -> None:
        """Open the gates of pods whose turn it is; replace those that hang."""
        for pod in admissions.admitted:
            rest = [{"name": gate} for gate in pod.gates if gate != GATE]
            changes = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": rest}}
            await _unless_gone(self._client.patch(POD, pod.namespace, pod.name, changes))
        for pod in admissions.hanging:
            await _unless_gone(
                self._client.delete(POD, pod.namespace, pod.name, pod.uid, "Background")
            )

    async def _retire(
        self, federation: Federation, outline: Outline, connected: Connected
    ) -> list[tuple[str, Keyring, bool]]:
        """The keyrings of pools that are gone: their keys are unregistered, then they go too."""
        pools, roster = {pool.name for pool in outline.pools}, []
        for name in self._safe.names(federation):
            pool = pool_of(federation.metadata.name, name)
            files = self._safe.files(federation, name, secret=True)
            if pool is None or pool in pools or not files:
                continue
            decision = decide_keys(files, (), self._clock(), enrolment=connected.enrolment)
            if decision.step is not Step.KEEP:
                files = await self._change(federation, name, files, decision, None)
            ring = read_keyring(files)
            assert ring
            if ring.retired:
                roster.append((pool, ring, True))
            else:
                await self._safe.remove(federation, name)
        return roster

    async def _change(
        self,
        federation: Federation,
        name: str,
        files: Files,
        decision: KeyDecision,
        lost: Keyring | None,
    ) -> Files:
        pairs = await self._maker.make_pairs(decision.make)
        files = changed_keyring(files, decision, pairs, self._clock())
        if lost:
            files = with_retired(files, [*lost.keys.values(), *lost.retired])
        await self._safe.write(federation, name, files, secret=True)
        return files


def _names(
    outline: Outline,
    pool: PoolOutline,
    workload: Workload | None,
    pods: Iterable[Pod],
    files: Files,
) -> set[str]:
    """Of a Federation that is suspended all keep theirs."""
    try:
        ring = read_keyring(files)
    except Unreadable:
        ring = None
    replicas = None if outline.suspended else pool.replicas
    settled = workload is not None and workload.settled and not outline.suspended
    expected = workload.desired if workload and settled else None
    return names_of(replicas, pods, pool.name, ring, expected=expected)


async def _unless_gone(request: Any) -> None:
    try:
        await request
    except ApiError as error:
        if error.code not in (404, 409):  # gone, or another one of that name by now
            raise
