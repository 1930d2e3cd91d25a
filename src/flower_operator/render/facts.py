"""What a rendering depends on beside the Federation itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Identities:
    """Which certificates and secrets there are. Flower reads them once: new ones, new pods."""

    certificate: str
    """Of the SuperLink."""
    authority: str
    """The newest that clients are to trust."""
    secret: str | None = None
    """Of the SuperExecs, where they share one with their owners."""
    keys: tuple[tuple[str, str], ...] = ()
    """The round of keys of each pool, where SuperNodes have keys."""
    supernode: str | None = None
    """The certificate of the SuperNodes' own API, where that has TLS."""


@dataclass(frozen=True)
class Facts:
    namespace: str = "default"
    """Where a Federation goes that names no namespace."""
    identities: Identities | None = None
    """None: whoever runs the objects sees to it that pods read what is new."""
    operator_namespace: str = "flower-operator-system"
    """Where the operator's own pods are, which ask SuperLinks who is connected."""
    openshift: bool = False
    """Whether the cluster itself gives pods their users and groups."""
