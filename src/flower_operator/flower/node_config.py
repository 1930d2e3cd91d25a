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
PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


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
    """The names of everything in `value` that looks like a placeholder."""
    return set(PLACEHOLDER.findall(value))


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
    value = PLACEHOLDER.sub(lambda match: fixed.get(match[1], match[0]), value)
    pieces = PLACEHOLDER.split(value)  # text, placeholder, text, …, text
    names = pieces[1::2]
    if len(names) == 1 and names[0] in integers and value == f"{{{names[0]}}}":
        return late[names[0]]
    if value in ("true", "false") or FLOAT.fullmatch(value):
        return value
    quoted = ""
    for position, piece in enumerate(pieces):
        if position % 2 == 0:
            quoted += literal(_escape(piece))
        elif piece in late:
            quoted += late[piece]
        else:
            quoted += f"{{{piece}}}"
    return f'"{quoted}"'


def _escape(text: str) -> str:
    """Text between TOML's double quotes, free of double quotes itself."""
    return text.translate(_ESCAPED)
