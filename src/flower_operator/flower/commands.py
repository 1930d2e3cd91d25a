"""The arguments of flwr's three commands in the dialect of a release."""

from dataclasses import dataclass

from .dialects import Api, Dialect, IsolationMode

EVERYWHERE = "0.0.0.0"
LOOPBACK = "127.0.0.1"

# flwr's gRPC health service, plaintext on every release; two commands share a pod's address.
HEALTH_PORT = 9097
SUPEREXEC_HEALTH_PORT = 9098
# Of what takes TLS in the place of an API that has none.
RELAY_PORT = 9099


@dataclass(frozen=True)
class ApiPorts:
    """Ports of the SuperLink's pod at which other pods reach each of its APIs."""

    fleet: int
    control: int
    runtime: int


ENVOY_VERSION = "1.40.0"
ENVOY_IMAGE = f"envoyproxy/envoy:distroless-v{ENVOY_VERSION}"
# Others than flwr's own, which the SuperLink keeps on the pod's loopback.
GATEWAY_PORTS = ApiPorts(fleet=8092, control=8093, runtime=8091)
GATEWAY_HEALTH_PORT = 8090


def api_ports(dialect: Dialect, *, gateway: bool) -> ApiPorts:
    """Those of the gateway, or of the SuperLink itself."""
    if gateway:
        return GATEWAY_PORTS
    return ApiPorts(dialect.fleet.port, dialect.control.port, dialect.serverappio.port)


@dataclass(frozen=True)
class ServerCertificate:
    """Paths of the files that a SuperLink or a SuperNode serves TLS with."""

    authority: str
    certificate: str
    key: str


def superlink_arguments(
    dialect: Dialect,
    isolation: IsolationMode,
    *,
    exposed: bool = True,
    runtime_exposed: bool,
    tls: ServerCertificate | None = None,
    node_authentication: bool = False,
    superexec_secret: str | None = None,
    state: str | None = None,
) -> list[str]:
    """Arguments of flower-superlink. `exposed`: its Fleet and Control APIs are for other pods too,
    which they are unless a gateway stands in front; `runtime_exposed`: so is its app API;
    `node_authentication`: only SuperNodes with registered keys get in, which needs `tls`;
    `state`: the folder for what it has to know after a restart."""
    arguments = [dialect.isolation, isolation]
    if tls is None:
        arguments.append(dialect.insecure)
    else:
        arguments += [dialect.certificate_authority, tls.authority]
        arguments += [dialect.certificate, tls.certificate]
        arguments += [dialect.certificate_key, tls.key]
        if runtime_exposed and not dialect.runtime_follows_tls:
            arguments += _runtime_certificate(dialect, tls)
    if node_authentication:
        arguments.append(dialect.node_authentication)
    host = EVERYWHERE if exposed else LOOPBACK
    runtime_host = EVERYWHERE if runtime_exposed else LOOPBACK
    hosts = ((dialect.serverappio, runtime_host), (dialect.control, host), (dialect.fleet, host))
    # APIs that share a port share its flags too.
    listening = {(api.flags, api.port): api.listen(host) for api, host in hosts}
    arguments += [text for flags in listening.values() for text in flags]
    arguments += [dialect.health, f"{EVERYWHERE}:{HEALTH_PORT}"]
    if dialect.disable_installation:
        arguments.append(dialect.disable_installation)
    if state:
        arguments += [dialect.database, f"{state}/superlink.db"]
        arguments += [dialect.storage, f"{state}/apps"] if dialect.storage else []
    return arguments + _secret(dialect, isolation, superexec_secret)


def supernode_arguments(
    dialect: Dialect,
    isolation: IsolationMode,
    *,
    superlink: str,
    runtime_exposed: bool = False,
    root_certificates: str | None = None,
    private_key: str | None = None,
    tls: ServerCertificate | None = None,
    superexec_secret: str | None = None,
    node_config: str | None = None,
) -> list[str]:
    """Arguments of flower-supernode. `runtime_exposed`: its app API is for other pods too.
    `private_key`: whom the SuperLink will take it for; needs `root_certificates`. `tls`: what
    its app API has TLS with, which releases before 1.30 do without."""
    arguments = [dialect.superlink, superlink, dialect.isolation, isolation]
    if root_certificates is None:
        arguments.append(dialect.insecure)
    else:
        arguments += [dialect.root_certificates, root_certificates]
    if private_key is not None:
        arguments += [dialect.private_key, private_key]
    arguments += _runtime_certificate(dialect, tls)
    arguments += dialect.clientappio.listen(EVERYWHERE if runtime_exposed else LOOPBACK)
    arguments += [dialect.health, f"{EVERYWHERE}:{HEALTH_PORT}"]
    arguments += _secret(dialect, isolation, superexec_secret)
    if node_config is not None:
        arguments += [dialect.node_config, node_config]
    return arguments


def superexec_arguments(
    dialect: Dialect,
    plugin: str,
    runtime: str,
    *,
    root_certificates: str | None = None,
    superexec_secret: str | None = None,
    executor_config: str | None = None,
) -> list[str]:
    """Arguments of flower-superexec, which works for the `runtime` API at this address and, with
    an `executor_config`, hands that address on to the pods of its tasks."""
    arguments = [dialect.runtime, runtime]
    if root_certificates is None or dialect.superexec_root_certificates is None:
        arguments.append(dialect.insecure)
    else:
        arguments += [dialect.superexec_root_certificates, root_certificates]
    if dialect.plugin_type:
        arguments += [dialect.plugin_type, plugin]
    if executor_config and dialect.executor:
        arguments += [dialect.executor, "kubernetes"]
        arguments += [dialect.executor_config, executor_config] if dialect.executor_config else []
    arguments += [dialect.health, f"{EVERYWHERE}:{SUPEREXEC_HEALTH_PORT}"]
    return arguments + _secret(dialect, "process", superexec_secret)


def beside(runtime: Api) -> str:
    """The address of an app API for a SuperExec in the same pod."""
    return f"{LOOPBACK}:{runtime.port}"


def _runtime_certificate(dialect: Dialect, tls: ServerCertificate | None) -> list[str]:
    if tls is None:
        return []
    files = {
        dialect.runtime_certificate_authority: tls.authority,
        dialect.runtime_certificate: tls.certificate,
        dialect.runtime_certificate_key: tls.key,
    }
    return [text for flag, path in files.items() if flag for text in (flag, path)]


def _secret(dialect: Dialect, isolation: IsolationMode, path: str | None) -> list[str]:
    if path is None or dialect.superexec_secret is None or isolation == "subprocess":
        return []
    return [dialect.superexec_secret, path]
