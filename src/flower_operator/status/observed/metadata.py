"""What every object says of itself."""

from sys import intern

import msgspec
from msgspec import Struct


class OwnerReference(Struct, rename="camel"):
    uid: str
    name: str
    controller: bool = False

    def __post_init__(self) -> None:
        self.uid, self.name = intern(self.uid), intern(self.name)


class Metadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # The same on all objects of a Federation, or even on all that there are.
        self.name, self.namespace = intern(self.name), intern(self.namespace)
        self.uid = intern(self.uid)
        self.labels = {intern(key): intern(value) for key, value in self.labels.items()}

    @property
    def owner(self) -> OwnerReference | None:
        """The object that this one belongs to."""
        return next((each for each in self.owner_references if each.controller), None)


def unversioned(metadata: Metadata) -> Metadata:
    """The cache knows the version; without it, objects compare by what they say."""
    metadata.resource_version = ""
    return metadata
