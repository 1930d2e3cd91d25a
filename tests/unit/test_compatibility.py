"""Releases that cannot talk are refused, both named."""

import pytest

from tests.unit.federations import plan
from tests.unit.test_render import render_problems


@pytest.mark.parametrize(
    ("superlink", "supernode"),
    [("1.25.0", "1.24.0"), ("1.23.0", "1.39.0"), ("1.39.0", "1.23.0"), ("1.41.0", "1.40.0")],
)
def test_releases_that_talk(superlink: str, supernode: str) -> None:
    plan(
        superlink={"image": f"flwr/superlink:{superlink}"},
        supernodes={"image": f"flwr/supernode:{supernode}"},
    )


@pytest.mark.parametrize(
    ("superlink", "supernode"), [("1.40.0", "1.39.0"), ("1.25.0", "1.41.0"), ("1.41.0", "1.25.0")]
)
def test_releases_that_do_not(superlink: str, supernode: str) -> None:
    (said,) = render_problems(
        superlink={"image": f"flwr/superlink:{superlink}"},
        supernodes={"image": f"flwr/supernode:{supernode}"},
    )
    assert said.startswith("spec.supernodes.pools[0]: ")
    assert superlink in said
    assert supernode in said
