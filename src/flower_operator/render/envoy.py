"""Envoy's configuration for the gateway in front of a SuperLink: pure, from the APIs to files.

A listener for each API passes that API's paths to the SuperLink on loopback and refuses everything
else. Envoy watches the files of the listeners and the certificate, so both change without a restart
and under open connections.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ..api.limits import MAX_SUPERNODES
from ..flower.commands import GATEWAY_HEALTH_PORT, GATEWAY_PORTS, LOOPBACK
from ..flower.dialects import Api, Dialect
from ..trust.layout import CERTIFICATE_FILE, KEY_FILE

Object = dict[str, Any]
ApiName = Literal["fleet", "control", "runtime"]

BOOTSTRAP_FILE = "bootstrap.json"
LISTENERS_FILE = "listeners.json"
CERTIFICATE_SOURCE_FILE = "certificate.json"

TYPE = "type.googleapis.com/envoy."
NODE = {"id": "gateway", "cluster": "flower"}  # Envoy refuses to watch files without either

# All calls of the Fleet API, the same from 1.23 to 1.42. What --enable-supernode-auth adds to a
# SuperLink is to refuse the first two: signatures by registered keys are checked either way.
REGISTRATION_CALLS = ("RegisterNode", "UnregisterNode")
FLEET_CALLS = (
    "ActivateNode",
    "DeactivateNode",
    "SendNodeHeartbeat",
    "PullMessages",
    "PushMessages",
    "GetRun",
    "GetFab",
    "PushObject",
    "PullObject",
    "ConfirmMessageReceived",
)
# flwr's own words and codes, so that a SuperNode ends as it does at a SuperLink with that flag.
REGISTRATION_REFUSED = (
    "SuperNode authentication is enabled. All SuperNodes must be registered via the CLI."
)
FAILED_PRECONDITION, REGISTRATION_REFUSED_CODE = "9", 2001

LIVE_PATH, READY_PATH = "/live", "/ready"
# uvicorn closes an idle connection after 5 s; with Envoy's default, requests then get 503.
UPSTREAM_IDLE = "4s"
STREAM_IDLE = "120s"
# Logs may be silent for as long as a round takes.
NEVER = "0s"
CONNECTION_IDLE = "900s"
HEADERS_TIMEOUT = "10s"
BUFFER_BYTES = 1 << 20
MAX_STREAMS = 100
# flwr sends models in parts of 5 MB, and apps of at most 10 MB.
MAX_REQUEST_BYTES = 32 << 20
MAX_HEAP_BYTES = 1 << 30
# SuperNodes from 1.40 on end when they are turned away, so it is far above what a Federation has.
MAX_CONNECTIONS = 4 * MAX_SUPERNODES


@dataclass(frozen=True)
class Gateway:
    """What stands in front of one SuperLink."""

    dialect: Dialect
    serves_runtime: bool = False
    """Whether ServerApps of other pods reach the runtime API through it."""
    tls: bool = False
    watches_certificate: bool = True
    """Whether a certificate that is replaced is served at once."""
    refuses_registration: bool = False
    """Only SuperNodes whose keys were registered over the Control API get in."""

    @property
    def apis(self) -> dict[ApiName, Api]:
        found: dict[ApiName, Api] = {"fleet": self.dialect.fleet, "control": self.dialect.control}
        return found | {"runtime": self.dialect.serverappio} if self.serves_runtime else found


@dataclass(frozen=True)
class Location:
    """Where the gateway runs: in a pod, or as a process of a machine."""

    host: str
    """The address at which it listens."""
    port_of: Callable[[int], int]
    """The port that stands for a port of the pod."""
    folder: str
    """Holds the files that are made here."""
    certificates: str
    """Holds the certificate and its key."""


def gateway_files(gateway: Gateway, location: Location) -> dict[str, str]:
    """The files that Envoy is started with, by name."""
    files = {
        BOOTSTRAP_FILE: _bootstrap(gateway, location),
        LISTENERS_FILE: {
            "resources": [
                _typed("config.listener.v3.Listener", _listener(gateway, name, api, location))
                for name, api in gateway.apis.items()
            ]
        },
    }
    if gateway.tls:
        files[CERTIFICATE_SOURCE_FILE] = {"resources": [_certificate(gateway, location)]}
    return {name: json.dumps(content, indent=1) + "\n" for name, content in files.items()}


def envoy_arguments(folder: str) -> list[str]:
    """One thread is enough for thousands of SuperNodes; a hot restart needs shared memory."""
    arguments = ["--config-path", f"{folder}/{BOOTSTRAP_FILE}", "--log-level", "warning"]
    return [*arguments, "--concurrency", "1", "--disable-hot-restart"]


def _bootstrap(gateway: Gateway, location: Location) -> Object:
    return {
        "node": NODE,
        "static_resources": {
            "listeners": [_live_listener(location)],
            "clusters": [_cluster(name, api, location) for name, api in gateway.apis.items()],
        },
        "dynamic_resources": {"lds_config": _watched(location.folder, LISTENERS_FILE)},
        "overload_manager": _overload_manager(),
    }


def _overload_manager() -> Object:
    """Reset the streams that hold most memory before refusing new requests."""
    heap, connections = "fixed_heap", "global_downstream_max_connections"
    monitors = {
        heap: ("fixed_heap.v3.FixedHeapConfig", {"max_heap_size_bytes": MAX_HEAP_BYTES}),
        connections: (
            "downstream_connections.v3.DownstreamConnectionsConfig",
            {"max_active_downstream_connections": MAX_CONNECTIONS},
        ),
    }
    triggers = {
        "reset_high_memory_stream": {
            "scaled": {"scaling_threshold": 0.8, "saturation_threshold": 0.95}
        },
        "stop_accepting_requests": {"threshold": {"value": 0.95}},
    }
    prefix = "envoy.resource_monitors."
    return {
        "refresh_interval": "0.25s",
        "resource_monitors": [
            {
                "name": prefix + name,
                "typed_config": _typed(f"extensions.resource_monitors.{kind}", config),
            }
            for name, (kind, config) in monitors.items()
        ],
        "actions": [
            {
                "name": f"envoy.overload_actions.{action}",
                "triggers": [{"name": prefix + heap, **trigger}],
            }
            for action, trigger in triggers.items()
        ],
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": 20},
    }


def _listener(gateway: Gateway, name: ApiName, api: Api, location: Location) -> Object:
    chain: Object = {"filters": [_network_filter(_api_manager(gateway, name, api))]}
    if gateway.tls:
        chain["transport_socket"] = _server_tls(location)
    return {
        "name": name,
        "address": _address(location.host, location.port_of(getattr(GATEWAY_PORTS, name))),
        "filter_chains": [chain],
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
    }


def _api_manager(gateway: Gateway, name: ApiName, api: Api) -> Object:
    stream_idle = NEVER if name == "control" else STREAM_IDLE
    route: Object = {"cluster": name, "timeout": NEVER, "idle_timeout": stream_idle}
    if api.transport == "HTTP":
        # Safe for every call: nothing was sent yet.
        route["retry_policy"] = {"retry_on": "reset-before-request,connect-failure"}
    if name == "fleet" and gateway.refuses_registration:
        routes = [_refused_registration(api, call) for call in REGISTRATION_CALLS]
        # What a newer release adds is refused rather than let in.
        matches = [{"path": _path(api, call)} for call in FLEET_CALLS]
    else:
        routes, matches = [], [{"prefix": path} for path in api.paths]
    if api.transport == "HTTP":
        matches.append({"path": "/health"})
    routes += [{"match": match, "route": route} for match in matches]
    manager = _manager(name, routes)
    buffer = {"max_request_bytes": MAX_REQUEST_BYTES}
    kind = "extensions.filters.http.buffer.v3.Buffer"
    manager["http_filters"].insert(0, {"name": "buffer", "typed_config": _typed(kind, buffer)})
    if name == "fleet":
        manager["http_filters"].insert(0, _readiness(gateway))
    return manager | {
        # A path is compared in the form in which the SuperLink reads it.
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "server_header_transformation": "PASS_THROUGH",
        "stream_idle_timeout": stream_idle,
        "request_headers_timeout": HEADERS_TIMEOUT,
        "common_http_protocol_options": {"idle_timeout": CONNECTION_IDLE},
        "http2_protocol_options": {"max_concurrent_streams": MAX_STREAMS},
    }


def _path(api: Api, call: str) -> str:
    """PullMessages over gRPC, pull-messages over HTTP."""
    (path,) = api.paths
    if api.transport == "gRPC":
        return path + call
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in call)
    return path + words.removeprefix("-")


def _refused_registration(api: Api, call: str) -> Object:
    answer: Object
    if api.transport == "gRPC":
        headers = {
            "content-type": "application/grpc",
            "grpc-status": FAILED_PRECONDITION,
            "grpc-message": REGISTRATION_REFUSED,
        }
        answer = {"status": 200}
    else:
        headers = {"content-type": "application/json"}
        body = {
            "code": REGISTRATION_REFUSED_CODE,
            "public_message": REGISTRATION_REFUSED,
            "public_details": None,
        }
        answer = {"status": 412, "body": {"inline_string": json.dumps(body)}}
    return {
        "match": {"path": _path(api, call)},
        "direct_response": answer,
        "response_headers_to_add": [
            {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in headers.items()
        ],
    }


def _readiness(gateway: Gateway) -> Object:
    """Every API behind the gateway answers. A kubelet cannot ask the SuperLink itself, on loopback;
    here it also finds out whether there is a certificate that can be served."""
    ready = {
        "pass_through_mode": False,
        "cluster_min_healthy_percentages": {name: {"value": 100} for name in gateway.apis},
        "headers": [{"name": ":path", "string_match": {"exact": READY_PATH}}],
    }
    kind = "extensions.filters.http.health_check.v3.HealthCheck"
    return {"name": "health_check", "typed_config": _typed(kind, ready)}


def _live_listener(location: Location) -> Object:
    """Envoy answers, whatever is behind it."""
    routes = [{"match": {"path": LIVE_PATH}, "direct_response": {"status": 200}}]
    return {
        "name": "live",
        "address": _address(location.host, location.port_of(GATEWAY_HEALTH_PORT)),
        "filter_chains": [{"filters": [_network_filter(_manager("live", routes))]}],
    }


def _manager(name: str, routes: list[Object]) -> Object:
    router = _typed("extensions.filters.http.router.v3.Router", {})
    return {
        "stat_prefix": name,
        "use_remote_address": True,
        "http_filters": [{"name": "router", "typed_config": router}],
        "route_config": {"virtual_hosts": [{"name": name, "domains": ["*"], "routes": routes}]},
    }


def _network_filter(manager: Object) -> Object:
    kind = "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    return {"name": "http", "typed_config": _typed(kind, manager)}


def _cluster(name: ApiName, api: Api, location: Location) -> Object:
    health: Object = {
        "timeout": "2s",
        "interval": "2s",
        "no_traffic_interval": "2s",
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
    }
    options: Object
    if api.transport == "gRPC":
        options = {"explicit_http_config": {"http2_protocol_options": {}}}
        health["tcp_health_check"] = {}
    else:
        options = {
            "explicit_http_config": {"http_protocol_options": {}},
            "common_http_protocol_options": {"idle_timeout": UPSTREAM_IDLE},
        }
        health["http_health_check"] = {"path": "/health"}
    endpoint = {"endpoint": {"address": _address(LOOPBACK, location.port_of(api.port))}}
    # Its defaults are 1,024 each; a SuperNode has several requests open.
    limits = {"max_connections": 10_000, "max_pending_requests": 10_000, "max_requests": 10_000}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": _typed(
                "extensions.upstreams.http.v3.HttpProtocolOptions", options
            )
        },
        "circuit_breakers": {"thresholds": [limits]},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
        "health_checks": [health],
    }


def _server_tls(location: Location) -> Object:
    source = _watched(location.folder, CERTIFICATE_SOURCE_FILE)
    context = {
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
            "tls_certificate_sds_secret_configs": [{"name": "server", "sds_config": source}],
        }
    }
    kind = "extensions.transport_sockets.tls.v3.DownstreamTlsContext"
    return {"name": "tls", "typed_config": _typed(kind, context)}


def _certificate(gateway: Gateway, location: Location) -> Object:
    """A key that does not fit its certificate is ignored: then the old ones stay in use."""
    files: Object = {
        "certificate_chain": {"filename": f"{location.certificates}/{CERTIFICATE_FILE}"},
        "private_key": {"filename": f"{location.certificates}/{KEY_FILE}"},
    }
    if gateway.watches_certificate:
        files["watched_directory"] = {"path": location.certificates}
    secret = {"name": "server", "tls_certificate": files}
    return _typed("extensions.transport_sockets.tls.v3.Secret", secret)


def _watched(folder: str, file: str) -> Object:
    source = {"path": f"{folder}/{file}", "watched_directory": {"path": folder}}
    return {"path_config_source": source, "resource_api_version": "V3"}


def _typed(kind: str, content: Object) -> Object:
    return {"@type": TYPE + kind, **content}


def _address(host: str, port: int) -> Object:
    return {"socket_address": {"address": host, "port_value": port}}
