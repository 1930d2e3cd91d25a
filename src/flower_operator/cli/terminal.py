"""What the commands print. A terminal obeys control characters, and much of what is printed was
written by others: names and messages of a cluster, last words of a container, logs of an app."""

import codecs
import re
import sys

import click

# C0 and C1, and what hides text or turns its direction around; surrogates cannot be printed.
_CONTROLS = (
    "\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
)
_UNSAFE = re.compile(f"[{_CONTROLS}]")
_SPACES = re.compile(r" *[\t\r\n][ \t\r\n]*")
_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,16}m)")
_UNFINISHED = re.compile(r"(\x1b(\[[0-9;]{0,16})?|\r)$")
_RESET = "\x1b[0m"


def printable(text: str, keep: str = "\t\n") -> str:
    """The text with control characters as escapes (`\\x1b`), those to keep as they are."""

    def escape(match: re.Match[str]) -> str:
        return match[0] if match[0] in keep else match[0].encode("unicode_escape").decode()

    return _UNSAFE.sub(escape, text)


def one_line(text: str) -> str:
    """The same on one line, so that no part of it looks like a line of ours."""
    return printable(_SPACES.sub(" ", text), keep="")


def echo(text: str = "", *, err: bool = False) -> None:
    """Print what is for a person."""
    click.echo(printable(text), err=err)


def echo_content(text: str) -> None:
    """Print what another program may read: as it is, unless a person reads it on a terminal."""
    shown = is_terminal()  # else click leaves colours out
    click.echo(_without_commands(text) if shown else text, nl=False, color=shown or None)


def is_terminal() -> bool:
    return sys.stdout.isatty()


class ContentWriter:
    """The same for a stream of bytes, which may be cut anywhere."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def write(self, chunk: bytes) -> None:
        if not is_terminal():
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            return
        text = self._rest + self._decoder.decode(chunk)
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished else len(text)
        self._rest = text[end:]
        echo_content(text[:end])


def _without_commands(text: str) -> str:
    """Colours, which Flower's logs have, may stay and end with the text; all else is escaped."""
    parts = _COLOUR.split(text.replace("\r\n", "\n"))
    parts[::2] = map(printable, parts[::2])
    return "".join(parts) + _RESET * (len(parts) > 1)
