"""Run inside a flwr environment: ask flwr's own parsers what they make of command lines.

Reads a list of [command, arguments] as JSON and writes, for each, the value of every
documented option or the error. Nothing is started: parsing is where each command is stopped.
"""

import argparse
import contextlib
import importlib.metadata
import io
import json
import sys

COMMANDS = {entry.name: entry for entry in importlib.metadata.entry_points(group="console_scripts")}
original = argparse.ArgumentParser.parse_args


class ParsedError(BaseException):
    """Ends a command as soon as its arguments are parsed."""


def parse_and_stop(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
    parsed = vars(original(self, args, namespace))
    shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
    raise ParsedError(
        {option: parsed.get(act.dest) for act in shown for option in act.option_strings}
    )


def ask(command: str, arguments: list[str]) -> dict[str, object]:
    sys.argv = [command, *arguments]
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            COMMANDS[command].load()()
    except ParsedError as parsed:
        return {"parsed": parsed.args[0]}
    except SystemExit:
        return {"error": output.getvalue()}
    return {"error": "the command did not parse its arguments"}


def node_config(text: str) -> dict[str, object]:
    """What a ClientApp will see of this --node-config."""
    from flwr.common.config import parse_config_args  # type: ignore[import-not-found]

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return {"parsed": parse_config_args([text])}
    except Exception as error:
        return {"error": repr(error)}


if __name__ == "__main__":
    argparse.ArgumentParser.parse_args = parse_and_stop  # type: ignore[method-assign]
    answers = [
        node_config(*arguments) if command == "node-config" else ask(command, arguments)
        for command, arguments in json.load(sys.stdin)
    ]
    json.dump(answers, sys.stdout, default=str)
