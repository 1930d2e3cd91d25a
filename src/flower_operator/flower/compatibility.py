"""Which releases can talk to each other, as measured by running them side by side.

Every SuperLink from 1.23 to 1.41 was run with every SuperNode of those releases, and each with
SuperExecs of neighbouring releases; 1.42, whose code for it is that of 1.41, with 1.39 to 1.41.
design/compatibility.md has the tables and their gaps.
"""

from .dialects import DIALECTS, dialect_of
from .releases import Release

# Lines of releases whose SuperExecs may be exchanged; beside these it must be the same line,
# which the SuperLink and the SuperNode check themselves from 1.30 on.
SERVERAPP_LINES = (range(24, 28),)
CLIENTAPP_LINES = (range(23, 26), range(26, 29))
# Lines of releases whose databases have one schema.
DATABASE_LINES = (range(26, 28), range(35, 37), range(39, 41))
# A database says which schema it has from 1.26 on, and every newer release takes it over. One of
# 1.25 says nothing, and is recognised from 1.30 on; older ones never are.
UNMARKED, MARKED, RECOGNISING = Release(1, 25), Release(1, 26), Release(1, 30)


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


def serverapp_mismatch(superlink: Release, superexec: Release) -> str | None:
    """Why a SuperExec cannot run ServerApps for the SuperLink beside it."""
    return _superexec_mismatch("SuperLink", superlink, superexec, SERVERAPP_LINES)


def clientapp_mismatch(supernode: Release, superexec: Release) -> str | None:
    """Why a SuperExec cannot run ClientApps for the SuperNode beside it."""
    return _superexec_mismatch("SuperNode", supernode, superexec, CLIENTAPP_LINES)


def database_mismatch(last: Release, superlink: Release) -> str | None:
    """Why a SuperLink cannot go on with the database that another release used last."""
    oldest = UNMARKED if superlink >= RECOGNISING else MARKED
    if oldest.line <= last.line < superlink.line or _are_alike(last, superlink, DATABASE_LINES):
        return None
    return f"Flower {superlink} cannot read a database that was used by {last}"


def executor_mismatch(superexec: Release, *, secure: bool) -> str | None:
    """Why a SuperExec cannot run tasks in pods of their own."""
    if dialect_of(superexec).executor is None:
        first = next(each.since for each in DIALECTS if each.executor)
        return _too_old(superexec, first, "cannot run tasks in pods of their own")
    if secure and not dialect_of(superexec).runtime_follows_tls:
        first = next(each.since for each in DIALECTS if each.runtime_follows_tls)
        return _too_old(superexec, first, "has no TLS between a SuperLink and its tasks' pods")
    return None


def _too_old(release: Release, first: Release, fault: str) -> str:
    return f"Flower {release} {fault}; use {first.major}.{first.minor} or newer, or subprocess"


def _superexec_mismatch(
    owner: str, release: Release, superexec: Release, exchangeable: tuple[range, ...]
) -> str | None:
    if _are_alike(release, superexec, exchangeable):
        return None
    wanted = f"{release.major}.{release.minor}"
    return (
        f"a SuperExec of Flower {superexec} cannot work for a {owner} of {release}; "
        f"use one of {wanted}"
    )


def _are_alike(one: Release, other: Release, exchangeable: tuple[range, ...]) -> bool:
    return one.line == other.line or any(
        one.minor in lines and other.minor in lines for lines in exchangeable
    )
