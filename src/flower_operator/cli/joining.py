"""The manifest of a cluster that joins, printed."""

from ..api.types import Federation
from ..render.joining import Joining, joining_notices, joining_objects
from .errors import note
from .output import to_yaml
from .terminal import echo_content


def show_joining(federation: Federation, joining: Joining) -> None:
    for notice in joining_notices(federation):
        note(notice)
    echo_content(to_yaml(joining_objects(federation, joining)))
