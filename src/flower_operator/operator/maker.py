"""Makes certificates and keys, and looks into them, in a process of its own."""

import asyncio
import json
import sys
from collections.abc import Sequence

from ..trust.given import Inspected, Unfit
from ..trust.keys import KeyPair
from ..trust.layout import Files
from ..trust.steps import Change, Task, perform

IDLE_SECONDS = 10.0
MOST_BYTES = 4 << 20


class Maker:
    """A process of its own for certificates and keys: the library for them would stay in the memory
    of this one, a tenth of all of it. It ends when it has had nothing to do for a while."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._end: asyncio.TimerHandle | None = None

    async def make(self, task: Task) -> Change:
        if not task.decision.step.makes_certificate:
            return perform(task)
        return Change.from_json(await self._ask(task.to_json()))

    async def make_pairs(self, names: Sequence[str]) -> dict[str, KeyPair]:
        """A new key for each."""
        if not names:
            return {}
        answer = json.loads(await self._ask(json.dumps({"pairs": list(names)})))
        return {name: KeyPair(**pair) for name, pair in answer.items()}

    async def inspect(self, files: Files) -> Inspected:
        """What is in a certificate that was made elsewhere. Raises Unfit."""
        answer = await self._ask(json.dumps({"inspect": files}))
        if unfit := json.loads(answer).get("unfit"):
            raise Unfit(unfit)
        return Inspected.from_json(answer)

    async def _ask(self, question: str) -> bytes:
        async with self._turn:
            if self._end:
                self._end.cancel()
            process = await self._running()
            assert process.stdin
            assert process.stdout
            process.stdin.write(question.encode() + b"\n")
            answer = await process.stdout.readline()
            if not answer:
                self._process = None
                raise OSError("nothing could be made: the process for certificates and keys ended")
            self._end = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._kill)
            return answer

    async def close(self) -> None:
        if self._end:
            self._end.cancel()
        process = self._process
        self._kill()
        if process:
            await process.wait()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "flower_operator.trust.steps",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MOST_BYTES,
            )
        return self._process

    def _kill(self) -> None:
        if self._process and self._process.returncode is None:
            self._process.kill()
        self._process = None
