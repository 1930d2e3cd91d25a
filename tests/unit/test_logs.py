"""Logs: one JSON object a line."""

import json
import logging
import sys
from datetime import datetime
from types import TracebackType
from typing import Any

import pytest

from flower_operator.operator.logs import JsonFormatter

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def formatted(message: str, *args: Any, exc_info: ExcInfo | None = None, **extra: Any) -> str:
    record = logging.getLogger("flower_operator").makeRecord(
        "flower_operator", logging.WARNING, "x.py", 7, message, args, exc_info, extra=extra
    )
    record.created = 1_763_208_000.25
    return JsonFormatter().format(record)


def read(line: str) -> dict[str, Any]:
    assert "\n" not in line
    parsed: dict[str, Any] = json.loads(line)
    return parsed


def test_a_line_says_when_how_bad_and_what() -> None:
    line = read(formatted("cannot follow %s: %s", "/api/v1/pods", "timeout"))
    assert line == {
        "time": "2025-11-15T12:00:00.250+00:00",
        "level": "warning",
        "message": "cannot follow /api/v1/pods: timeout",
    }
    assert datetime.fromisoformat(line["time"]).timestamp() == 1_763_208_000.25


def test_extras_are_fields_of_their_own_with_their_types() -> None:
    line = read(formatted("reconciled", federation="team/fed", generation=4, done=["a", "b"]))
    assert list(line) == ["time", "level", "message", "federation", "generation", "done"]
    assert line["federation"] == "team/fed"
    assert line["generation"] == 4
    assert line["done"] == ["a", "b"]


def test_what_json_does_not_know_is_told_in_words() -> None:
    line = read(formatted("odd", error=ValueError("no"), where=(("team", "fed"), None)))
    assert line["error"] == "no"
    assert line["where"] == [["team", "fed"], None]


def test_a_message_of_several_lines_is_one_line() -> None:
    line = read(formatted('Traceback:\n  "x"\n\tü', detail="a\r\nb"))
    assert line["message"] == 'Traceback:\n  "x"\n\tü'
    assert line["detail"] == "a\r\nb"


def caught() -> ExcInfo:
    try:
        raise RuntimeError("no\ndisk")
    except RuntimeError as error:
        return type(error), error, sys.exc_info()[2]


def test_an_exception_is_part_of_the_line() -> None:
    line = read(formatted("not reconciled", exc_info=caught(), federation="team/fed"))
    assert line["message"] == "not reconciled"
    assert line["federation"] == "team/fed"
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert line["exception"].endswith("RuntimeError: no\ndisk")
    assert "exception" not in read(formatted("fine"))


def test_each_record_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("apart")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.info("first", extra={"number": 1})
    try:
        raise RuntimeError("no disk")
    except RuntimeError:
        logger.exception("second")
    first, second = (read(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["message"], first["number"]) == ("info", "first", 1)
    assert (second["level"], second["message"]) == ("error", "second")
    assert second["exception"].endswith("RuntimeError: no disk")
