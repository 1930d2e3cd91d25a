"""Real training on every kind of release, in both isolations at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.local.machine import Document, Machine, expected_reports, federation

RELEASES = [
    "1.23.0",
    "1.25.0",
    "1.29.0",
    "1.31.0",
    "1.34.0",
    "1.35.0",
    "1.36.0",
    "1.37.0",
    "1.38.0",
    "1.40.0",
    "1.41.0",
]


@pytest.mark.parametrize("release", RELEASES)
def test_a_round_of_training_with_the_node_config_of_the_manifest(
    machine: Machine, release: str
) -> None:
    def train(isolation: str) -> Document:
        machine.up(federation(isolation, release, isolation))
        return machine.result_of(isolation)

    with ThreadPoolExecutor() as pool:
        results = list(pool.map(train, ["process", "subprocess"]))
    for result in results:
        assert result["model"] == [0.5, 0.5, 0.5], "the mean of partitions 0 and 1"
        reports = sorted(result["reports"], key=lambda report: report["partition-id"])
        assert reports == expected_reports()
        types = [{key: type(value) for key, value in report.items()} for report in reports]
        assert types == [
            {key: type(value) for key, value in report.items()} for report in expected_reports()
        ]


@pytest.mark.parametrize(
    ("superlink", "supernodes"),
    [
        ("1.25.0", ["1.24.0", "1.39.0"]),
        ("1.39.0", ["1.23.0", "1.38.0"]),
        ("1.41.0", ["1.40.0", "1.41.0"]),
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
