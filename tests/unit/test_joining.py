"""The manifest with which another cluster joins."""

from dataclasses import replace

import pytest

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.render import Facts, render
from flower_operator.render.joining import (
    Joining,
    check_joining,
    joining_notices,
    joining_objects,
)
from tests.unit.federations import document
from tests.unit.test_external import CA

JOINING = Joining("berlin", 2, "192.0.2.7:30092", CA)


def test_it_is_the_federation_with_a_superlink_elsewhere_and_a_pool_of_its_own() -> None:
    hub = parse(
        document(
            "DaemonSet",
            "process",
            insecure=False,
            version="1.41.0",
            pool={
                "placement": {"name": "all"},
                "nodeConfig": {"site": "{cluster}", "node": "{node}"},
            },
        )
    )
    (manifest,) = joining_objects(hub, JOINING)
    assert manifest["metadata"] == {"name": "fed"}
    assert manifest["spec"] == {
        "mode": "StatefulSet",
        "isolationMode": "process",
        "version": "1.41.0",
        "insecure": False,
        "superlink": {"external": {"address": "192.0.2.7:30092", "ca": CA}},
        "supernodes": {
            "image": "flwr/supernode:1.25.0",
            "pools": [
                {
                    "name": "berlin",
                    "replicas": 2,
                    "images": {"superexecClientApp": "flwr/superexec:1.25.0"},
                    "nodeConfig": {"site": "berlin", "node": "{node}"},
                }
            ],
        },
    }
    assert render(parse(manifest), Facts()).external == "192.0.2.7:30092"
    assert joining_notices(hub) == []


def test_without_tls_there_is_no_ca_and_keys_come_first() -> None:
    hub = parse(document(pool={"nodeConfig": {"partition-id": "{partition}"}}))
    (manifest,) = joining_objects(hub, replace(JOINING, authority=None))
    assert manifest["spec"]["superlink"] == {"external": {"address": "192.0.2.7:30092"}}
    (note,) = joining_notices(hub)
    assert "write numbers in their place that no other cluster has" in note
    keyed = replace(JOINING, keys={"0": "private"})
    secure = parse(
        document(insecure=False, supernodeAuth={"enabled": True, "allowSubprocess": True})
    )
    secret, manifest = joining_objects(secure, keyed)
    assert secret["metadata"] == {"name": "fed-supernode-berlin-keys"}
    assert manifest["spec"]["supernodeAuth"] == {"enabled": True, "allowSubprocess": True}
    (note,) = joining_notices(secure)
    assert "the SuperLink forgets these keys" in note


@pytest.mark.parametrize("cluster", ["Berlin", "", "b" * 60])
def test_a_cluster_that_no_pool_can_be_named_after_is_refused(cluster: str) -> None:
    with pytest.raises(InvalidFederation):
        check_joining(parse(document()), replace(JOINING, cluster=cluster))
