"""SuperNodes of two machines at one SuperLink: real training over TLS, with keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.harness.relay import Relay
from tests.local.machine import Machine, keyed_federation

pytestmark = pytest.mark.extended


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Machine]:
    """One that knows of the first just what `join` prints."""
    folder = tmp_path / "other"
    folder.mkdir()
    with Machine(folder) as other:
        yield other


@pytest.mark.parametrize(
    ("release", "isolation"), [("1.25.0", "subprocess"), ("1.42.0", "process")]
)
def test_a_machine_that_joins_trains_along(
    machine: Machine, other: Machine, release: str, isolation: str
) -> None:
    hub = keyed_federation("fed", release, isolation)
    del hub["spec"]["supernodes"]["pools"][1]
    machine.up(hub)
    printed = machine.run("join", "fed", "--for", "berlin")
    assert "note: nodeConfig: {partition} and {partitions} count" in printed.stderr
    machine.up(hub)  # which leaves keys alone that are not its own
    keys, manifest = yaml.safe_load_all(printed.stdout)
    external = manifest["spec"]["superlink"]["external"]
    manifest["spec"]["supernodes"]["pools"][0]["nodeConfig"]["partition-id"] = "1"
    with Relay(external["address"]) as relay:  # in the place of Skupper, which is one at heart
        external["address"] = relay.address
        other.run("up", "-d", "-", stdin=yaml.safe_dump_all([keys, manifest]))
        assert "fed: ready\n" in other.run("status", "fed").stdout
        said = other.run("ca", "fed", check=False)
        assert f"the SuperLink of fed runs elsewhere, at {relay.address}: ask" in said.stderr
        result = machine.result_of("fed", "--run-config", "nodes=2")
        other.run("down", "fed")
    trained = {(each["partition-id"], each["name"]) for each in result["reports"]}
    assert trained == {(0, "north_0"), (1, "berlin_0")}


def test_a_superlink_that_nobody_finds_is_told(machine: Machine) -> None:
    document = keyed_federation("fed", "1.42.0", "subprocess")
    document["spec"]["superlink"] = {"external": {"address": "127.0.0.1:9"}}
    document["spec"] |= {"insecure": True, "supernodeAuth": {"enabled": False}}
    said = machine.run("up", "-d", "--timeout", "6", machine.write(document), check=False)
    assert said.stderr.splitlines()[-1].endswith("; no SuperLink answers at 127.0.0.1:9")
