"""The processes that parse certificates: one tenant's input does not hold up another's."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from flower_operator.operator import maker as maker_module
from flower_operator.operator.maker import Maker
from flower_operator.trust.given import Unfit
from flower_operator.trust.inspection import inspect
from tests.harness.certificates import huge_key, issued_certificate

GOOD = issued_certificate("fed-superlink.team.svc")
SLOW = {**GOOD, "tls.key": huge_key()}
"""Takes more than 20 seconds of CPU."""


def with_maker(scenario: Callable[[Maker], Awaitable[None]]) -> None:
    async def run() -> None:
        maker = Maker()
        try:
            await scenario(maker)
        finally:
            await maker.close()

    asyncio.run(run())


def test_a_slow_key_does_not_hold_up_the_certificates_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maker_module, "INSPECT_SECONDS", 600.0, raising=False)

    async def scenario(maker: Maker) -> None:
        slow = asyncio.create_task(maker.inspect(SLOW))
        await asyncio.sleep(0)
        good = asyncio.create_task(maker.inspect(GOOD))
        pairs = asyncio.create_task(maker.make_pairs(["0"]))
        done, _ = await asyncio.wait({slow, good}, return_when=asyncio.FIRST_COMPLETED)
        assert done == {good}
        assert await good == inspect(GOOD)
        assert set(await pairs) == {"0"}
        assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert await maker.inspect(GOOD) == inspect(GOOD), "an answer is someone else's"

    with_maker(scenario)


def test_what_takes_too_long_is_refused_and_the_next_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(maker: Maker) -> None:
        monkeypatch.setattr(maker_module, "INSPECT_SECONDS", 0.1, raising=False)
        with pytest.raises(Unfit, match=r"could not be read within 0\.1 s"):
            await maker.inspect(SLOW)
        monkeypatch.setattr(maker_module, "INSPECT_SECONDS", 600.0)
        assert await maker.inspect(GOOD) == inspect(GOOD)

    with_maker(scenario)
