"""The dialect table as a person reads it."""

from ..flower.dialects import DIALECTS, NEWEST, Api, Dialect

HEADINGS = ("from", "fleet", "control", "serverappio", "clientappio", "what changed")


def release_table() -> str:
    """Each range of releases with the port of every API and what else changed."""
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
    """What differs beside the APIs, which have their own columns."""
    if previous is None:
        return ""
    before, now = vars(previous), vars(dialect)
    return ", ".join(
        f"{name.replace('_', ' ')}: {'yes' if value is True else value or 'gone'}"
        for name, value in now.items()
        if name != "since" and value != before[name] and not isinstance(value, Api)
    )
