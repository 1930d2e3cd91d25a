"""The logs of several processes, each line with its process in front."""

import time
from typing import IO

from ..local.state import Record
from .terminal import echo_content


def print_logs(own: Record, names: list[str], follow: bool) -> None:
    width = max(map(len, names))
    files: dict[str, IO[str]] = {}
    try:
        while True:
            wrote = False
            for name in names:
                if name not in files and own.log_of(name).exists():
                    files[name] = own.log_of(name).open(errors="replace")
                wrote |= name in files and _copy(files[name], f"{name:<{width}} | ")
            if not follow or (not wrote and not own.is_running()):
                return
            if not wrote:
                time.sleep(0.1)
    finally:
        for file in files.values():
            file.close()


def _copy(file: IO[str], prefix: str) -> bool:
    """Print the whole lines that are new; a line still being written waits for its end."""
    wrote = False
    while True:
        at = file.tell()
        line = file.readline()
        if not line.endswith("\n"):
            file.seek(at)
            return wrote
        echo_content(prefix + line)
        wrote = True
