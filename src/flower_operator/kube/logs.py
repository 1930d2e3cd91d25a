"""What containers wrote, line by line."""

from collections.abc import AsyncGenerator, AsyncIterator

from .client import Client
from .resources import POD

MAX_LINE_BYTES = 1 << 20
"""A container may write without ever ending a line; no more of it is kept."""


async def read_log(
    client: Client,
    namespace: str,
    pod: str,
    container: str,
    *,
    follow: bool = False,
    previous: bool = False,
    after: str = "",
) -> AsyncGenerator[tuple[str, bytes], None]:
    """Each line with its time; those after a time, if one is given: so a reader that was cut off
    goes on where it was."""
    parameters = {"container": container, "timestamps": "true"}
    if follow:
        parameters["follow"] = "true"
    if previous:
        parameters["previous"] = "true"
    if after:
        parameters["sinceTime"] = after
    async with client.stream(f"{POD.path(namespace, pod)}/log", **parameters) as chunks:
        async for line in _lines(chunks):
            time, _, text = line.partition(b" ")
            # The server knows whole seconds only.
            if time.decode(errors="replace") > after:
                yield time.decode(errors="replace"), text


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line[:MAX_LINE_BYTES]
        rest = rest[:MAX_LINE_BYTES]
    if rest:
        yield rest
