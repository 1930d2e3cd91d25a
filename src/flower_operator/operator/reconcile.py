"""Makes one Federation what it should be, and writes down what it is."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from ..api.problems import InvalidFederation, Problem
from ..api.rules import superlink_name
from ..api.types import FederationStatus
from ..fleet.hub import Hub
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.events import event
from ..kube.resources import ACCESS_GRANT, EVENT
from ..render import Facts
from ..render.facts import Identities, Numbers
from ..render.metadata import MANAGER
from ..status.admissions import Admissions
from ..status.interconnect import MISSING, grants_of, interconnected
from ..status.observation import Fault, Observation, Placed
from ..status.observed import Federation
from ..status.outline import Outline
from ..status.stranded import find_stranded, patience_left
from ..status.summary import refuse, summarize
from .budget import BudgetExceeded, budget
from .caches import Caches, Key
from .children import Children, Outcome
from .connections import Connections
from .desired import FEDERATION, Desired, Identity, desired_of, owner_of, version_of
from .given import Elsewhere
from .keys import KeyKeeper
from .maker import Maker
from .placement import Look, Placements
from .progress import Progress
from .safe import Safe, TrustFault
from .stranded import pods_of, start_again
from .tasks import clear_away, delete, left_over
from .transitions import Transition, progress_only, transitions
from .trust import Keeper, Trusted, may_have_runs
from .upgrade import Upgrade, decide_upgrade

log = logging.getLogger(__name__)

# Other clusters tell when they are done; should one not, it is looked at again.
LEAVING_SECONDS = 5.0
# The largest manifest that is accepted takes a tenth of it (bench/rendering.py).
MAX_RENDER_SECONDS = 2.0
TOO_EXPENSIVE = Problem(
    "spec",
    f"takes more than {MAX_RENDER_SECONDS:g} s of processor time to render; give it fewer "
    "replicas, fewer pools or shorter lists",
    "TooExpensive",
)


class Retry(Exception):
    """Not everything could be done; worth another attempt."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds


class Reconciler:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        connections: Connections,
        facts: Facts,
        clock: Callable[[], datetime],
        hub: Hub | None = None,
        own_namespace: str | None = None,
    ) -> None:
        """`own_namespace`: where the operator's pods are; None if it runs outside the cluster."""
        self._own_namespace = own_namespace
        self._client = client
        self._caches = caches
        self._connections = connections
        self._placements = Placements(client, caches, hub, clock)
        self._facts = facts
        self._clock = clock
        safe, self._maker = Safe(client, caches), Maker()
        elsewhere = Elsewhere(client, caches, safe, self._maker, facts.limits)
        self._keeper = Keeper(caches, safe, self._maker, elsewhere, clock)
        self._key_keeper = KeyKeeper(client, safe, self._maker, clock)
        self._desired: dict[Key, Desired] = {}
        self._identities: dict[Key, Identities] = {}
        self._numbers: dict[Key, Numbers] = {}
        self._progress: Progress[Key] = Progress()
        self._too_expensive: dict[Key, tuple[Any, ...]] = {}
        """Versions that took too long to render: these are not tried again."""

    async def reconcile(self, key: Key, attempts: int) -> float | None:
        """Returns when to look again, if time alone may change something. May raise Retry."""
        federation = self._caches.federations.get(key)
        if federation is None or federation.metadata.deletion_timestamp:
            return await self._let_go(key, federation)
        try:
            desired, bodies = self._look_up(key, federation)
        except InvalidFederation as error:
            faults = [Fault(problem.reason, str(problem)) for problem in error.problems]
            await self._refuse(federation, faults)
            return None
        except Exception as error:
            log.exception("cannot render", extra={"federation": "/".join(key)})
            await self._refuse(federation, [Fault("InternalError", f"cannot render: {error!r}")])
            return None
        try:
            look = await self._look_around(key, federation, desired)
            trusted = await self._care_for_trust(key, federation, desired, look)
        except TrustFault as error:
            await self._refuse(federation, [error.fault])
            raise Retry from None
        if desired.version != version_of(federation, self._facts_of(key)):
            desired, bodies = self._look_up(key, federation)
        upgrade = self._decide_upgrade(key, federation, desired.outline, desired.identities, look)
        if upgrade.fault:
            await self._refuse(federation, [upgrade.fault])
            return trusted.recheck if trusted else None  # what runs needs its certificates
        facts = replace(self._facts_of(key), namespace=key[0])
        children = Children(self._client, self._caches, federation, bodies, attempts, facts)
        outcome = await children.care(desired, upgrade.held)
        if trusted:
            outcome.transitions[:0] = trusted.told
            outcome.faults[:0] = trusted.faults
        admissions = await self._admit(key, upgrade.outline, trusted)
        placed, placing = await self._placements.care(
            key,
            federation,
            desired.outline,
            look,
            facts,
            trusted.bundle if trusted else None,
            desired.version,
            upgrade.held_elsewhere,
        )
        outcome.merge(placing)
        outcome.faults += [upgrade.stopped] if upgrade.stopped else []
        outcome.transitions += look.told if look else ()
        if desired.outline.interconnected and not facts.skupper:
            outcome.faults.append(Fault("SkupperMissing", MISSING))
        recheck = await self._write_status(
            key, federation, upgrade, outcome, trusted, admissions, placed, look
        )
        await self._clear_tasks(key, upgrade.outline)
        again = [recheck, await self._replace_grants(key, federation)]
        if outcome.retry is not None:
            raise Retry(outcome.retry)
        return min((each for each in again if each is not None), default=None)

    async def _let_go(self, key: Key, federation: Federation | None) -> float | None:
        """What it was made of goes with it: the garbage collector sees to that, but not on other
        clusters."""
        for known in (self._desired, self._identities, self._numbers, self._too_expensive):
            known.pop(key, None)
        self._progress.told(key)
        self._connections.forget(key)
        await self._clear_tasks(key, None)
        if federation and not await self._placements.leave(key, federation):
            return LEAVING_SECONDS
        return None

    async def _admit(self, key: Key, outline: Outline, trusted: Trusted | None) -> Admissions:
        if trusted is None or trusted.keyed is None:
            return Admissions()
        pods, connected = self._caches.pods.group(key), self._connections.get(key)
        found = self._key_keeper.look(outline, trusted.keyed, pods, connected)
        await self._key_keeper.admit(found)
        return found

    async def _clear_tasks(self, key: Key, outline: Outline | None) -> None:
        if found := left_over(self._caches.pods.group(key), outline):
            await clear_away(self._client, found)
            extra = {"federation": "/".join(key), "pods": [each.name for each in found]}
            log.info("tasks cleared away", extra=extra)

    async def _replace_grants(self, key: Key, federation: Federation) -> float | None:
        """Remove those that are over: what is missing is made anew. When the next is."""
        if not self._facts.skupper:
            return None
        children = self._caches.children(federation.metadata.uid).values()
        grants = grants_of(children, self._clock())
        for each in grants.ended:
            await delete(self._client, ACCESS_GRANT, key[0], each.metadata.name, each.metadata.uid)
            log.info("grant is over", extra={"federation": "/".join(key)})
        return grants.recheck

    async def _look_around(self, key: Key, federation: Federation, desired: Desired) -> Look | None:
        connected = self._connections.get(key)
        look = await self._placements.look(key, federation, desired.outline, connected)
        if look:
            self._numbers[key] = look.numbers
        else:
            self._numbers.pop(key, None)
        return look

    async def _care_for_trust(
        self, key: Key, federation: Federation, desired: Desired, look: Look | None
    ) -> Trusted | None:
        if not desired.outline.secure:
            return None
        trusted = await self._find_trust(key, federation, desired, look)
        self._identities[key] = trusted.identities
        return trusted

    async def _find_trust(
        self, key: Key, federation: Federation, desired: Desired, look: Look | None
    ) -> Trusted:
        workloads = self._caches.workloads(federation.metadata.uid)
        connected, outline = self._connections.get(key), desired.outline
        superlink = workloads.get((outline.superlink_kind, outline.superlink))
        busy = may_have_runs(connected, superlink, outline)
        connected = replace(connected, busy=busy)
        every = [*workloads.values(), *self._placements.workloads(key, outline)]
        trusted = await self._keeper.care(federation, outline, every, busy)
        if not outline.authenticated:
            return trusted
        pods = self._caches.pods.group(key)
        # SuperNodes that are held back keep their keys.
        present = self._decide_upgrade(key, federation, outline, trusted.identities, look).outline
        before = self._connections.roster(key)
        keyed = await self._key_keeper.care(federation, present, workloads, pods, connected, before)
        return trusted.with_keys(keyed)

    def _decide_upgrade(
        self,
        key: Key,
        federation: Federation,
        outline: Outline,
        identities: Identities | None,
        look: Look | None,
    ) -> Upgrade:
        return decide_upgrade(
            outline,
            self._caches.workloads(federation.metadata.uid),
            self._caches.pods.group(key),
            self._connections.get(key),
            read_status(federation).conditions,
            self._clock(),
            identities.certificate if identities else "",
            self._placements.advances(key, outline, look),
        )

    def _facts_of(self, key: Key) -> Facts:
        identities, numbers = self._identities.get(key), self._numbers.get(key)
        if identities is None and numbers is None:  # most have neither
            return self._facts
        return replace(self._facts, identities=identities, numbers=numbers)

    def _look_up(
        self, key: Key, federation: Federation
    ) -> tuple[Desired, dict[Identity, dict[str, Any]]]:
        """What was made of this version before; the objects come along if they are new. Raises
        InvalidFederation."""
        if key[0] == self._own_namespace:
            # Its pods would have the quota, the Secrets and the accounts of the operator.
            message = f"{key[0]} is the operator's own namespace; create the Federation in another"
            raise InvalidFederation([Problem("metadata.namespace", message, "OperatorNamespace")])
        facts = self._facts_of(key)
        version = version_of(federation, facts)
        known = self._desired.get(key)
        if known and known.version == version:
            return known, {}
        self._desired.pop(key, None)
        if self._too_expensive.get(key) == version:
            raise InvalidFederation([TOO_EXPENSIVE])
        try:
            with budget(MAX_RENDER_SECONDS):
                desired, bodies = desired_of(federation, facts)
        except BudgetExceeded:
            self._too_expensive[key] = version
            raise InvalidFederation([TOO_EXPENSIVE]) from None
        self._desired[key] = desired
        return desired, bodies

    async def _refuse(self, federation: Federation, faults: Sequence[Fault]) -> None:
        previous = read_status(federation)
        metadata = federation.metadata
        name = superlink_name(metadata.name)
        workloads = self._caches.workloads(metadata.uid)
        superlink = next((each for (_, own), each in workloads.items() if own == name), None)
        status = refuse(faults, superlink, previous, metadata.generation, self._clock())
        await self._patch(federation, previous, status, Outcome())

    async def close(self) -> None:
        await self._maker.close()

    async def _write_status(
        self,
        key: Key,
        federation: Federation,
        upgrade: Upgrade,
        outcome: Outcome,
        trusted: Trusted | None,
        admissions: Admissions,
        placed: Sequence[Placed],
        look: Look | None,
    ) -> float | None:
        previous = read_status(federation)
        uid = federation.metadata.uid
        workloads = self._caches.workloads(uid)
        observation = Observation(
            workloads=workloads,
            pods=self._caches.pods.group(key),
            refusals={
                each.metadata.uid: words
                for each in workloads.values()
                if (words := self._caches.refusal(each.metadata.uid))
            },
            mishaps=self._caches.mishaps(key[0], workloads.values()),
            pending=outcome.pending,
            faults=outcome.faults,
            connected=self._connections.get(key),
            waiting=admissions.waiting,
            notes=[*(trusted.notes if trusted else ()), *(look.notes if look else ())],
            upgrade=upgrade.finding,
            placed=placed,
            interconnected=interconnected(
                upgrade.outline, self._caches.children(uid).values() if self._facts.skupper else ()
            ),
        )
        generation = federation.metadata.generation
        summary = summarize(upgrade.outline, observation, previous, generation, self._clock())
        postponed = self._postpone(key, previous, summary.status, outcome)
        if postponed is None:
            await self._patch(federation, previous, summary.status, outcome)
        # Whether it is Ready depends on the SuperLink's answer: to ask it waits for no turn.
        if summary.superlink_available:
            roots = trusted.bundle if trusted else None
            wanted = summary.status.desired_supernodes
            roster = trusted.keyed.roster if trusted and trusted.keyed else ()
            roster += look.enrolled.roster if look else ()
            self._connections.follow(
                key, upgrade.outline, wanted, roots, roster, closely=upgrade.under_way
            )
        else:
            self._connections.forget(key)
        again = [postponed, summary.recheck, upgrade.recheck, admissions.again]
        again += [trusted.recheck] if trusted else []
        again += [look.recheck] if look else []
        if summary.superlink_available and not upgrade.outline.keeps_state:
            again.append(await self._help_stranded(key, federation, summary.status))
        return min((each for each in again if each is not None), default=None)

    async def _help_stranded(
        self, key: Key, federation: Federation, status: FederationStatus
    ) -> float | None:
        """Start SuperNodes again that will not connect by themselves; when to look again."""
        connected, now = self._connections.get(key).count, self._clock()
        if connected is None or connected >= status.desired_supernodes:
            return None
        if (left := patience_left(status, now)) > 0:
            return left
        stranded = find_stranded(await pods_of(self._client, key), connected, now)
        await self._tell(federation, await start_again(self._client, stranded.pods))
        return stranded.again

    def _postpone(
        self, key: Key, previous: FederationStatus, status: FederationStatus, outcome: Outcome
    ) -> float | None:
        """For how many seconds news of mere progress are to wait for their turn, if they are."""
        urgent = outcome.transitions or not progress_only(previous.conditions, status.conditions)
        if urgent or status == previous:
            self._progress.told(key)
            return None
        return self._progress.wait(key, self._clock()) or None

    async def _patch(
        self,
        federation: Federation,
        previous: FederationStatus,
        status: FederationStatus,
        outcome: Outcome,
    ) -> None:
        metadata = federation.metadata
        changed = status != previous
        if changed:
            said = status.model_dump(by_alias=True, exclude_none=True)
            answer = await self._client.patch_status(
                FEDERATION, metadata.namespace, metadata.name, metadata.uid, said
            )
            self._caches.put(FEDERATION.kind, answer)
        told = [*outcome.transitions, *transitions(previous.conditions, status.conditions)]
        await self._tell(federation, told)
        if changed or outcome.done:
            ready = status.conditions[0]
            log.info(
                "reconciled",
                extra={
                    "federation": f"{metadata.namespace}/{metadata.name}",
                    "generation": metadata.generation,
                    "done": outcome.done,
                    "supernodes": status.supernodes,
                    "ready": ready.status,
                    "reason": ready.reason,
                },
            )

    async def _tell(self, federation: Federation, told: Sequence[Transition]) -> None:
        namespace = federation.metadata.namespace
        for each in told:
            body = event(
                owner_of(federation),
                namespace,
                each.reason,
                each.message,
                warning=each.warning,
                source=MANAGER,
                now=self._clock(),
            )
            try:
                await self._client.create(EVENT, namespace, body)
            except ApiError as error:
                log.warning("an event could not be written: %s", error)


def read_status(federation: Federation) -> FederationStatus:
    """The status as it is; what another operator wrote there is not ours to read."""
    return _parse_status(federation.status)


@lru_cache(maxsize=64)  # it is asked for several times while a Federation is looked at
def _parse_status(status: bytes) -> FederationStatus:
    try:
        return FederationStatus.model_validate_json(status)
    except ValidationError:
        return FederationStatus()
