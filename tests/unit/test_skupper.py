"""Skupper's objects, and how far it is."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from flower_operator.api.manifest import parse
from flower_operator.render import Facts, render
from flower_operator.render.joining import joining_objects
from flower_operator.render.skupper import Grant
from flower_operator.status.interconnect import grants_of, interconnected
from flower_operator.status.observed import (
    Interconnection,
    InterconnectionForm,
    Metadata,
    interconnection_of,
)
from tests.unit.federations import document, find, plan
from tests.unit.test_external import external
from tests.unit.test_joining import JOINING
from tests.unit.test_network import ON, admitted
from tests.unit.test_status import outline

ROUTER = {"podSelector": {"matchLabels": {"skupper.io/component": "router"}}}


def test_the_superlink_s_side_leads_to_its_pods() -> None:
    made = plan(interconnect="skupper", version="1.39.0")
    assert find(made, "Site", "fed")["spec"] == {"linkAccess": "default"}
    connector = find(made, "Connector", "fed-fleet-api")["spec"]
    assert connector["routingKey"] == "fed-fleet-api"
    pods = find(made, "Deployment", "fed-superlink")["spec"]["template"]
    assert (
        dict(each.split("=") for each in connector["selector"].split(","))
        == (pods["metadata"]["labels"])
    )
    ports = find(made, "Service", "fed-superlink")["spec"]["ports"]
    assert connector["port"] == next(
        each["targetPort"] for each in ports if each["name"] == "fleet"
    )
    assert find(made, "AccessGrant", "fed")["spec"]["expirationWindow"] == "24h"


def test_a_cluster_without_skupper_is_not_asked_for_it() -> None:
    manifest = parse(document(interconnect="skupper"))
    kinds = {each["kind"] for each in render(manifest, Facts(skupper=False)).objects}
    assert kinds == {"Service", "Deployment", "StatefulSet"}


def test_policies_let_the_routers_through_on_both_sides() -> None:
    here = plan(interconnect="skupper", version="1.39.0", **ON)
    assert admitted(here, "fed-superlink")[9092] == ["supernode", "router"]
    there = plan(interconnect="skupper", superlink=external("fed-superlink:9092"), **ON)
    egress = find(there, "NetworkPolicy", "fed-supernode-default")["spec"]["egress"]
    assert egress[0] == {"to": [ROUTER]}
    assert not any("every address" in each for each in there.notices)
    assert "Site" not in {each["kind"] for each in there.objects}


def test_who_joins_listens_under_the_name_that_the_certificate_has() -> None:
    hub = parse(document(interconnect="skupper"))
    joining = replace(JOINING, grant=Grant("https://a", "b", "c"))
    site, token, listener, manifest = joining_objects(hub, joining)
    assert (site["kind"], site["spec"]) == ("Site", {})
    assert token["spec"] == {"url": "https://a", "code": "b", "ca": "c"}
    assert listener["spec"] == {
        "routingKey": "fed-fleet-api",
        "host": "fed-superlink",
        "port": 9092,
    }
    assert manifest["spec"]["interconnect"] == "skupper"


def interconnection(kind: str, state: str, message: str = "") -> Interconnection:
    return Interconnection(Metadata(name="fed"), b"", kind, state, message)


@pytest.mark.parametrize(
    ("site", "waiting"),
    [
        ([], "Skupper's Site does not exist yet"),
        ([interconnection("Site", "")], "Skupper's Site fed is not ready"),
        (
            [interconnection("Site", "Error", "two sites")],
            "Skupper's Site fed is not ready: two sites",
        ),
    ],
)
def test_nobody_can_link_before_the_site_is_ready(
    site: list[Interconnection], waiting: str
) -> None:
    of = outline(interconnect="skupper")
    assert interconnected(of, site).waiting == ("Interconnecting", waiting)
    assert interconnected(outline(), site).waiting is None


def granted(ends: str, redemptions: int = 1) -> Interconnection:
    told = {"url": "u", "code": "c", "ca": "p", "expirationTime": ends, "redemptions": redemptions}
    form = {"metadata": {"uid": ends}, "spec": {"redemptionsAllowed": 100}, "status": told}
    return interconnection_of("AccessGrant", msgspec.convert(form, InterconnectionForm))


@pytest.mark.parametrize(
    ("grant", "over", "recheck"),
    [
        (granted("2026-01-01T13:00:00+01:00"), True, None),
        (granted("2026-01-01T12:01:00Z"), False, 60.0),
        (granted("2026-01-01T12:01:00Z", 99), False, 60.0),
        (granted("2026-01-01T12:01:00Z", 100), True, None),
        (granted("whenever"), False, None),
        (interconnection("AccessGrant", "Pending"), False, None),
    ],
)
def test_a_grant_that_is_over_or_used_up_has_to_go(
    grant: Interconnection, over: bool, recheck: float | None
) -> None:
    site = interconnection("Site", "Ready")
    found = grants_of([site, grant], datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert (found.ended, found.recheck) == ((grant,) if over else (), recheck)
    assert found.current == (None if over else grant.grant)


def test_a_connector_that_nobody_listens_to_is_worth_a_note() -> None:
    children = [interconnection("Site", "Ready"), interconnection("Connector", "Pending", "alone")]
    found = interconnected(outline(interconnect="skupper"), children)
    assert found.waiting is None
    assert found.notes == ("Skupper's Connector fed is not ready: alone",)
