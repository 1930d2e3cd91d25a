"""What to do about a hub's objects: those that are wanted, and those that are not any more."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..kube.applied import mark
from ..render.metadata import PREFIX
from .addon import NAMESPACE
from .hub import Identity
from .observed import Object
from .resources import ADDON, CONFIG, DEFINITION, TEMPLATE

APPLIED = f"{PREFIX}/applied"


@dataclass(frozen=True)
class Wanted:
    identity: Identity
    digest: str
    labels: Mapping[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Apply:
    wanted: Wanted
    uid: str | None
    """None: it is to be made."""
    generation: int
    """What it will have afterwards."""


@dataclass(frozen=True)
class Remove:
    identity: Identity
    uid: str


@dataclass(frozen=True)
class Wait:
    """For something that is on its way out, or must stay until something else is."""

    identity: Identity


Action = Apply | Remove | Wait


def decide(
    wanted: Mapping[Identity, Wanted], existing: Mapping[Identity, Object]
) -> Iterator[Action]:
    """In the order of `wanted`, then what has to go; nothing for what is as it should be."""
    for identity, each in wanted.items():
        found = existing.get(identity)
        if found is None:
            yield Apply(each, None, 1)
        elif found.metadata.deletion_timestamp:
            yield Wait(identity)
        elif not _untouched(each, found):
            yield Apply(each, found.metadata.uid, _next_generation(each, found))
    for identity, found in existing.items():
        if identity in wanted:
            continue
        if found.metadata.deletion_timestamp or _is_needed(identity, found, existing):
            yield Wait(identity)
        else:
            yield Remove(identity, found.metadata.uid)


def _untouched(wanted: Wanted, found: Object) -> bool:
    metadata = found.metadata
    if metadata.annotations.get(APPLIED) != mark(wanted.digest, metadata.generation):
        return False
    return all(metadata.labels.get(name) == value for name, value in wanted.labels.items())


def _next_generation(wanted: Wanted, found: Object) -> int:
    """The server counts a generation for each changed spec, and for nothing else."""
    metadata = found.metadata
    same = metadata.annotations.get(APPLIED) == mark(wanted.digest, metadata.generation)
    return metadata.generation if same else metadata.generation + 1


def _is_needed(identity: Identity, found: Object, existing: Mapping[Identity, Object]) -> bool:
    """A config is, while its addon is there: without it, what runs would be run with less. What
    all clusters share is, while any of them has the addon."""
    kind, namespace, name = identity
    holders = {each[1] for each in existing if each[0] == ADDON.kind and each[2] == name}
    if kind in (DEFINITION.kind, TEMPLATE.kind):
        return bool(holders)
    if kind == CONFIG.kind:
        shared = found.metadata.labels.get(NAMESPACE) == namespace
        return bool(holders) if shared else namespace in holders
    return False
