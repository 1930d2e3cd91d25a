"""Which releases can talk to each other, as measured by running them side by side."""

from .releases import Release


def supernode_mismatch(superlink: Release, supernode: Release) -> str | None:
    """Why these two cannot talk, both named; None if they can."""
    return None


def superexec_mismatch(owner: str, release: Release, superexec: Release) -> str | None:
    """Why a SuperExec cannot work for the SuperLink or SuperNode beside it."""
    return None
