"""Why a process ended, in plain words, from its exit status and the end of its log."""

import re
import signal

from ..trust.keys import Enrolment

_UNTRUSTED = (
    r"CERTIFICATE_VERIFY_FAILED",
    "it does not trust the SuperLink's certificate: look at --root-certificates",
)
_REFUSED = (
    r"Failed to activate SuperNode|No SuperNode found with the given|could not be activated",
    "its key is refused: it is not registered, or in use",
)
_KEYLESS = (
    r"SuperNode authentication is enabled",
    "the SuperLink asks for a key, and it shows none",
)
_PATTERNS = (
    _UNTRUSTED,
    _REFUSED,
    _KEYLESS,
    (r"[Aa]ddress already in use|Failed to bind|Port in server address", "its port is in use"),
    (r"unrecognized arguments: (.+)", "it does not know the arguments {0}: look at extraArgs"),
    (r"error: argument (.+)", "it refuses the argument {0}"),
    (
        r"No module named '([^']+)'",
        "the Python package {0} is missing: use --env with it installed",
    ),
    (r"runtime version mismatch: (.+)", "{0}"),
    (r"No space left on device", "the disk is full"),
    (r"Permission denied: '([^']+)'", "it may not use {0}"),
    (r"unable to open database file", "its database cannot be opened"),
    (r"MemoryError|Cannot allocate memory", "there is not enough memory"),
)


def explain(status: int, tail: list[str]) -> str:
    """One line for a person; `tail` is the end of what the process wrote."""
    text = "\n".join(tail)
    for pattern, words in _PATTERNS:
        if match := re.search(pattern, text):
            return words.format(*(group.strip() for group in match.groups()))
    if status < 0:
        return f"it was ended by {_signal_name(-status)}"
    last = next((line.strip() for line in reversed(tail) if line.strip()), "")
    return f"it ended with status {status}" + (f": {last}" if last else "")


def explain_absence(tail: list[str]) -> str | None:
    """Why a SuperNode that runs does not connect, if that is known: some try for ever."""
    since = "\n".join(tail).rpartition("Connection successful")[2]
    known = (_UNTRUSTED, _REFUSED, _KEYLESS)
    return next((words for pattern, words in known if re.search(pattern, since)), None)


def explain_key(key: str, enrolment: Enrolment, *, missed: bool) -> str | None:
    """Why a SuperNode with this key had better not start; None if it may. `missed`: runs know of
    its predecessor's end."""
    if enrolment.admits(key):
        return None if missed else "runs are told that it was gone"
    if key in enrolment.online:
        return "its key is still in use, for a minute at most"
    if key in enrolment.spent:
        return "its key was unregistered: `up` makes a new one"
    return "its key is not registered yet"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
