"""Lines that are written over while they change, on a terminal; else once, at the end, or one
block after the other."""

import sys
from collections.abc import Callable

import click

from .terminal import echo, one_line


class LiveTable:
    def __init__(self, lines: Callable[[], list[str]], *, each: bool = False) -> None:
        """`each`: where there is no terminal, show every change too."""
        self._lines = lines
        self._each = each
        self._live = sys.stdout.isatty()
        self._shown: list[str] = []

    def refresh(self, below: int = 0) -> None:
        """Show the lines if they changed; `below`: how many others were printed after them."""
        lines = list(map(one_line, self._lines()))
        if not (self._live or self._each) or not lines or lines == self._shown:
            return
        if not self._live:
            echo("\n".join([""] * bool(self._shown) + lines))
            self._shown = lines
            return
        start = f"\x1b[{len(self._shown) + below}A" if self._shown else ""
        end = f"\x1b[{below}B" if below else ""
        body = "".join(f"\x1b[2K{line}\n" for line in lines)
        if len(lines) == len(self._shown) or not self._shown:
            click.echo(start + body + end, nl=False)
        else:  # of another height: anew, with what stood below pushed down
            click.echo(f"{start}\x1b[J{body}", nl=False)
        self._shown = lines

    def finish(self) -> None:
        """The last word, where nothing was shown before."""
        if self._live:
            self.refresh()
        elif lines := self._lines():
            echo("\n".join(lines))
