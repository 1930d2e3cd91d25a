"""The contract of the in-memory API server, against a real kube-apiserver."""

import asyncio
import secrets

import pytest

from flower_operator.kube.client import Client
from flower_operator.kube.connection import connect
from tests.harness.api_contract import SCENARIOS, Api, Scenario
from tests.harness.control_plane import ControlPlane


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_real_api_server(control_plane: ControlPlane, scenario: Scenario) -> None:
    namespace = f"contract-{secrets.token_hex(4)}"
    body = {"metadata": {"name": namespace}}
    status, answer = control_plane.request("POST", "/api/v1/namespaces", body)
    assert status == 201, answer

    async def check() -> None:
        connection = connect(control_plane.kubeconfig)
        async with Client(connection, "contract") as client, Client(connection, "other") as other:
            await scenario(Api(client, other, namespace))

    asyncio.run(check())
