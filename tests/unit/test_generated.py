from pathlib import Path

import pytest

from flower_operator.cli.controller import controller
from scripts.manifests import OPERATOR_REFERENCE, ROOT, generated

FILES = generated()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_committed_is_what_is_generated(path: Path) -> None:
    assert path.read_text() == FILES[path], "run make manifests and look at the difference"


def test_the_operators_reference_has_every_option_that_its_parser_knows() -> None:
    lines = OPERATOR_REFERENCE.read_text().splitlines()
    listed = [line.split("`")[1].split()[0] for line in lines if line.startswith("| `--")]
    assert listed == [option.opts[0] for option in controller.params]
