"""Events: what `kubectl describe` shows below an object."""

from datetime import datetime
from typing import Any

from .applied import Owner

# The API server refuses longer ones.
LONGEST_MESSAGE = 1024


def event(
    regarding: Owner,
    namespace: str,
    reason: str,
    message: str,
    *,
    warning: bool,
    source: str,
    now: datetime,
) -> dict[str, Any]:
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{regarding.name}.", "namespace": namespace},
        "involvedObject": {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "name": regarding.name,
            "namespace": namespace,
            "uid": regarding.uid,
        },
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": source},
    }
