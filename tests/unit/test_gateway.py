"""What a gateway in front of the SuperLink changes about what is rendered."""

import json
from itertools import product
from typing import Any

import pytest

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.flower.commands import ENVOY_IMAGE
from flower_operator.render import Facts, Plan, render
from flower_operator.render.facts import Identities
from flower_operator.render.secrets import CERTIFICATE
from tests.unit.federations import document, find, plan, pod

Document = dict[str, Any]
RELEASES = ("1.23.0", "1.29.0", "1.34.0", "1.35.0", "1.37.0", "1.40.0", "1.42.0")
PORTS = {"fleet": 8092, "control": 8093, "serverappio": 8091}


def guarded(release: str, isolation: str = "process", **spec: Any) -> Plan:
    superlink = spec.pop("superlink", {}) | {"gateway": {"enabled": True}}
    return plan("StatefulSet", isolation, superlink=superlink, version=release, **spec)


def container(rendered: Plan, name: str, kind: str = "Deployment") -> Document:
    containers = pod(rendered, kind, "fed-superlink")["containers"]
    (found,) = (each for each in containers if each["name"] == name)
    return found  # type: ignore[no-any-return]


def listeners(rendered: Plan) -> dict[str, Document]:
    data = find(rendered, "ConfigMap", "fed-superlink-gateway")["data"]
    return {each["name"]: each for each in json.loads(data["listeners.json"])["resources"]}


def routes(listener: Document) -> list[Document]:
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    (host,) = manager["route_config"]["virtual_hosts"]
    return host["routes"]  # type: ignore[no-any-return]


def matches(listener: Document, *, refused: bool = False) -> list[str]:
    return [
        next(iter(route["match"].values()))
        for route in routes(listener)
        if ("direct_response" in route) == refused
    ]


@pytest.mark.parametrize(
    ("release", "isolation", "insecure"),
    list(product(RELEASES, ("process", "subprocess"), (True, False))),
)
def test_the_superlink_is_on_loopback_without_certificates(
    release: str, isolation: str, insecure: bool
) -> None:
    rendered = guarded(release, isolation, insecure=insecure)
    superlink = container(rendered, "superlink")
    arguments = superlink["args"]
    # Its health service says whether it runs, and nothing else.
    assert [text for text in arguments if text.startswith("0.0.0.0")] == ["0.0.0.0:9097"]
    assert "--insecure" in arguments
    assert not [text for text in arguments if "ssl" in text]
    assert "flower-tls" not in {each["name"] for each in superlink["volumeMounts"]}
    assert "ports" not in superlink
    assert "readinessProbe" not in superlink


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("insecure", [True, False])
def test_the_service_leads_to_the_gateway(release: str, insecure: bool) -> None:
    rendered = guarded(release, insecure=insecure)
    ports = find(rendered, "Service", "fed-superlink")["spec"]["ports"]
    served = {each["name"]: each["targetPort"] for each in ports}
    names = PORTS if insecure else PORTS.keys() - {"serverappio"}
    assert served == {name: PORTS[name] for name in names}
    offered = container(rendered, "gateway")["ports"]
    assert {each["name"]: each["containerPort"] for each in offered} == served
    assert {
        each["address"]["socket_address"]["port_value"] for each in listeners(rendered).values()
    } == set(served.values())


def test_each_listener_passes_the_calls_of_its_own_api() -> None:
    old, new = listeners(guarded("1.34.0")), listeners(guarded("1.42.0"))
    assert matches(old["fleet"]) == ["/flwr.proto.Fleet/"]
    assert matches(old["control"]) == ["/flwr.proto.Control/"]
    assert matches(old["runtime"]) == ["/flwr.proto.ServerAppIo/", "/flwr.proto.Runtime/"]
    assert matches(new["fleet"]) == ["/v1/fleet/", "/health"]
    assert matches(new["control"]) == ["/v1/control/", "/health"]
    assert matches(new["runtime"]) == ["/v1/runtime/", "/health"]


@pytest.mark.parametrize(
    ("release", "refused", "passed"),
    [
        ("1.25.0", "/flwr.proto.Fleet/RegisterNode", "/flwr.proto.Fleet/PullMessages"),
        ("1.42.0", "/v1/fleet/register-node", "/v1/fleet/pull-messages"),
    ],
)
def test_with_keys_the_gateway_refuses_supernodes_that_register_themselves(
    release: str, refused: str, passed: str
) -> None:
    rendered = guarded(release, insecure=False, supernodeAuth={"enabled": True})
    fleet = listeners(rendered)["fleet"]
    assert matches(fleet, refused=True)[0] == refused
    assert passed in matches(fleet)
    # Calls that a newer release adds are refused, not let in.
    assert not [each for each in routes(fleet) if "prefix" in each["match"]]
    assert "--enable-supernode-auth" not in container(rendered, "superlink")["args"]


def test_network_policies_name_the_gateways_ports() -> None:
    rendered = guarded("1.42.0", insecure=False)
    (policy,) = (
        each
        for each in rendered.objects
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "fed-superlink"
    )
    admitted = [rule["ports"][0]["port"] for rule in policy["spec"]["ingress"]]
    assert sorted(admitted) == [8092, 8093]
    pool = find(rendered, "NetworkPolicy", "fed-supernode-default")["spec"]["egress"]
    assert {port["port"] for rule in pool for port in rule["ports"]} == {8092, 53}
    assert not [each for each in rendered.notices if "its APIs on one port" in each]


def test_serverapps_of_another_pod_reach_the_runtime_api_over_tls() -> None:
    superlink = {"persistence": {"size": "1Gi"}}
    rendered = guarded("1.42.0", insecure=False, superlink=superlink)
    (superexec,) = pod(rendered, "Deployment", "fed-serverapp")["containers"]
    assert "--root-certificates" in superexec["args"]
    assert "runtime" in listeners(rendered)
    assert "transport_socket" in listeners(rendered)["runtime"]["filter_chains"][0]


def test_a_relay_stays_where_a_superexec_has_no_tls() -> None:
    superlink = {"persistence": {"size": "1Gi"}}
    rendered = guarded("1.25.0", insecure=False, superlink=superlink)
    containers = pod(rendered, "StatefulSet", "fed-superlink")["containers"]
    assert [each["name"] for each in containers] == ["superlink", "gateway", "relay"]
    assert "runtime" not in listeners(rendered)


IDENTITIES = Facts(namespace="team", identities=Identities("certificate", "authority"))


@pytest.mark.parametrize(
    ("tls", "watched"),
    [({}, True), ({"secretName": "mine"}, False), ({"issuerRef": {"name": "lab"}}, False)],
)
def test_a_certificate_of_the_federations_own_is_read_again_without_a_restart(
    tls: Document, watched: bool
) -> None:
    """One from elsewhere may be by a CA that no client knows yet."""
    gateway = {"gateway": {"enabled": True}}
    rendered = render(parse(document(insecure=False, superlink=gateway, tls=tls)), IDENTITIES)
    template = find(rendered, "Deployment", "fed-superlink")["spec"]["template"]
    assert (CERTIFICATE in template["metadata"].get("annotations", {})) != watched
    data = find(rendered, "ConfigMap", "fed-superlink-gateway")["data"]
    (secret,) = json.loads(data["certificate.json"])["resources"]
    assert ("watched_directory" in secret["tls_certificate"]) == watched


def test_image_and_resources_are_the_users() -> None:
    own = {"enabled": True, "image": "registry.test/envoy:1", "resources": {"limits": {"cpu": "1"}}}
    rendered = plan(superlink={"gateway": own})
    found = container(rendered, "gateway")
    assert (found["image"], found["resources"]) == (own["image"], own["resources"])
    assert container(guarded("1.42.0"), "gateway")["image"] == ENVOY_IMAGE
    own.pop("image")
    facts = Facts(namespace="team", gateway_image="registry.test/envoy:2")
    rendered = render(parse(document(superlink={"gateway": own})), facts)
    assert container(rendered, "gateway")["image"] == "registry.test/envoy:2"


@pytest.mark.parametrize("insecure", [True, False])
def test_the_gateway_is_ready_when_the_apis_behind_it_are(insecure: bool) -> None:
    found = container(guarded("1.42.0", insecure=insecure), "gateway")
    # Over TLS, so that a certificate that cannot be served is noticed.
    scheme = {} if insecure else {"scheme": "HTTPS"}
    assert found["readinessProbe"]["httpGet"] == {"path": "/ready", "port": 8092} | scheme
    assert found["livenessProbe"]["httpGet"] == {"path": "/live", "port": 8090}


def test_an_external_superlink_has_no_gateway_of_ours() -> None:
    external = {"address": "flower.example.org:9092"}
    changed = document(superlink={"external": external, "gateway": {"enabled": True}})
    del changed["spec"]["superlink"]["image"]
    with pytest.raises(InvalidFederation, match="gateway must not be set beside"):
        parse(changed)


def test_without_it_nothing_of_it_is_rendered() -> None:
    rendered = plan(version="1.42.0", insecure=False)
    assert rendered.gateway is None
    assert not [each for each in rendered.objects if "gateway" in each["metadata"]["name"]]
