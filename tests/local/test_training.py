"""Real training wherever Flower's protocols changed, in both isolations."""

from itertools import product

import pytest

from tests.harness.releases import QUICK, WIRE_CHANGES, extended_unless
from tests.local.machine import Machine, expected_reports, federation


@pytest.mark.parametrize(
    ("release", "isolation"),
    extended_unless(
        [(release, "subprocess") for release in QUICK],
        product(WIRE_CHANGES, ["subprocess", "process"]),
    ),
)
def test_a_round_of_training_with_the_node_config_of_the_manifest(
    machine: Machine, release: str, isolation: str
) -> None:
    machine.up(federation("fed", release, isolation))
    result = machine.result_of("fed")
    assert result["model"] == [0.5, 0.5, 0.5], "the mean of partitions 0 and 1"
    reports = sorted(result["reports"], key=lambda report: report["partition-id"])
    assert reports == expected_reports()
    types = [{key: type(value) for key, value in report.items()} for report in reports]
    assert types == [
        {key: type(value) for key, value in report.items()} for report in expected_reports()
    ]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("superlink", "supernodes"),
    [
        ("1.25.0", ["1.24.0", "1.39.0"]),
        ("1.39.0", ["1.23.0", "1.38.0"]),
        ("1.42.0", ["1.40.0", "1.41.0"]),
        ("1.41.0", ["1.40.0", "1.42.0"]),
    ],
)
def test_supernodes_of_other_releases_train_with_a_superlink(
    machine: Machine, superlink: str, supernodes: list[str]
) -> None:
    document = federation("mixed", superlink, "subprocess")
    for pool, release in zip(document["spec"]["supernodes"]["pools"], supernodes, strict=True):
        pool["images"] = {"supernode": f"flwr/supernode:{release}"}
    machine.up(document)
    assert machine.result_of("mixed")["model"] == [0.5, 0.5, 0.5]
