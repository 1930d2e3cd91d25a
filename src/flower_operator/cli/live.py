"""Lines that are written over while they change, on a terminal; else once, at the end."""

import sys
from types import TracebackType
from typing import Self

import click


class LiveTable:
    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not self._live and self._lines:
            click.echo("\n".join(self._lines))

    def show(self, lines: list[str], *, final: bool = False) -> None:
        if self._live and lines != self._lines:
            up = f"\x1b[{len(self._lines)}A\x1b[J" if self._lines else ""
            click.echo(up + "\n".join(lines))
        elif final and not self._live:
            click.echo("\n".join(lines))
        self._lines = lines
