"""How far Skupper is with what other clusters reach a SuperLink by."""

from collections.abc import Iterable
from dataclasses import dataclass

from .observed import Interconnection
from .outline import Outline

MISSING = (
    "spec.interconnect: this cluster has no API group skupper.io; install Skupper 2, then restart "
    "the operator"
)


@dataclass(frozen=True)
class Interconnected:
    waiting: tuple[str, str] | None = None
    """Reason and message of what Ready waits for."""
    notes: tuple[str, ...] = ()


NOTHING = Interconnected()


def interconnected(outline: Outline, children: Iterable[object]) -> Interconnected:
    """Nobody can link before the Site is ready; a Connector is not before someone listens."""
    if not outline.interconnected:
        return NOTHING
    found = [each for each in children if isinstance(each, Interconnection)]
    unready = [each for each in found if each.state != "Ready"]
    words = {each.kind: f"{each.kind} {each.metadata.name} is not ready" for each in unready}
    words |= {each.kind: f"{words[each.kind]}: {each.message}" for each in unready if each.message}
    if not any(each.kind == "Site" for each in found):
        return Interconnected(("Interconnecting", "Skupper's Site does not exist yet"))
    if "Site" in words:
        return Interconnected(("Interconnecting", f"Skupper's {words['Site']}"))
    return Interconnected(notes=tuple(f"Skupper's {each}" for each in words.values()))
