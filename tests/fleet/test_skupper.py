"""Over Skupper: clusters link by a grant, those that join when it is over by the next one.

Skupper itself is not there: its kinds are, and the test tells what its controller would."""

import re

from scripts.manifests import ROOT
from tests.cluster.federations import Namespace, wait_until
from tests.cluster.test_operator_skupper import GRANTED, OVER, grant_uid, tell
from tests.fleet.federations import fleet_manifest, label, placed, select
from tests.fleet.test_membership import clusters_of
from tests.harness.open_cluster_management import Hub

# As docs/how-to-fleet.md has it: what agents may do with Skupper's kinds is up to each cluster.
PAGE = (ROOT / "docs/how-to-fleet.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(RIGHTS,) = (block for block in BLOCKS if "aggregate-to-work" in block)
TOKEN = "/apis/skupper.io/v2alpha1/namespaces/{}/accesstokens/lab"


def code_of(fleet: Hub, namespace: Namespace, cluster: str) -> str | None:
    path = TOKEN.format(namespace.name)
    status, answer = fleet.clusters[cluster].plane.request("GET", path)
    return answer["spec"]["code"] if status == 200 else None


def test_who_joins_when_the_grant_is_over_links_by_the_next_one(
    fleet: Hub, namespace: Namespace
) -> None:
    for each in fleet.clusters.values():
        each.plane.kubectl("apply", "-f", "-", input=RIGHTS)
    label(fleet, "north", linked="yes")
    select(namespace, linked="yes")
    try:
        document = fleet_manifest(
            "lab", interconnect="skupper", insecure=False, pools=[placed(nodeConfig={})]
        )
        namespace.apply(document)
        namespace.wait_for_condition("lab", "Ready", "False", "Interconnecting")
        tell(namespace, "sites", "lab", {"status": "Ready", "message": "OK"})
        assert code_of(fleet, namespace, "north") is None
        tell(namespace, "accessgrants", "lab", GRANTED)
        namespace.wait_until_ready("lab")
        assert code_of(fleet, namespace, "north") == GRANTED["code"]

        before = grant_uid(namespace)
        tell(namespace, "accessgrants", "lab", GRANTED | OVER)
        wait_until(lambda: grant_uid(namespace) not in (None, before), "the grant stays")
        # Who is linked needs none; who is not has to wait for it.
        federation = namespace.wait_until_ready("lab")
        assert clusters_of(federation)["north"]["ready"] == 1
        label(fleet, "south", linked="yes")
        namespace.wait_for_condition("lab", "Ready", "False", "Interconnecting")
        assert code_of(fleet, namespace, "south") is None
        tell(namespace, "accessgrants", "lab", GRANTED | {"code": "second"})
        namespace.wait_until_ready("lab")
        assert code_of(fleet, namespace, "south") == "second"
        namespace.delete("lab")
        wait_until(
            lambda: code_of(fleet, namespace, "south") is None, "its token stays on the cluster"
        )
    finally:
        for name in ("north", "south"):
            label(fleet, name, linked=None)
