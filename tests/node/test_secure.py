"""Secure Federations on real containers, in a namespace that enforces Pod Security restricted and
on a network that heeds their policies."""

from pathlib import Path

import pytest

from flower_operator.flower.releases import Release
from tests.cluster.federations import Namespace
from tests.harness.policies import Enforcer
from tests.local.machine import expected_reports, federation
from tests.node.conftest import RELEASES
from tests.node.test_training import train_all, wait_until_connected


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_secure_federations_train(namespace: Namespace, tmp_path: Path, release: Release) -> None:
    documents = [federation(each, str(release), each) for each in ("process", "subprocess")]
    for document in documents:
        document["spec"] |= {
            "insecure": False,
            "supernodeAuth": {"enabled": True, "allowSubprocess": True},
        }
    with Enforcer(namespace.cluster):
        for name, result in train_all(namespace, release, tmp_path, documents).items():
            reports = sorted(result["reports"], key=lambda report: report["partition-id"])
            assert reports == expected_reports()
            wait_until_connected(namespace, name)
