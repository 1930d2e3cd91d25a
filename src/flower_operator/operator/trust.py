"""Keeps the certificates and secrets of secure Federations: what to do is decided in trust/."""

import asyncio
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ..kube.applied import owned
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP, SECRET
from ..render.facts import Identities
from ..render.metadata import trust_labels
from ..status.observed import Federation, Workload
from ..status.outline import Outline
from ..status.summary import Fault
from ..trust.decisions import Decision, RolledOut, Step, Wanted, decide, decide_secret
from ..trust.layout import (
    BUNDLE_FILE,
    Files,
    Part,
    Stored,
    decode_secret,
    encode_secret,
)
from ..trust.records import read_secret, read_state
from ..trust.steps import MOST_STEPS, SECRET_BYTES, Change, Task, apply, make_secret, perform
from .caches import Caches
from .desired import owner_of
from .transitions import Transition

IDLE_SECONDS = 10.0


class TrustFault(Exception):
    """Something that only a person can mend."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True)
class Trusted:
    """What a secure Federation is run with."""

    identities: Identities
    bundle: str
    """The certificates of the CAs that clients trust."""
    told: tuple[Transition, ...]
    recheck: float | None
    """Seconds until time alone may change it."""


class Keeper:
    """Makes, renews and mends."""

    def __init__(self, client: Client, caches: Caches, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock
        self._maker = Maker()

    async def care(
        self, federation: Federation, outline: Outline, workloads: Iterable[Workload], busy: bool
    ) -> Trusted:
        """Take every step that is due; what can wait for a run, waits. Raises TrustFault."""
        metadata, now = federation.metadata, self._clock()
        stored = Stored(
            self._files(federation, Part.AUTHORITIES),
            self._files(federation, Part.BUNDLE),
            self._files(federation, Part.SERVER),
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
            told.append(_transition(decision))
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

    async def close(self) -> None:
        await self._maker.close()

    async def _care_for_secret(
        self, federation: Federation, now: datetime, busy: bool, told: list[Transition]
    ) -> tuple[str, Decision]:
        files = self._files(federation, Part.SUPEREXEC)
        decision = decide_secret(files, now, busy=busy)
        if decision.step is not Step.KEEP:
            change = make_secret(secrets.token_bytes(SECRET_BYTES), now)
            await self._write(federation, change)
            files = change.files
            told.append(_transition(decision))
        secret = read_secret(files)
        assert secret
        return secret.identity, decision

    def _files(self, federation: Federation, part: Part) -> Files:
        """What is stored of it; nothing, where that is not this Federation's."""
        kind, metadata = _kind(part), federation.metadata
        found = self._caches.trust(kind, metadata.namespace, part.object_name(metadata.name))
        if found is None or found.metadata.owner is None:
            return {}
        if found.metadata.owner.uid != metadata.uid or found.metadata.deletion_timestamp:
            return {}
        try:
            data = msgspec.json.decode(found.data or b"{}", type=dict[str, str])
        except msgspec.DecodeError:
            return {}
        return decode_secret(data) if part.is_secret else data

    async def _write(self, federation: Federation, change: Change) -> None:
        metadata, kind = federation.metadata, _kind(change.part)
        name = change.part.object_name(metadata.name)
        body = _body(federation, change)
        resource = SECRET if change.part.is_secret else CONFIG_MAP
        known = self._caches.trust(kind, metadata.namespace, name)
        try:
            if known and known.metadata.owner and known.metadata.owner.uid == metadata.uid:
                body["metadata"]["uid"] = known.metadata.uid
                answer = await self._client.apply(resource, body)
            else:
                answer = await self._client.apply_new(resource, body)
        except ApiError as error:
            if error.code == 409 and "uid" not in body["metadata"]:
                message = f"{kind} {name} is there already and is not this Federation's"
                raise TrustFault(Fault("NameTaken", f"{message}; it stays as is")) from None
            if error.final:
                raise TrustFault(Fault("Refused", f"{kind} {name}: {error.message}")) from None
            raise
        self._caches.put_trust(kind, answer)


def rolled_out_of(workloads: Iterable[Workload], busy: bool) -> RolledOut:
    """What pods were started with; unknown, and so nothing new, while a workload is under way."""
    serving, trusting = set(), set()
    for each in workloads:
        if each.certificate:
            serving.add(each.certificate if each.settled else "")
        if each.authority and each.desired:
            trusting.add(each.authority if each.settled else "")
    return RolledOut(frozenset(serving), frozenset(trusting), busy)


class Maker:
    """A process of its own for certificates: the library for them would stay in the memory of this
    one, a tenth of all of it. It ends when it has had nothing to do for a while."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._end: asyncio.TimerHandle | None = None

    async def make(self, task: Task) -> Change:
        if not task.decision.step.makes_certificate:
            return perform(task)
        async with self._turn:
            if self._end:
                self._end.cancel()
            process = await self._running()
            assert process.stdin
            assert process.stdout
            process.stdin.write(task.to_json().encode() + b"\n")
            answer = await process.stdout.readline()
            if not answer:
                self._process = None
                raise OSError("no certificate could be made: the process for it ended")
            self._end = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._kill)
            return Change.from_json(answer)

    async def close(self) -> None:
        if self._end:
            self._end.cancel()
        process = self._process
        self._kill()
        if process:
            await process.wait()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "flower_operator.trust.steps",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=1 << 20,
            )
        return self._process

    def _kill(self) -> None:
        if self._process and self._process.returncode is None:
            self._process.kill()
        self._process = None


def _kind(part: Part) -> str:
    return SECRET.kind if part.is_secret else CONFIG_MAP.kind


def _body(federation: Federation, change: Change) -> dict[str, Any]:
    metadata = federation.metadata
    data: Mapping[str, str] = change.files
    body = {
        "apiVersion": "v1",
        "kind": _kind(change.part),
        "metadata": {
            "name": change.part.object_name(metadata.name),
            "namespace": metadata.namespace,
            "labels": trust_labels(metadata.name),
        },
        "data": encode_secret(data) if change.part.is_secret else dict(data),
    }
    return owned(body, owner_of(federation))


def _transition(decision: Decision) -> Transition:
    return Transition(decision.reason, f"{decision.step}: {decision.message}", warning=False)
