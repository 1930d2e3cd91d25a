"""The in-memory API server keeps the contract that a real one keeps."""

import pytest

from flower_operator.operator.desired import FEDERATION
from tests.harness.api_contract import SCENARIOS, Api, Scenario
from tests.harness.memory_api import MemoryApiServer, MemoryClient
from tests.unit.virtual_time import run


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_memory_api_server(scenario: Scenario) -> None:
    async def check() -> None:
        server = MemoryApiServer([FEDERATION])
        client, other = MemoryClient(server, "contract"), MemoryClient(server, "other")
        await scenario(Api(client, other, "team"))

    run(check())
