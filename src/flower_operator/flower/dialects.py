"""How each Flower release is spoken to: commands, flags, ports, which API is on which.

flwr's command lines changed with almost every release. `Dialect()` is the oldest release
known; CHANGES lists what differed from when on. A new release is one row here, if it
changed anything, and one run of the tests.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from .releases import NEWEST, OLDEST, Release

Transport = Literal["gRPC", "HTTP"]
IsolationMode = Literal["process", "subprocess"]


@dataclass(frozen=True)
class Api:
    """One of flwr's APIs: where it listens, the flags that say so, and where its calls begin."""

    transport: Transport
    port: int
    flags: tuple[str, ...]
    """One flag takes HOST:PORT; two take the host and the port."""
    paths: tuple[str, ...]
    """What the paths of its calls begin with."""

    def listen(self, host: str) -> list[str]:
        if len(self.flags) == 1:
            return [self.flags[0], f"{host}:{self.port}"]
        return [self.flags[0], host, self.flags[1], str(self.port)]


HOST_AND_PORT = ("--host", "--port")
RUNTIME = "/flwr.proto.Runtime/"
"""Both app APIs over gRPC on 1.34, the last release that has them so."""


@dataclass(frozen=True)
class Dialect:
    """What the command lines of a range of releases look like. None: there is no such flag."""

    since: Release = OLDEST

    connection_file: Literal["pyproject.toml", "config.toml"] = "pyproject.toml"
    """Where `flwr run` reads the SuperLink's address: the app's own file, or FLWR_HOME's."""
    node_status_field: int = 3
    """Number of `status` in the Control API's NodeInfo message."""
    node_key_field: int = 10
    """Number of `public_key` in the same message."""

    # flower-superlink, flower-supernode and flower-superexec alike
    insecure: str = "--insecure"
    health: str = "--health-server-address"
    superexec_secret: str | None = None

    # flower-superlink and flower-supernode
    isolation: str = "--isolation"
    runtime_certificate: str | None = None
    """What the runtime API for apps has TLS with, whatever the other APIs have. A SuperLink's that
    shares their port shares their TLS."""
    runtime_certificate_key: str | None = None
    runtime_certificate_authority: str | None = None

    # flower-superlink
    fleet: Api = Api("gRPC", 9092, ("--fleet-api-address",), ("/flwr.proto.Fleet/",))
    control: Api = Api("gRPC", 9093, ("--control-api-address",), ("/flwr.proto.Control/",))
    serverappio: Api = Api(
        "gRPC", 9091, ("--serverappio-api-address",), ("/flwr.proto.ServerAppIo/", RUNTIME)
    )
    certificate: str = "--ssl-certfile"
    certificate_key: str = "--ssl-keyfile"
    certificate_authority: str = "--ssl-ca-certfile"
    database: str = "--database"
    storage: str | None = "--storage-dir"
    """Where the apps themselves are kept; later releases have them in the database."""
    node_authentication: str = "--enable-supernode-auth"
    """Works with TLS only. Which keys get in is said over the Control API; no release known
    reads them from a file any more."""
    disable_installation: str | None = None
    """From here on the SuperLink installs what an app asks for unless told not to."""

    # flower-supernode
    superlink: str = "--superlink"
    root_certificates: str = "--root-certificates"
    node_config: str = "--node-config"
    private_key: str = "--auth-supernode-private-key"
    """The public key is found from it."""
    refused_supernode_hangs: bool = False
    """Whether a SuperNode that is not let in stays, alive by its probes, instead of ending."""
    clientappio: Api = Api(
        "gRPC", 9094, ("--clientappio-api-address",), ("/flwr.proto.ClientAppIo/", RUNTIME)
    )

    # flower-superexec
    runtime: str = "--appio-api-address"
    plugin_type: str | None = "--plugin-type"
    superexec_root_certificates: str | None = None
    executor: str | None = None
    """1.31 had it too, but could not be told what the pods of tasks should be like."""
    executor_config: str | None = None
    task_volumes: bool = False
    """Whether the Kubernetes executor can mount volumes in the pods of tasks."""

    @property
    def apis(self) -> tuple[Api, ...]:
        return (self.fleet, self.control, self.serverappio, self.clientappio)

    @property
    def runtime_follows_tls(self) -> bool:
        """Whether the ServerApp runtime API shares the port, and so the TLS, of the others."""
        return self.serverappio.port == self.control.port

    @property
    def shares_one_port(self) -> bool:
        """Whether the Fleet API and the Control API are served on the same port."""
        return self.fleet.port == self.control.port


CHANGES: tuple[tuple[Release, dict[str, Any]], ...] = (
    (Release(1, 24), {"node_status_field": 4, "node_key_field": 11}),
    (Release(1, 26), {"connection_file": "config.toml"}),
    (Release(1, 29), {"superexec_secret": "--superexec-auth-secret-file", "storage": None}),
    (
        Release(1, 30),
        {
            "superexec_root_certificates": "--root-certificates",
            "runtime_certificate": "--appio-ssl-certfile",
            "runtime_certificate_key": "--appio-ssl-keyfile",
            "runtime_certificate_authority": "--appio-ssl-ca-certfile",
        },
    ),
    (
        Release(1, 32),
        {
            "disable_installation": "--disable-runtime-dependency-installation",
            "executor": "--executor",
            "executor_config": "--executor-config",
        },
    ),
    (Release(1, 33), {"task_volumes": True}),
    (
        Release(1, 35),
        {
            "serverappio": Api("HTTP", 8000, HOST_AND_PORT, ("/v1/runtime/",)),
            "clientappio": Api("HTTP", 9094, HOST_AND_PORT, ("/v1/runtime/",)),
            "refused_supernode_hangs": True,
        },
    ),
    (Release(1, 36), {"runtime": "--runtime-api-address"}),
    (
        Release(1, 37),
        {
            "control": Api("HTTP", 8000, HOST_AND_PORT, ("/v1/control/",)),
            "runtime_certificate": "--ssl-certfile",
            "runtime_certificate_key": "--ssl-keyfile",
            "runtime_certificate_authority": "--ssl-ca-certfile",
        },
    ),
    (Release(1, 38), {"plugin_type": None, "refused_supernode_hangs": False}),
    (Release(1, 40), {"fleet": Api("HTTP", 8000, HOST_AND_PORT, ("/v1/fleet/",))}),
)


def _dialects() -> tuple[Dialect, ...]:
    found = [Dialect()]
    for since, changes in CHANGES:
        found.append(replace(found[-1], since=since, **changes))
    return tuple(found)


DIALECTS = _dialects()


@lru_cache(maxsize=256)
def dialect_of(release: Release) -> Dialect:
    """The dialect that a release speaks; a release newer than any known, the newest."""
    return max((d for d in DIALECTS if d.since <= release), key=lambda dialect: dialect.since)


__all__ = ["DIALECTS", "NEWEST", "OLDEST", "Api", "Dialect", "IsolationMode", "dialect_of"]
