"""What to do about the difference between what is wanted and what is there."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ..kube.applied import includes, mark, selector_of
from ..kube.errors import ApiError
from ..render.metadata import PREFIX
from ..status.observed import Child, Workload
from .desired import COUNTED, WORKLOADS, Identity, Part, Wanted, part_of

APPLIED = f"{PREFIX}/applied"

Existing = Child | Workload
Propagation = Literal["Foreground", "Background", "Orphan"]


@dataclass(frozen=True)
class Create:
    wanted: Wanted


@dataclass(frozen=True)
class Update:
    wanted: Wanted
    uid: str
    generation: int
    """What it will have afterwards, if nobody else has a hand in it."""
    foreign: bool = False
    """Whether someone else made it, such as an operator before us."""


@dataclass(frozen=True)
class Remove:
    kind: str
    name: str
    uid: str
    propagation: Propagation


@dataclass(frozen=True)
class Wait:
    """For something that is on its way out."""

    kind: str
    name: str


Action = Create | Update | Remove | Wait


def decide(
    wanted: Sequence[Wanted],
    existing: Mapping[Identity, Existing],
    held: Collection[Part] = (),
) -> list[Action]:
    """The actions that lead from what exists to what is wanted, none if that is the same.
    Parts that are held back stay as they are."""
    identities = {each.identity for each in wanted}
    unwanted = {
        key: each
        for key, each in existing.items()
        if key not in identities and part_of(each.metadata.labels) not in held
    }
    leaving = {name for kind, name in unwanted if kind in WORKLOADS}
    actions: list[Action] = []
    for (kind, name), each in unwanted.items():
        actions.append(_farewell(kind, name, each))
    for each_wanted in wanted:
        if part_of(each_wanted.labels) in held:
            continue
        actions += _care(each_wanted, existing.get(each_wanted.identity), leaving)
    return actions


def _farewell(kind: str, name: str, existing: Existing) -> Action:
    if existing.metadata.deletion_timestamp:
        return Wait(kind, name)
    # In the foreground a workload is there until its pods are gone.
    propagation: Propagation = "Foreground" if kind in WORKLOADS else "Background"
    return Remove(kind, name, existing.metadata.uid, propagation)


def _care(wanted: Wanted, existing: Existing | None, leaving: set[str]) -> list[Action]:
    if existing is None:
        # Two workloads of one name would be two SuperLinks, or twice the SuperNodes.
        blocked = wanted.kind in WORKLOADS and wanted.name in leaving
        return [Wait(wanted.kind, wanted.name) if blocked else Create(wanted)]
    if existing.metadata.deletion_timestamp:
        return [Wait(wanted.kind, wanted.name)]
    if untouched(wanted, existing):
        return []
    metadata = existing.metadata
    foreign = APPLIED not in metadata.annotations
    return [Update(wanted, metadata.uid, _next_generation(wanted, existing), foreign)]


def untouched(wanted: Wanted, existing: Existing) -> bool:
    """Whether it is as we applied it, and that is what is wanted now."""
    metadata = existing.metadata
    if metadata.annotations.get(APPLIED) != mark(wanted.digest, metadata.generation):
        return False
    return (
        includes(metadata.labels, wanted.labels)
        and includes(metadata.annotations, wanted.annotations)
        and _same_content(wanted, existing)
    )


def first_mark(wanted: Wanted) -> str:
    return mark(wanted.digest, 1 if wanted.kind in COUNTED else 0)


def needs_replacement(error: ApiError) -> bool:
    """Whether the API server says that an object cannot be changed into what is wanted."""
    immutable = "spec.selector" in error.message and "immutable" in error.message
    stateful = "spec: Forbidden: updates to statefulset spec" in error.message
    return error.code == 422 and (immutable or stateful)


def replacement(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Propagation:
    """How to make room for it. Claims stay in any case: they belong to no workload.

    Pods are left for the new workload to take over if it will select them and they mount the
    claims that it has; if not, they go with the old one.
    """
    selects = selector_of(wanted).items() <= selector_of(current).items()
    fits = selects and _claims(current) == _claims(wanted)
    return "Orphan" if fits else "Foreground"


def _next_generation(wanted: Wanted, existing: Existing) -> int:
    """The server counts a generation for each changed spec, and for nothing else."""
    metadata = existing.metadata
    same = metadata.annotations.get(APPLIED) == mark(wanted.digest, metadata.generation)
    return metadata.generation if same or not metadata.generation else metadata.generation + 1


def _claims(workload: Mapping[str, Any]) -> set[str]:
    claims = workload["spec"].get("volumeClaimTemplates", [])
    return {claim["metadata"]["name"] for claim in claims}


def _same_content(wanted: Wanted, existing: Existing) -> bool:
    if wanted.content is None or not isinstance(existing, Child):
        return True
    has = msgspec.json.decode(existing.content or b"{}")
    wants = msgspec.json.decode(wanted.content)
    # One label more in a Service's selector, and it leads nowhere; one subject more in a
    # RoleBinding, and a stranger has its rights.
    whole = all(has.get(field) == wants.get(field) for field in ("selector", "subjects"))
    return includes(has, wants) and whole
