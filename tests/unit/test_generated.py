from pathlib import Path

import pytest

from scripts.manifests import ROOT, generated

FILES = generated()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_committed_is_what_is_generated(path: Path) -> None:
    assert path.read_text() == FILES[path], "run make manifests and look at the difference"
