"""The text of `--node-config`, so that a ClientApp reads exactly what the manifest says.

flwr cuts the text into `key=value` pairs with a regular expression and reads each as TOML.
Bare integers, floats and true or false keep their type; everything else is written as a
quoted string, with the characters that flwr's expression or TOML stumble over escaped.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)", re.ASCII)
FLOAT = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
NAME_IN_BRACES = re.compile(r"(?<!\{)(\{++)([A-Za-z_][A-Za-z0-9_-]*+)(\}++)", re.ASCII)


LONGEST_KEY = 256
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(32), ord('"'), 127)} | {ord("\\"): "\\\\"}


def unfit_keys(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The keys that flwr would refuse or drop without a word, each with the reason."""
    known = set(keys)
    for key in sorted(known):
        if len(key) > LONGEST_KEY:
            yield key, f"may have {LONGEST_KEY} characters at most"
            continue
        if not KEY.fullmatch(key):
            yield key, "may hold only ASCII letters, digits, '-' and '_', with dots between"
        steps = key.split(".")
        for length in range(1, len(steps)):
            if (prefix := ".".join(steps[:length])) in known:
                yield key, f"cannot stand beside {prefix}, which has a value of its own"


def unfit_values(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The values that flwr cannot carry, each with its key and the reason."""
    for key, value in sorted(config.items()):
        if INTEGER.fullmatch(value) and (len(value) > 20 or not -(2**63) <= int(value) < 2**63):
            yield key, "is an integer that does not fit in 64 bits"


def placeholders(value: str) -> set[str]:
    """The names of everything in `value` that looks like a placeholder: `{name}`.

    `{{name}}` is the text `{name}`. All other braces stay as they are, as those of JSON do.
    """
    return {piece for piece, is_placeholder in _split(value) if is_placeholder}


def fill_in(value: str, name: str, text: str) -> str:
    """The value with a text in the place of this placeholder; all else can still be split."""

    def replacement(match: re.Match[str]) -> str:
        opening, found, closing = match.groups()
        if found != name or min(len(opening), len(closing)) % 2 == 0:
            return match[0]
        return opening[1:] + text + closing[1:]

    return NAME_IN_BRACES.sub(replacement, value)


def unescaped(value: str) -> str:
    """The value with its placeholders as they are, and `{{name}}` as `{name}`."""
    return "".join(f"{{{piece}}}" if is_name else piece for piece, is_name in _split(value))


def _split(value: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a value: its text, and the name of each placeholder, which is True."""
    end = 0
    for match in NAME_IN_BRACES.finditer(value):
        opening, name, closing = match.groups()
        pairs = min(len(opening), len(closing))
        yield value[end : match.start()] + "{" * (len(opening) - pairs + pairs // 2), False
        yield name, pairs % 2 == 1
        yield "}" * (len(closing) - pairs + pairs // 2), False
        end = match.end()
    yield value[end:], False


def items(
    config: Mapping[str, str],
    fixed: Mapping[str, str],
    late: Mapping[str, str],
    *,
    integers: Iterable[str] = (),
    literal: Callable[[str], str] = str,
) -> list[str]:
    """The config as `key=value` texts, keys sorted.

    `fixed` placeholders are known now. `late` ones become a reference that is put in when
    the process starts; alone, those named in `integers` stay integers. `literal` escapes
    what must not be taken for such a reference.
    """
    return [
        f"{key}={_value(value, fixed, late, set(integers), literal)}"
        for key, value in sorted(config.items())
    ]


def _value(
    value: str,
    fixed: Mapping[str, str],
    late: Mapping[str, str],
    integers: set[str],
    literal: Callable[[str], str],
) -> str:
    pieces = [
        (fixed[piece], False) if is_name and piece in fixed else (piece, is_name)
        for piece, is_name in _split(value)
        if piece
    ]
    match pieces:
        case [(name, True)] if name in integers:
            return late[name]
    text = "".join(piece for piece, _ in pieces)
    late_names = {piece for piece, is_name in pieces if is_name}
    if not late_names and (text in ("true", "false") or FLOAT.fullmatch(text)):
        return text
    quoted = (
        late.get(piece, f"{{{piece}}}") if is_name else literal(_escape(piece))
        for piece, is_name in pieces
    )
    return f'"{"".join(quoted)}"'


def _escape(text: str) -> str:
    """Text between TOML's double quotes, free of double quotes itself."""
    return text.translate(_ESCAPED)
