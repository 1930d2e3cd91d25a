"""One container as a process of this machine."""

import hashlib
import json
from dataclasses import asdict, dataclass, field

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Process:
    pod: str
    container: str
    command: list[str]
    environment: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    """What must be in the file system before it starts."""
    folders: list[str] = field(default_factory=list)
    mounted: dict[str, str] = field(default_factory=dict)
    """Versions of the certificates and secrets that it reads when it starts, by object."""
    key: str | None = None
    """The public half of the key that it shows to the SuperLink."""
    health: str | None = None
    """An address at which it listens once it is up."""

    @property
    def name(self) -> str:
        return f"{self.pod}/{self.container}"

    @property
    def hash(self) -> str:
        """Changes with anything that only a restart can change."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]
