"""Keeps the certificates and secrets of secure Federations: what to do is decided in trust/."""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from ..render.facts import Identities
from ..status.observation import Connected, Fault
from ..status.observed import Federation, Workload
from ..status.outline import Outline
from ..trust.decisions import Decision, RolledOut, Step, Wanted, decide, decide_secret
from ..trust.layout import (
    BUNDLE_FILE,
    Files,
    Part,
    Stored,
    pool_of_secret,
    pool_secret_name,
)
from ..trust.names import with_addresses
from ..trust.records import read_secret, read_state
from ..trust.steps import MOST_STEPS, SECRET_BYTES, Change, Task, apply, make_secret
from .caches import Caches
from .given import LOOK_SECONDS, Elsewhere, Kept, Look
from .keys import Keyed
from .maker import Maker
from .safe import Safe
from .transitions import Transition, transition_of


@dataclass(frozen=True)
class Trusted:
    """What a secure Federation is run with."""

    identities: Identities
    bundle: str
    """The certificates of the CAs that clients trust."""
    told: tuple[Transition, ...]
    recheck: float | None
    """Seconds until time alone may change it."""
    keyed: Keyed | None = None
    """The keys of SuperNodes, where they have some."""
    notes: tuple[str, ...] = ()
    """What waits, and for what."""
    faults: tuple[Fault, ...] = ()
    """What keeps it from being renewed; what runs, runs on."""

    def with_keys(self, keyed: Keyed) -> "Trusted":
        turns = [each for each in (self.recheck, keyed.recheck) if each is not None]
        return replace(
            self,
            identities=replace(self.identities, keys=keyed.rounds),
            told=self.told + keyed.told,
            recheck=min(turns, default=None),
            keyed=keyed,
        )


class Keeper:
    """Makes, renews and mends."""

    def __init__(
        self,
        caches: Caches,
        safe: Safe,
        maker: Maker,
        elsewhere: Elsewhere,
        clock: Callable[[], datetime],
    ) -> None:
        self._caches = caches
        self._safe = safe
        self._maker = maker
        self._elsewhere = elsewhere
        self._clock = clock

    async def care(
        self, federation: Federation, outline: Outline, workloads: Iterable[Workload], busy: bool
    ) -> Trusted:
        """Take every step that is due; what can wait for a run, waits. Raises TrustFault."""
        now, every = self._clock(), tuple(workloads)
        addresses = self._caches.addresses(federation.metadata.namespace, outline.superlink)
        names = with_addresses(outline.names, addresses)
        look = Look(federation, outline, names, every, rolled_out_of(every, busy), now)
        await self._elsewhere.end_issuing(look)
        given = bool(outline.tls.secret or outline.tls.issuer)
        if outline.external:  # the SuperLink's CA is in the plan
            kept = Kept(Identities("", ""), "", Decision(Step.KEEP, "Valid", ""))
        else:
            kept = await self._elsewhere.care(look) if given else await self._care_for_own(look)
        secret, decisions = None, [kept.decision]
        if outline.shares_secret:
            name = Part.SUPEREXEC.object_name(federation.metadata.name)
            secret, decision = await self._care_for_secret(look, name)
            decisions.append(decision)
        pool_secrets = []
        for pool in outline.pools:
            if pool.shares_secret:
                name = pool_secret_name(federation.metadata.name, pool.name)
                identity, decision = await self._care_for_secret(look, name)
                pool_secrets.append((pool.name, identity))
                decisions.append(decision)
        await self._remove_secrets(federation, outline)
        turns = [(each.again - now).total_seconds() for each in decisions if each.again]
        return Trusted(
            replace(kept.identities, secret=secret, pool_secrets=tuple(pool_secrets)),
            kept.bundle,
            tuple(look.told),
            min([*turns, LOOK_SECONDS] if given else turns, default=None),
            notes=tuple(
                dict.fromkeys(each.message for each in decisions if each.reason != "Valid")
            ),
            faults=(kept.fault,) if kept.fault else (),
        )

    async def _care_for_own(self, look: Look) -> Kept:
        """With a CA of the Federation's own."""
        federation, tls = look.federation, look.outline.tls
        metadata = federation.metadata
        stored = Stored(
            self._part(federation, Part.AUTHORITIES),
            self._part(federation, Part.BUNDLE),
            self._part(federation, Part.SERVER),
            self._part(federation, Part.SUPERNODE),
        )
        wanted = Wanted(
            look.names,
            max_wait=look.outline.max_wait,
            supernode=tls.supernode,
            reread_within=tls.reread_within,
        )
        while (
            decision := decide(read_state(stored), wanted, look.now, look.rolled_out)
        ).step is not Step.KEEP:
            if len(look.told) == MOST_STEPS:  # each of them is a write
                raise RuntimeError(f"no end after {MOST_STEPS} steps, the last of them {decision}")
            task = Task(decision, stored, metadata.name, metadata.namespace, look.now)
            change = await self._maker.make(task)
            await self._write(federation, change)
            stored = apply(change, stored)
            look.told.append(transition_of(decision))
        state = read_state(stored)
        assert state.certificate
        assert state.called
        identities = Identities(
            state.certificate.identity,
            state.called.identity,
            supernode=state.supernode.identity if tls.supernode and state.supernode else None,
        )
        return Kept(identities, stored.bundle[BUNDLE_FILE], decision)

    async def _care_for_secret(self, look: Look, name: str) -> tuple[str, Decision]:
        files = self._safe.files(look.federation, name, secret=True)
        decision = decide_secret(files, look.now, busy=look.rolled_out.busy)
        if decision.step is not Step.KEEP:
            files = make_secret(secrets.token_bytes(SECRET_BYTES), look.now)
            await self._safe.write(look.federation, name, files, secret=True)
            if (event := transition_of(decision)) not in look.told:  # once for all pools
                look.told.append(event)
            decision = decide_secret(files, look.now)
        secret = read_secret(files)
        assert secret
        return secret.identity, decision

    async def _remove_secrets(self, federation: Federation, outline: Outline) -> None:
        """Those of pools that are gone."""
        pools = {pool.name for pool in outline.pools}
        for name in self._safe.names(federation):
            pool = pool_of_secret(federation.metadata.name, name)
            if pool is not None and pool not in pools:
                await self._safe.remove(federation, name)

    def _part(self, federation: Federation, part: Part) -> Files:
        name = part.object_name(federation.metadata.name)
        return self._safe.files(federation, name, secret=part.is_secret)

    async def _write(self, federation: Federation, change: Change) -> None:
        part = change.part
        name = part.object_name(federation.metadata.name)
        await self._safe.write(federation, name, change.files, secret=part.is_secret)


def may_have_runs(connected: Connected, superlink: Workload | None, outline: Outline) -> bool:
    """Whether a run may be under way: a SuperLink that is yet to answer can have one, and one that
    has a database also while it is away."""
    if connected.busy or not connected.untold or superlink is None:
        return bool(connected.busy)
    return bool(superlink.ready or (superlink.desired and outline.keeps_state))


def rolled_out_of(workloads: Iterable[Workload], busy: bool) -> RolledOut:
    """What pods were started with; unknown, and so nothing new, while a workload is under way."""
    serving, trusting = set(), set()
    for each in workloads:
        if each.certificate:
            serving.add(each.certificate if each.settled else "")
        if each.authority and each.desired:
            trusting.add(each.authority if each.settled else "")
    return RolledOut(frozenset(serving), frozenset(trusting), busy)
