"""Another Flower release for a Federation that keeps its runs."""

import asyncio

import pytest

from flower_operator.control import ControlClient
from flower_operator.flower.control import Run
from tests.local.machine import Document, Machine, federation

pytestmark = pytest.mark.extended


def lab(release: str) -> Document:
    return federation("fed", release, "subprocess", persistence={"size": "1Gi"})


def runs(machine: Machine) -> list[Run]:
    """Those that the SuperLink knows of."""
    desired = machine.record("fed").read_desired()
    assert desired

    async def ask() -> list[Run]:
        client = ControlClient(desired.dialect, desired.control)
        try:
            return await client.runs()
        finally:
            await client.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("older", ["1.25.0", "1.41.0"])
def test_runs_are_known_after_an_upgrade_and_there_is_no_way_back(
    machine: Machine, older: str
) -> None:
    machine.up(lab(older))
    machine.result_of("fed")
    (first,) = runs(machine)
    machine.up(lab("1.42.0"))
    assert runs(machine) == [first]
    assert machine.result_of("fed")["model"] == [0.5, 0.5, 0.5]
    assert len(runs(machine)) == 2
    said = machine.run("up", "-d", machine.write(lab(older)), check=False)
    assert said.returncode == 1
    assert f"Flower {older} cannot read a database that was used by 1.42.0" in said.stderr
    assert len(runs(machine)) == 2, "what ran does not run on"
    machine.run("down", "fed")
    assert machine.run("up", "-d", machine.write(lab(older)), check=False).returncode == 1
