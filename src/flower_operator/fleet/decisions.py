"""What to do about a hub's objects: those that are wanted, and those that are not any more."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..kube.applied import mark
from ..render.metadata import PREFIX, RELEASE
from .addon import NAMESPACE, edition_name
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
    wanted: Mapping[Identity, Wanted],
    existing: Mapping[Identity, Object],
    moving: Collection[str] = (),
) -> Iterator[Action]:
    """In the order of `wanted`, then what has to go; nothing for what is as it should be.
    `moving`: clusters that may still read what they are no longer to."""
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
        if found.metadata.deletion_timestamp or _is_needed(identity, found, existing, moving):
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


def _is_needed(
    identity: Identity,
    found: Object,
    existing: Mapping[Identity, Object],
    moving: Collection[str],
) -> bool:
    """A config is, while its addon is there: without it, what runs would be run with less. So is
    a template. What all clusters share is, while any of them has the addon."""
    kind, namespace, name = identity
    addons = {each: it for each, it in existing.items() if each[0] == ADDON.kind}
    if kind == DEFINITION.kind:
        return any(each[2] == name for each in addons)
    if kind == CONFIG.kind and found.metadata.labels.get(NAMESPACE) == namespace:
        return any(each[2] == name for each in addons)
    if kind in (TEMPLATE.kind, CONFIG.kind):
        readers = {each[1] for each, it in addons.items() if _reads(each[2], it, name)}
        readers |= {*moving}
        return bool(readers) if kind == TEMPLATE.kind else namespace in readers
    return False


def _reads(addon: str, found: Object, name: str) -> bool:
    """One that does not say what it was told may read anything of its own."""
    release = found.metadata.annotations.get(RELEASE)
    return edition_name(addon, release) == name if release else name.startswith(addon)
