from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.releases import override_requirements
from tests.local.machine import Machine

override_requirements()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine without Federations; none is left behind."""
    with Machine(tmp_path) as machine:
        yield machine
