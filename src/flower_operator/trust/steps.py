"""Decisions carried out: from what is stored to the files of the one object that changes.

    python -m flower_operator.trust.steps

does so for a process that had better not load the library for certificates: each line of its
standard input is a `Task` as JSON, each of its output a `Change`; or names of SuperNodes, as
`pairs`, and a new key for each; or the files of a certificate that was made elsewhere, to
`inspect`, and what is in them, or why it cannot be served.
"""

import json
import sys
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from .decisions import Decision, RolledOut, Step, Wanted, decide
from .layout import BUNDLE_FILE, Files, Part, Stored, authority_key_file, voucher_file
from .records import (
    authorities_files,
    bundle_files,
    called_files,
    noted_files,
    read_state,
    secret_files,
    split_bundle,
)

SECRET_BYTES = 32
MOST_STEPS = 20
"""Many more than there are from nothing to the end of a rotation."""


@dataclass(frozen=True)
class Task:
    """A decision and what it was about."""

    decision: Decision
    stored: Stored
    federation: str
    namespace: str
    now: datetime

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=datetime.isoformat)


@dataclass(frozen=True)
class Change:
    """The new files of an object, in place of all that it had."""

    part: Part
    files: Files

    @classmethod
    def from_json(cls, text: str | bytes) -> "Change":
        content = json.loads(text)
        return cls(Part(content["part"]), content["files"])


def perform(task: Task) -> Change:
    """What a step other than to keep everything writes."""
    step, stored = task.decision.step, task.stored
    match step:
        case Step.PUBLISH_BUNDLE:
            return Change(Part.BUNDLE, _published(stored))
        case Step.CALL_CLIENTS:
            return Change(Part.AUTHORITIES, called_files(stored.authorities))
        case Step.DROP_AUTHORITIES:
            return Change(Part.AUTHORITIES, _newest_alone(stored))
        case Step.ADD_AUTHORITY:
            from .certificates import with_new_authority

            files = with_new_authority(stored, task.federation, task.namespace, task.now)
            return Change(Part.AUTHORITIES, files)
        case Step.ISSUE_CERTIFICATE | Step.SERVE_FROM_NEW:
            return _issued(task, Part.SERVER)
        case Step.ISSUE_SUPERNODE_CERTIFICATE:
            return _issued(task, Part.SUPERNODE)
        case Step.NOTE_NAMES:
            return Change(Part.SERVER, noted_files(stored.server, task.now))
    raise ValueError(f"{step} writes nothing")


def apply(change: Change, stored: Stored) -> Stored:
    """What is stored once the change is written."""
    match change.part:
        case Part.AUTHORITIES:
            return replace(stored, authorities=change.files)
        case Part.BUNDLE:
            return replace(stored, bundle=change.files)
        case Part.SUPERNODE:
            return replace(stored, supernode=change.files)
        case _:
            return replace(stored, server=change.files)


def settle(
    stored: Stored,
    wanted: Wanted,
    federation: str,
    namespace: str,
    now: datetime,
    rolled_out: RolledOut,
) -> tuple[Stored, list[tuple[Decision, Change]], Decision]:
    """Every step that can be taken now, in order, and the decision to keep what is then there."""
    taken: list[tuple[Decision, Change]] = []
    while len(taken) < MOST_STEPS:
        decision = decide(read_state(stored), wanted, now, rolled_out)
        if decision.step is Step.KEEP:
            return stored, taken, decision
        change = perform(Task(decision, stored, federation, namespace, now))
        stored = apply(change, stored)
        taken.append((decision, change))
    raise RuntimeError(f"no end after {MOST_STEPS} steps, the last of them {decision}")


def make_secret(entropy: bytes, now: datetime) -> Files:
    """A secret of SuperExecs. As text, because Flower counts every byte of the file."""
    if len(entropy) < SECRET_BYTES:
        raise ValueError(f"a secret needs {SECRET_BYTES} random bytes")
    return secret_files(entropy.hex(), now)


def _issued(task: Task, part: Part) -> Change:
    from .certificates import new_certificate

    signer, names = task.decision.signer, task.decision.names
    assert signer
    return Change(
        part, new_certificate(task.stored, part, signer, task.federation, names, task.now)
    )


def _published(stored: Stored) -> Files:
    state = read_state(stored)
    known = split_bundle(stored.authorities.get(BUNDLE_FILE, ""))
    return bundle_files([known[each.identity] for each in state.authorities], state.authorities)


def _newest_alone(stored: Stored) -> Files:
    newest = read_state(stored).newest
    assert newest
    certificate = split_bundle(stored.authorities[BUNDLE_FILE])[newest.identity]
    key = stored.authorities[authority_key_file(newest.identity)]
    # Who knows the old one alone needs it for as long as that lasts.
    vouchers = {}
    if newest.voucher:
        vouchers[newest.identity] = stored.authorities[voucher_file(newest.identity)]
    return authorities_files([certificate], [newest], {newest.identity: key}, vouchers)


def _task(content: dict[str, Any]) -> Task:
    decision = content["decision"]
    return Task(
        Decision(
            Step(decision["step"]),
            decision["reason"],
            decision["message"],
            decision["signer"],
            tuple(decision["names"]),
        ),
        Stored(**content["stored"]),
        content["federation"],
        content["namespace"],
        datetime.fromisoformat(content["now"]),
    )


def _answer(content: dict[str, Any]) -> str:
    if "pairs" in content:
        from .certificates import make_key_pair

        return json.dumps({name: asdict(make_key_pair()) for name in content["pairs"]})
    if "inspect" in content:
        from .given import Unfit
        from .inspection import inspect

        try:
            return inspect(content["inspect"]).to_json()
        except Unfit as error:
            return json.dumps({"unfit": str(error)})
    return json.dumps(asdict(perform(_task(content))))


if __name__ == "__main__":
    for line in sys.stdin:
        print(_answer(json.loads(line)), flush=True)
