"""NetworkPolicies: whom each part of a Federation may talk to."""

from typing import Any

import pytest

from flower_operator.api.manifest import parse
from flower_operator.operator.actions import Update, decide
from flower_operator.operator.desired import desired_of
from flower_operator.render import Facts, Plan, render
from tests.unit.federations import Document, document, find, plan
from tests.unit.observations import applied, federation, observe_all
from tests.unit.test_render import render_problems

ON: Document = {"networkPolicy": {"enabled": True}}
SUPEREXEC = "superexec-serverapp"
KUBERNETES = {"executor": "kubernetes"}
DNS = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
API_SERVER = {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]}
NOTEBOOK = {"podSelector": {"matchLabels": {"app": "notebook"}}}
STORE = {"to": [{"ipBlock": {"cidr": "10.20.0.0/16"}}], "ports": [{"port": 5432}]}
FLEET_OPEN = ["supernode", "0.0.0.0/0", "::/0"]


def policies(rendered: Plan) -> list[str]:
    kind = "NetworkPolicy"
    return [each["metadata"]["name"] for each in rendered.objects if each["kind"] == kind]


def policy(rendered: Plan, name: str) -> Document:
    spec: Document = find(rendered, "NetworkPolicy", name)["spec"]
    return spec


def who(peer: Document) -> str:
    """A peer in one word."""
    if "ipBlock" in peer:
        return str(peer["ipBlock"]["cidr"])
    labels = peer["podSelector"]["matchLabels"]
    return str(labels.get("flower.flwr.ai/component") or next(iter(labels.values())))


def admitted(rendered: Plan, name: str) -> dict[int, list[str]]:
    """Who is let in, by port."""
    rules = policy(rendered, name)["ingress"]
    return {rule["ports"][0]["port"]: [who(peer) for peer in rule["from"]] for rule in rules}


def reached(rendered: Plan, name: str) -> dict[tuple[str, ...], int]:
    """Where pods may connect to, but for what is the same for all."""
    rules = policy(rendered, name)["egress"]
    return {
        tuple(who(peer) for peer in rule["to"]): rule["ports"][0]["port"]
        for rule in rules
        if "to" in rule
    }


@pytest.mark.parametrize(
    ("insecure", "enabled", "on"),
    [
        (True, None, False),
        (True, True, True),
        (True, False, False),
        (False, None, True),
        (False, True, True),
        (False, False, False),
    ],
)
def test_policies_come_with_tls_unless_told_otherwise(
    insecure: bool, enabled: bool | None, on: bool
) -> None:
    settings = {} if enabled is None else {"enabled": enabled}
    found = policies(plan(insecure=insecure, networkPolicy=settings))
    assert found == (["fed-superlink", "fed-supernode-default"] if on else [])


def test_every_workload_has_a_policy_for_exactly_its_pods() -> None:
    rendered = plan(pools=[{"name": "north"}, {"name": "south"}], **ON)
    found = policies(rendered)
    for name in found:
        kind = "Deployment" if name == "fed-superlink" else "StatefulSet"
        labels = find(rendered, kind, name)["spec"]["template"]["metadata"]["labels"]
        assert policy(rendered, name)["podSelector"] == {"matchLabels": labels}
        assert policy(rendered, name)["policyTypes"] == ["Ingress", "Egress"]
    assert found == ["fed-superlink", "fed-supernode-north", "fed-supernode-south"]
    # A pod that runs before it is shut off has seconds to talk to anyone.
    assert [each["kind"] for each in rendered.objects[:3]] == ["NetworkPolicy"] * 3


@pytest.mark.parametrize(
    ("release", "fleet", "control"),
    [("1.25.0", 9092, 9093), ("1.36.0", 9092, 9093), ("1.37.0", 9092, 8000)],
)
def test_fleet_and_control_are_for_different_peers(release: str, fleet: int, control: int) -> None:
    settings = {"enabled": True, "controlFrom": [NOTEBOOK]}
    rendered = plan(isolation="process", version=release, networkPolicy=settings)
    assert admitted(rendered, "fed-superlink") == {
        fleet: ["supernode"],
        control: ["flower-operator", "notebook"],
    }
    assert reached(rendered, "fed-supernode-default") == {("superlink",): fleet}
    assert policy(rendered, "fed-supernode-default")["ingress"] == []
    assert not any("one port" in notice for notice in rendered.notices)


def test_releases_with_one_port_cannot_keep_them_apart_and_say_so() -> None:
    rendered = plan(version="1.41.0", networkPolicy={"enabled": True, "controlFrom": [NOTEBOOK]})
    everyone = ["supernode", "flower-operator", "notebook"]
    assert admitted(rendered, "fed-superlink") == {8000: everyone}
    told = "Flower 1.41.0 has its APIs on one port, so SuperNodes can also submit runs"
    assert any(told in notice for notice in rendered.notices)


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_a_service_for_outside_opens_the_fleet_to_everyone_and_nothing_else(kind: str) -> None:
    service = {"superlink": {"service": {"type": kind}}}
    old = admitted(plan(**service, **ON), "fed-superlink")
    assert old == {9092: FLEET_OPEN, 9093: ["flower-operator"]}
    new = plan(version="1.41.0", **service, **ON)
    assert admitted(new, "fed-superlink") == {8000: [*FLEET_OPEN, "flower-operator"]}
    assert any("all who reach the Service can also submit runs" in each for each in new.notices)


def test_the_operator_is_let_in_from_its_own_namespace() -> None:
    rendered = render(parse(document(**ON)), Facts(operator_namespace="elsewhere"))
    (peer,) = policy(rendered, "fed-superlink")["ingress"][1]["from"]
    assert peer["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}
    }
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "flower-operator"


def test_all_pods_may_ask_for_names_and_go_where_the_user_says() -> None:
    rendered = plan(
        isolation="process",
        version="1.41.0",
        superlink=KUBERNETES,
        pool=KUBERNETES,
        networkPolicy={"enabled": True, "egress": [STORE]},
    )
    assert len(policies(rendered)) == 4
    for name in policies(rendered):
        assert policy(rendered, name)["egress"].count(DNS) == 1
        assert policy(rendered, name)["egress"][-1 - name.startswith("fed-supernode")] == STORE


def test_on_openshift_dns_pods_have_another_port() -> None:
    rendered = render(parse(document(**ON)), Facts(openshift=True))
    for name in policies(rendered):
        (names,) = (each for each in policy(rendered, name)["egress"] if "to" not in each)
        assert {each["port"] for each in names["ports"]} == {53, 5353}


@pytest.mark.parametrize(("release", "port"), [("1.34.0", 9091), ("1.36.0", 8000)])
def test_the_runtime_is_for_nobody_but_tasks_in_pods_of_their_own(release: str, port: int) -> None:
    assert port not in admitted(plan(isolation="process", version=release, **ON), "fed-superlink")
    rendered = plan(
        isolation="process", version=release, superlink=KUBERNETES, pool=KUBERNETES, **ON
    )
    assert admitted(rendered, "fed-superlink")[port] == ["superlink", "serverapp"]
    assert reached(rendered, "fed-superlink") == {("superlink",): port}
    assert reached(rendered, "fed-serverapp") == {("superlink",): port}
    assert admitted(rendered, "fed-supernode-default") == {9094: ["clientapp"]}
    assert reached(rendered, "fed-clientapp-default") == {("supernode",): 9094}
    for name in ("fed-serverapp", "fed-clientapp-default"):
        assert policy(rendered, name)["ingress"] == []
        assert API_SERVER not in policy(rendered, name)["egress"]
    for name in ("fed-superlink", "fed-supernode-default"):
        assert API_SERVER in policy(rendered, name)["egress"]
    told = [notice for notice in rendered.notices if "every address on ports 443" in notice]
    assert len(told) == 2


@pytest.mark.parametrize(
    ("release", "insecure", "launches", "port"),
    [
        ("1.34.0", True, False, 9091),
        ("1.34.0", True, True, 9091),
        ("1.34.0", False, False, 9091),
        ("1.25.0", False, False, 9099),  # that of a relay
    ],
)
def test_where_serverapps_are_apart_they_alone_reach_the_runtime(
    release: str, insecure: bool, launches: bool, port: int
) -> None:
    superlink = {"persistence": {"size": "1Gi"}, **(KUBERNETES if launches else {})}
    settings = {"enabled": True, "egress": [STORE]}
    rendered = plan(
        isolation="process",
        version=release,
        insecure=insecure,
        superlink=superlink,
        networkPolicy=settings,
    )
    expected = [SUPEREXEC, "serverapp"] if launches else [SUPEREXEC]
    assert admitted(rendered, "fed-superlink") == {
        9092: ["supernode"],
        9093: ["flower-operator"],
        port: expected,
    }
    own = policy(rendered, "fed-superexec")
    labels = find(rendered, "Deployment", "fed-serverapp")["spec"]["selector"]
    assert own["podSelector"] == labels
    assert own["ingress"] == []
    assert own["egress"][0]["ports"] == [{"protocol": "TCP", "port": port}]
    assert own["egress"][1:] == [*[API_SERVER] * launches, DNS, STORE]
    # What starts pods is no longer in the SuperLink's.
    assert policy(rendered, "fed-superlink")["egress"] == [DNS, STORE]


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        ({}, "names nobody"),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}, "beside a selector"),
        ({"ipBlock": {"cidr": "10.0.0.1"}}, "'10.0.0.1' is no range of addresses"),
        ({"ipBlock": {"cidr": "::/0", "except": ["office"]}}, "'office' is no range"),
    ],
)
def test_a_peer_that_kubernetes_would_refuse_is_named(peer: Document, said: str) -> None:
    (found,) = render_problems(networkPolicy={"controlFrom": [NOTEBOOK, peer]})
    assert found.startswith("spec.networkPolicy.controlFrom[1]: ")
    assert said in found
    (found,) = render_problems(networkPolicy={"egress": [STORE, {"to": [peer]}]})
    assert found.startswith("spec.networkPolicy.egress[1].to[0]: ")


def test_rules_without_policies_are_told() -> None:
    def notices(**settings: Any) -> list[str]:
        return [each for each in plan(networkPolicy=settings).notices if "networkPolicy" in each]

    assert notices() == []
    for settings in ({"egress": [STORE]}, {"controlFrom": [NOTEBOOK]}):
        assert notices(**settings) == [
            "spec.networkPolicy: has no effect with insecure: true unless enabled is true"
        ]


def test_a_policy_changed_by_hand_is_applied_anew() -> None:
    manifest = document(**ON)
    wanted = desired_of(federation(manifest))[0].children
    there = applied(manifest)
    assert decide(wanted, observe_all(there.values())) == []
    there["NetworkPolicy", "fed-superlink"]["metadata"]["generation"] = 2
    (action,) = decide(wanted, observe_all(there.values()))
    assert isinstance(action, Update)
    assert (action.wanted.identity, action.generation) == (("NetworkPolicy", "fed-superlink"), 3)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, True),
        ({"networkPolicy": {"enabled": True}}, False),
        ({"insecure": False}, False),
        ({"insecure": False, "networkPolicy": {"enabled": False}}, True),
    ],
)
def test_the_status_says_where_anyone_can_submit_runs(spec: Document, told: bool) -> None:
    notices = desired_of(federation(document(**spec)))[0].outline.notices
    assert any("whoever reaches the SuperLink can run code" in each for each in notices) is told
