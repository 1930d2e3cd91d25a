"""What is wrong with a manifest, said so that its author can put it right."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic_core import ErrorDetails

from .patterns import MEANINGS

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One fault: the field's path, what is wrong there and what to write."""

    path: str
    message: str
    reason: str = "InvalidSpec"
    """One word for it, as the reason of a condition."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidFederation(ValueError):
    """A manifest that no objects can be made from; `problems` has every fault found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def join(path: Path) -> str:
    """`("spec", "pools", 0, "name")` as `spec.pools[0].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "").replace("-", "").isalnum():
            text += f".{step}" if text else step
        else:  # a map's key with dots or slashes in it
            text += f"[{step!r}]"
    return text


def explain(error: ErrorDetails, siblings: Callable[[Path], Iterable[str]]) -> Problem:
    """A validation error in plain words; `siblings` knows the fields beside a path."""
    path = error["loc"]
    words = _WORDS.get(error["type"])
    if error["type"] == "missing" and path == ("metadata",):
        path = ("metadata", "name")  # all that is asked of it
    if error["type"] == "extra_forbidden":
        message = _unknown_field(str(path[-1]), siblings(path))
    elif error["type"] == "string_pattern_mismatch":
        meaning = MEANINGS[error["ctx"]["pattern"]]
        message = f"must be {meaning}, not {_describe(error['input'])}"
    elif words:
        message = words.format(given=_describe(error["input"]), **error.get("ctx", {}))
    else:
        message = error["msg"]
    if error["type"] == "string_type" and type(error["input"]) in (int, float, bool):
        message += f'; write it in quotes: "{_yaml(error["input"])}"'
    return Problem(join(path), message)


_WORDS = {
    "missing": "is required",
    "string_type": "must be a string, not {given}",
    "int_type": "must be an integer, not {given}",
    "int_from_float": "must be an integer, not {given}",
    "bool_type": "must be true or false, not {given}",
    "list_type": "must be a list, not {given}",
    "dict_type": "must be a mapping, not {given}",
    "model_type": "must be a mapping, not {given}",
    "model_attributes_type": "must be a mapping, not {given}",
    "literal_error": "must be {expected}, not {given}",
    "string_too_short": "must not be empty",
    "string_too_long": "may have {max_length} characters at most",
    "too_short": "must not be empty",
    "too_long": "may have {max_length} entries at most",
    "greater_than_equal": "must be {ge} or more, not {given}",
    "less_than_equal": "must be {le} or less, not {given}",
}


def _unknown_field(name: str, known: Iterable[str]) -> str:
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"is not a field; did you mean {near[0]}?"
    if len(known) <= 12:
        return f"is not a field; there are {', '.join(known)}" if known else "is not a field"
    return "is not a field"


def _describe(value: Any) -> str:
    if value is None:
        return "empty (remove the field or give it a value)"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = _yaml(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)
