"""The records beside certificates, secrets and keys, changed by a test."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from flower_operator.trust.layout import RECORD_FILE

TIMES = ("notBefore", "made", "round")


def make_older(folder: Path, age: timedelta) -> None:
    """As if what is in the folder had been made so long before."""
    path = folder / RECORD_FILE
    path.write_text(older_record(path.read_text(), age))


def older_record(text: str, age: timedelta) -> str:
    def older(content: Any) -> Any:
        if isinstance(content, list):
            return [older(each) for each in content]
        if isinstance(content, dict):
            return {
                name: (datetime.fromisoformat(value) - age).isoformat()
                if name in TIMES
                else older(value)
                for name, value in content.items()
            }
        return content

    return json.dumps(older(json.loads(text)))
