"""What a user did wrong is said in a line, not shown as a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .terminal import echo


@contextmanager
def plain_errors() -> Iterator[None]:
    from ..cluster.errors import ClusterError
    from ..local.federations import LocalError
    from ..local.ports import PortInUse
    from ..runs.connections import RunError
    from ..runs.environments import EnvironmentUnavailable

    expected = (ClusterError, LocalError, RunError, EnvironmentUnavailable, PortInUse, OSError)
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output has had enough: click ends in silence
    except expected as error:
        echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        echo(err=True)
        sys.exit(130)


def note(text: str) -> None:
    echo(f"note: {text}", err=True)
