"""`kubectl flower` where it has a real kubelet to talk to."""

from pathlib import Path

import pytest

from flower_operator.flower.releases import Release
from tests.cluster.federations import Namespace
from tests.cluster.person import Person
from tests.local.machine import federation
from tests.node.conftest import RELEASES
from tests.node.training import REPORT_APP, result_in


@pytest.mark.parametrize("release", RELEASES, ids=str)
@pytest.mark.parametrize("insecure", [True, False], ids=["insecure", "secure"])
def test_a_person_looks_runs_and_reads(
    namespace: Namespace, tmp_path: Path, release: Release, insecure: bool
) -> None:
    person = Person(namespace.cluster.kubeconfig, tmp_path)
    here = ("-n", namespace.name)
    document = federation("fed", str(release), "process")
    document["spec"]["insecure"] = insecure
    namespace.apply(document)
    namespace.wait_until_ready("fed", timeout=120)
    assert person.flower("status", "fed", *here).startswith("fed: ready, 2/2 SuperNodes")
    output = person.flower("run", str(REPORT_APP), "--federation", "fed", *here)
    assert result_in(output)["model"] == [0.5, 0.5, 0.5]
    log = person.flower("logs", "fed", *here)
    titles = {line.partition(" | ")[0].strip() for line in log.splitlines()}
    assert titles == {
        "superlink/superlink",
        "superlink/superexec-serverapp",
        "north-0/supernode",
        "north-0/superexec-clientapp",
        "south-0/supernode",
        "south-0/superexec-clientapp",
    }
    findings = person.flower("doctor", "fed", *here)
    assert "wrong" not in findings
    assert "fed: connected" in findings
