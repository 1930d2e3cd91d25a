"""Federations whose SuperLink runs elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flower_operator.local.federations import LocalError
from flower_operator.local.keys import take_keys
from flower_operator.operator.connections import OUTSIDE
from flower_operator.operator.desired import Identity, desired_of, pool_part
from flower_operator.operator.upgrade import decide_upgrade
from flower_operator.render import Facts
from flower_operator.render.facts import Identities
from flower_operator.status.observation import Fault, Observation
from flower_operator.status.observed import Workload
from flower_operator.status.summary import refuse
from flower_operator.trust.keys import KeyPair, changed_keyring, decide_keys
from tests.unit.federations import Document, container, document, find, plan, pod, value_of
from tests.unit.observations import federation
from tests.unit.test_manifest import problems
from tests.unit.test_render import render_problems
from tests.unit.test_status import NOW, POOL, by_type, outline, replicated, status
from tests.unit.test_upgrade import outline as released
from tests.unit.test_upgrade import workload

CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----\n"
ADDRESS = "flower.example.org:30092"


def external(address: str = ADDRESS, ca: str | None = CA, **others: Any) -> Document:
    """What to lay over a manifest's superlink."""
    found = {"address": address} | ({"ca": ca} if ca else {})
    return {"image": None, "superexecImage": None, "external": found, **others}


SECURE: Document = {"superlink": external(), "insecure": False}
KEYED: Document = {**SECURE, "supernodeAuth": {"enabled": True, "allowSubprocess": True}}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (document(superlink=external(image="x")), "image, superexecImage, executor, persistence"),
        (document(superlink=external(persistence={"size": 1})), "must not be set beside"),
        (
            document(superlink=external("flower:70000")),
            "external.address: must be a host and a port",
        ),
        (document(superlink=external("flower")), "external.address: must be a host and a port"),
        (
            document(superlink=external(ca=None), insecure=False),
            "spec.superlink.external.ca: spec.superlink.external.ca is required when "
            "insecure=false: SuperNodes trust nothing else",
        ),
        (document("DaemonSet", **KEYED), "keys come with the manifest, one for each replica"),
        (document(superlink=external(), pool={"placement": {"name": "gpu"}}), "placement must not"),
        (
            document(isolation="process", **SECURE, pool={"executor": "kubernetes"}),
            "or spec.superlink.external only when insecure=true",
        ),
    ],
)
def test_what_has_no_place_beside_it_is_refused(manifest: Document, said: str) -> None:
    (found,) = problems(manifest)
    assert said in found


@pytest.mark.parametrize("text", ["none", KEY, CA.replace("AAAA", "?")])
def test_a_ca_that_is_none_is_refused(text: str) -> None:
    assert render_problems(superlink=external(ca=text), insecure=False) == [
        "spec.superlink.external.ca: holds no certificate that can be read; write it as PEM, "
        "BEGIN and END lines too"
    ]


@pytest.mark.parametrize("isolation", ["process", "subprocess"])
def test_supernodes_connect_there_and_nothing_is_made_of_a_superlink(isolation: str) -> None:
    made = plan(isolation=isolation, **{**SECURE, "superlink": external(ca=KEY + CA)})
    assert [(each["kind"], each["metadata"]["name"]) for each in made.objects] == [
        ("NetworkPolicy", "fed-supernode-default"),
        ("ConfigMap", "fed-external-ca"),
        ("StatefulSet", "fed-supernode-default"),
    ]
    assert find(made, "ConfigMap", "fed-external-ca")["data"] == {"ca.crt": CA}
    spec = pod(made, "StatefulSet", "fed-supernode-default")
    assert value_of(container(spec, "supernode")["args"], "--superlink") == ADDRESS
    sources = [each["configMap"]["name"] for each in spec["volumes"] if "configMap" in each]
    assert sources == ["fed-external-ca"]


def test_another_ca_takes_other_pods() -> None:
    def annotations(ca: str) -> Mapping[str, str]:
        made = plan(**{**SECURE, "superlink": external(ca=ca)})
        template = find(made, "StatefulSet", "fed-supernode-default")["spec"]["template"]
        found: Mapping[str, str] = template["metadata"]["annotations"]
        return found

    assert annotations(CA) == annotations(CA)
    assert annotations(CA) != annotations(CA + CA)


@pytest.mark.parametrize(
    ("address", "to"),
    [
        ("192.0.2.7:9092", [{"ipBlock": {"cidr": "192.0.2.7/32"}}]),
        ("[2001:db8::7]:9092", [{"ipBlock": {"cidr": "2001:db8::7/128"}}]),
        ("flower.example.org:9092", None),
    ],
)
def test_supernodes_reach_nothing_else(address: str, to: list[Document] | None) -> None:
    made = plan(**{**SECURE, "superlink": external(address)})
    egress = find(made, "NetworkPolicy", "fed-supernode-default")["spec"]["egress"]
    assert egress[0].get("to") == to
    assert egress[0]["ports"] == [{"protocol": "TCP", "port": 9092}]
    assert [port["port"] for port in egress[1]["ports"]] == [53, 53]
    assert any("every address on port 9092" in each for each in made.notices) == (to is None)


def test_what_is_said_of_a_superlink_that_is_not_here_is_noticed() -> None:
    made = plan(
        superlink=external(env=[{"name": "A"}], service={"type": "NodePort"}),
        tls={"subjectAltNames": ["a.example"]},
    )
    assert [each for each in made.notices if "external" in each] == [
        "spec.superlink.env: has no effect with spec.superlink.external",
        "spec.superlink.service: has no effect with spec.superlink.external",
        "spec.tls.subjectAltNames: has no effect with spec.superlink.external",
    ]


def test_its_release_is_told_by_the_version_or_the_supernodes() -> None:
    assert str(plan(superlink=external()).releases.superlink) == "1.25.0"
    assert str(plan(superlink=external(), version="1.41.0").releases.superlink) == "1.41.0"


def test_keys_that_came_along_are_neither_made_nor_waited_for() -> None:
    facts = Facts(identities=Identities("", "", secret="s"))
    desired, bodies = desired_of(federation(document(**KEYED)), facts)
    assert not desired.outline.authenticated
    spec = bodies["StatefulSet", "fed-supernode-default"]["spec"]["template"]["spec"]
    assert "schedulingGates" not in spec
    secrets = [each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each]
    assert secrets == ["fed-supernode-default-keys"]


def test_it_is_ready_with_its_pools_and_says_nothing_of_the_superlink() -> None:
    of = outline(**SECURE)
    seen = status(of, Observation({POOL: replicated(POOL, 2)}))
    found = by_type(seen.conditions)
    assert found["Ready"].status == "True"
    assert found["Ready"].message.startswith("2 of 2 SuperNodes are ready")
    unknown = found["SuperLinkAvailable"]
    assert (unknown.status, unknown.reason) == ("Unknown", "External")
    assert (seen.release, seen.connected_supernodes) == (None, None)
    assert seen.endpoints.superlink_service == ADDRESS
    suspended = status(replace(of, suspended=True), Observation({POOL: replicated(POOL, 0)}))
    assert by_type(suspended.conditions)["Ready"].message == (
        "spec.suspend is true: no SuperNodes run"
    )
    refused = by_type(refuse([Fault("InvalidSpec", "odd")], None, seen, 2, NOW).conditions)
    assert refused["SuperLinkAvailable"] == unknown.model_copy(update={"observed_generation": 2})


def test_pools_are_upgraded_one_by_one_without_a_superlink_to_wait_for() -> None:
    wanted = released("1.39.0", superlink=external())
    running: dict[Identity, Workload] = {
        (each.kind, each.workload): workload("1.25.0") for each in wanted.pools
    }
    for pool in wanted.pools:
        upgrade = decide_upgrade(wanted, running, (), OUTSIDE, (), NOW)
        assert pool_part(pool.name) not in upgrade.held
        assert len(upgrade.held) == sum(each == workload("1.25.0") for each in running.values()) - 1
        running[pool.kind, pool.workload] = workload("1.39.0")
    assert not decide_upgrade(wanted, running, (), OUTSIDE, (), NOW).under_way


def test_keys_that_came_with_a_manifest_are_kept_on_this_machine(tmp_path: Path) -> None:
    name = "fed-supernode-default-keys"
    decision = decide_keys({}, ["0", "1"], NOW)
    files = changed_keyring({}, decision, {"0": KeyPair("a", "A"), "1": KeyPair("b", "B")}, NOW)
    with pytest.raises(LocalError, match=f"Secret {name} has no keys for 0, 1"):
        take_keys(tmp_path, "fed", {"default": 2}, {})
    first = take_keys(tmp_path, "fed", {"default": 2}, {name: files})
    assert first.rings["default"].keys == {"0": "A", "1": "B"}
    assert take_keys(tmp_path, "fed", {"default": 2}, {}) == first
    with pytest.raises(LocalError, match="has no keys for 2:"):
        take_keys(tmp_path, "fed", {"default": 3}, {})
    with pytest.raises(LocalError, match="the key of 0 is not what was written"):
        take_keys(tmp_path, "fed", {"default": 1}, {name: {**files, "0": "c"}})
