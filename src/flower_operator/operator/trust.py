"""Keeps the certificates and secrets of secure Federations: what to do is decided in trust/."""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from ..render.facts import Identities
from ..status.observed import Federation, Workload
from ..status.outline import Outline
from ..trust.decisions import Decision, RolledOut, Step, Wanted, decide, decide_secret
from ..trust.layout import BUNDLE_FILE, Files, Part, Stored
from ..trust.records import read_secret, read_state
from ..trust.steps import MOST_STEPS, SECRET_BYTES, Change, Task, apply, make_secret
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

    def with_keys(self, keyed: Keyed) -> "Trusted":
        turns = [each for each in (self.recheck, keyed.recheck) if each is not None]
        return Trusted(
            replace(self.identities, keys=keyed.rounds),
            self.bundle,
            self.told + keyed.told,
            min(turns, default=None),
            keyed,
        )


class Keeper:
    """Makes, renews and mends."""

    def __init__(self, safe: Safe, maker: Maker, clock: Callable[[], datetime]) -> None:
        self._safe = safe
        self._maker = maker
        self._clock = clock

    async def care(
        self, federation: Federation, outline: Outline, workloads: Iterable[Workload], busy: bool
    ) -> Trusted:
        """Take every step that is due; what can wait for a run, waits. Raises TrustFault."""
        metadata, now = federation.metadata, self._clock()
        stored = Stored(
            self._part(federation, Part.AUTHORITIES),
            self._part(federation, Part.BUNDLE),
            self._part(federation, Part.SERVER),
        )
        wanted, rolled_out = Wanted(outline.names), rolled_out_of(workloads, busy)
        told: list[Transition] = []
        while (
            decision := decide(read_state(stored), wanted, now, rolled_out)
        ).step is not Step.KEEP:
            if len(told) == MOST_STEPS:  # each of them is a write
                raise RuntimeError(f"no end after {MOST_STEPS} steps, the last of them {decision}")
            task = Task(decision, stored, metadata.name, metadata.namespace, wanted.names, now)
            change = await self._maker.make(task)
            await self._write(federation, change)
            stored = apply(change, stored)
            told.append(transition_of(decision))
        secret, secret_decision = None, None
        if outline.shares_secret:
            secret, secret_decision = await self._care_for_secret(federation, now, busy, told)
        state = read_state(stored)
        assert state.certificate
        assert state.newest
        turns = [each.again for each in (decision, secret_decision) if each and each.again]
        return Trusted(
            Identities(state.certificate.identity, state.newest.identity, secret),
            stored.bundle[BUNDLE_FILE],
            tuple(told),
            (min(turns) - now).total_seconds() if turns else None,
        )

    async def _care_for_secret(
        self, federation: Federation, now: datetime, busy: bool, told: list[Transition]
    ) -> tuple[str, Decision]:
        files = self._part(federation, Part.SUPEREXEC)
        decision = decide_secret(files, now, busy=busy)
        if decision.step is not Step.KEEP:
            change = make_secret(secrets.token_bytes(SECRET_BYTES), now)
            await self._write(federation, change)
            files = change.files
            told.append(transition_of(decision))
        secret = read_secret(files)
        assert secret
        return secret.identity, decision

    def _part(self, federation: Federation, part: Part) -> Files:
        name = part.object_name(federation.metadata.name)
        return self._safe.files(federation, name, secret=part.is_secret)

    async def _write(self, federation: Federation, change: Change) -> None:
        part = change.part
        name = part.object_name(federation.metadata.name)
        await self._safe.write(federation, name, change.files, secret=part.is_secret)


def rolled_out_of(workloads: Iterable[Workload], busy: bool) -> RolledOut:
    """What pods were started with; unknown, and so nothing new, while a workload is under way."""
    serving, trusting = set(), set()
    for each in workloads:
        if each.certificate:
            serving.add(each.certificate if each.settled else "")
        if each.authority and each.desired:
            trusting.add(each.authority if each.settled else "")
    return RolledOut(frozenset(serving), frozenset(trusting), busy)
