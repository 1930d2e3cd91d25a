"""What a rendering depends on beside the Federation itself."""

from dataclasses import dataclass

from .. import __version__
from ..flower.commands import ENVOY_IMAGE
from .admin_limits import NO_LIMITS, Limits

IMAGE = f"flower-operator:{__version__}"


@dataclass(frozen=True)
class Identities:
    """Which certificates and secrets there are. Flower reads them once: new ones, new pods."""

    certificate: str
    """Of the SuperLink."""
    authority: str
    """The newest that clients are to trust."""
    secret: str | None = None
    """Of the SuperLink and the SuperExec for ServerApps, where they share one."""
    keys: tuple[tuple[str, str], ...] = ()
    """The round of keys of each pool, where SuperNodes have keys."""
    supernode: str | None = None
    """The certificate of the SuperNodes' own API, where that has TLS."""
    pool_secrets: tuple[tuple[str, str], ...] = ()
    """Of each pool whose SuperNodes and SuperExecs share one."""


@dataclass(frozen=True)
class Numbers:
    """The partitions that SuperNodes have, where they are not just counted one after the other."""

    of_pools: tuple[tuple[str, tuple[str, ...]], ...]
    """By pool, one for each SuperNode."""
    total: str


@dataclass(frozen=True)
class Site:
    """Another cluster than the SuperLink's. It may stand for many: each text may be a variable of
    the template that they share."""

    cluster: str
    superlink: str
    """Where the Fleet API is reached from there."""
    host: str
    port: int
    """The same, never as a variable, for policies."""
    image: str
    """Of SuperNodes."""
    keys: str
    """Their round, where they have keys."""


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
    agent_image: str = IMAGE
    """The operator's own, of which the agents on other clusters are made."""
    gateway_image: str = ENVOY_IMAGE
    """Of Envoy, where a Federation does not name one."""
    numbers: Numbers | None = None
    """None: SuperNodes are counted in the order of the manifest."""
    skupper: bool = True
    """Whether the cluster has Skupper's API."""
    limits: Limits = NO_LIMITS
    """What the administrator allows."""
    site: Site | None = None
    """None: SuperNodes run beside their SuperLink."""
