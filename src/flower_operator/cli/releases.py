"""The dialect table as a person reads it."""

from ..flower.dialects import DIALECTS, NEWEST, Api, Dialect

HEADINGS = ("from", "fleet", "control", "serverappio", "clientappio", "what is new")


def release_table() -> str:
    """Each range of releases with the port of every API and the flags that came or went."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    previous: Dialect | None = None
    for dialect in DIALECTS:
        apis = (dialect.fleet, dialect.control, dialect.serverappio, dialect.clientappio)
        rows.append((_line(dialect), *map(_api, apis), _news(previous, dialect)))
        previous = dialect
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    known = f"Known: {_line(DIALECTS[0])} to {NEWEST.major}.{NEWEST.minor}. "
    return "\n".join([*lines, "", f"{known}A newer release is run like the newest known."])


def _line(dialect: Dialect) -> str:
    return f"{dialect.since.major}.{dialect.since.minor}"


def _api(api: Api) -> str:
    return f"{api.transport} {api.port}"


def _news(previous: Dialect | None, dialect: Dialect) -> str:
    if previous is None:
        return ""
    before, now = _flags(previous), _flags(dialect)
    gone = [f"-{flag.lstrip('-')}" for flag in sorted(before - now)]
    come = [f"+{flag.lstrip('-')}" for flag in sorted(now - before)]
    return " ".join(come + gone)


def _flags(dialect: Dialect) -> set[str]:
    flags: set[str] = set()
    for value in vars(dialect).values():
        if isinstance(value, str):
            flags.add(value)
        elif isinstance(value, Api):
            flags.update(value.flags)
    return flags
