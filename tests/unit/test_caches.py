"""Whom a change concerns: what comes in between our own writes must not be missed."""

from typing import Any

import msgspec
import pytest

from flower_operator.kube.client import Client
from flower_operator.kube.connection import Connection
from flower_operator.operator.caches import Caches
from flower_operator.operator.desired import FEDERATION
from tests.unit.federations import document

KEY = ("team", "fed")


def answer(version: int, generation: int = 1, **status: Any) -> bytes:
    metadata = {
        "name": "fed",
        "namespace": "team",
        "uid": "u",
        "generation": generation,
        "resourceVersion": str(version),
    }
    return msgspec.json.encode(document() | {"metadata": metadata, "status": status})


@pytest.fixture
def told() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def caches(told: list[tuple[str, str]]) -> Caches:
    async def nobody() -> None:
        return None

    client = Client(Connection("http://127.0.0.1:1", None, nobody), "test")
    caches = Caches(client, [], told.append, told.append)
    caches.put(FEDERATION.kind, answer(1))
    told.clear()
    return caches


def test_a_status_that_we_wrote_concerns_nobody(
    caches: Caches, told: list[tuple[str, str]]
) -> None:
    caches.put(FEDERATION.kind, answer(2, supernodes="1/2"))
    assert told == []


def test_a_spec_that_came_with_the_answer_is_news(
    caches: Caches, told: list[tuple[str, str]]
) -> None:
    """The watch will tell of nothing newer than that answer."""
    caches.put(FEDERATION.kind, answer(2, generation=2, supernodes="1/2"))
    assert told == [KEY]
