"""Makes certificates and keys, and looks into them, in processes of their own."""

import asyncio
import json
import sys
from collections.abc import Sequence

from ..trust.given import Inspected, Unfit
from ..trust.keys import KeyPair
from ..trust.layout import Files
from ..trust.steps import Change, Task, perform

PROCESSES = 2
"""A Federation is reconciled by one worker at a time, so a slow Secret leaves one to the others."""
IDLE_SECONDS = 10.0
MAKE_SECONDS = 60.0
INSPECT_SECONDS = 30.0
MAX_ANSWER_BYTES = 4 << 20


class Maker:
    """Processes of their own for certificates and keys: the library for them would stay in the
    memory of this one, a tenth of all of it. They end when they have had nothing to do for a
    while, or when an answer takes too long."""

    def __init__(self) -> None:
        self._helpers = [_Helper() for _ in range(PROCESSES)]
        # Last in, first out: the second one is started only when it is needed.
        self._free: asyncio.LifoQueue[_Helper] = asyncio.LifoQueue()
        for helper in self._helpers:
            self._free.put_nowait(helper)

    async def make(self, task: Task) -> Change:
        if not task.decision.step.makes_certificate:
            return perform(task)
        return Change.from_json(await self._make(task.to_json()))

    async def make_pairs(self, names: Sequence[str]) -> dict[str, KeyPair]:
        """A new key for each."""
        if not names:
            return {}
        answer = json.loads(await self._make(json.dumps({"pairs": list(names)})))
        return {name: KeyPair(**pair) for name, pair in answer.items()}

    async def inspect(self, files: Files) -> Inspected:
        """What is in a certificate that was made elsewhere. Raises Unfit."""
        try:
            answer = await self._ask(json.dumps({"inspect": files}), INSPECT_SECONDS)
        except TimeoutError:
            raise Unfit(
                f"its key and certificates could not be read within {INSPECT_SECONDS:g} s: "
                "use ECDSA keys, or RSA of 4096 bits or fewer, and fewer CAs"
            ) from None
        if unfit := json.loads(answer).get("unfit"):
            raise Unfit(unfit)
        return Inspected.from_json(answer)

    async def close(self) -> None:
        for helper in self._helpers:
            await helper.end()

    async def _make(self, question: str) -> bytes:
        try:
            return await self._ask(question, MAKE_SECONDS)
        except TimeoutError:
            message = f"no certificate or key could be made within {MAKE_SECONDS:g} s"
            raise OSError(message) from None

    async def _ask(self, question: str, seconds: float) -> bytes:
        """Raises TimeoutError if the answer itself takes longer than that."""
        helper = await self._free.get()
        try:
            return await helper.ask(question, seconds)
        finally:
            self._free.put_nowait(helper)


class _Helper:
    """One process, which is started when it is asked something."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def ask(self, question: str, seconds: float) -> bytes:
        if self._idle:
            self._idle.cancel()
        try:
            process = await self._running()
            async with asyncio.timeout(seconds):
                answer = await _exchange(process, question)
        except BaseException:  # a late answer would be taken for that to the next question
            await self.end()
            raise
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._kill)
        return answer

    async def end(self) -> None:
        if self._idle:
            self._idle.cancel()
        if process := self._kill():
            await process.wait()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "flower_operator.trust.steps",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MAX_ANSWER_BYTES,
            )
        return self._process

    def _kill(self) -> asyncio.subprocess.Process | None:
        process, self._process = self._process, None
        if process and process.returncode is None:
            process.kill()
        return process


async def _exchange(process: asyncio.subprocess.Process, question: str) -> bytes:
    assert process.stdin
    assert process.stdout
    process.stdin.write(question.encode() + b"\n")
    answer = await process.stdout.readline()
    if not answer:
        raise OSError("nothing could be made: the process for certificates and keys ended")
    return answer
