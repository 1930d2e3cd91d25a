"""Releases that cannot talk are refused, both named."""

import pytest

from flower_operator.flower.compatibility import database_mismatch
from flower_operator.flower.releases import parse_release
from tests.unit.federations import plan
from tests.unit.test_render import render_problems


@pytest.mark.parametrize(
    ("superlink", "supernode"),
    [("1.25.0", "1.24.0"), ("1.23.0", "1.39.0"), ("1.39.0", "1.23.0"), ("1.42.0", "1.40.0")],
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


def superexec(superlink: str, supernode: str, serverapp: str, clientapp: str) -> dict[str, object]:
    return {
        "isolation": "process",
        "superlink": {
            "image": f"flwr/superlink:{superlink}",
            "superexecImage": f"flwr/superexec:{serverapp}",
        },
        "supernodes": {"image": f"flwr/supernode:{supernode}"},
        "pool": {"images": {"superexecClientApp": f"flwr/superexec:{clientapp}"}},
    }


@pytest.mark.parametrize(
    "releases",
    [
        ("1.25.0", "1.25.0", "1.27.0", "1.23.0"),
        ("1.28.0", "1.28.0", "1.28.0", "1.26.1"),
        ("1.30.0", "1.30.0", "1.30.2", "1.30.1"),
        ("1.41.0", "1.40.0", "1.41.0", "1.40.0"),
        ("1.42.0", "1.41.0", "1.42.0", "1.41.0"),
    ],
)
def test_superexecs_that_work(releases: tuple[str, str, str, str]) -> None:
    plan(**superexec(*releases))


@pytest.mark.parametrize(
    ("releases", "said"),
    [
        (
            ("1.41.0", "1.41.0", "1.40.0", "1.41.0"),
            "spec.superlink.superexecImage: a SuperExec of Flower 1.40.0 cannot work for a "
            "SuperLink of 1.41.0; use one of 1.41",
        ),
        (
            ("1.25.0", "1.25.0", "1.25.0", "1.26.1"),
            "spec.supernodes.pools[0].images.superexecClientApp: a SuperExec of Flower 1.26.1 "
            "cannot work for a SuperNode of 1.25.0; use one of 1.25",
        ),
        (
            ("1.23.0", "1.23.0", "1.24.0", "1.23.0"),
            "spec.superlink.superexecImage: a SuperExec of Flower 1.24.0 cannot work for a "
            "SuperLink of 1.23.0; use one of 1.23",
        ),
    ],
)
def test_superexecs_that_do_not(releases: tuple[str, str, str, str], said: str) -> None:
    assert render_problems(**superexec(*releases)) == [said]


@pytest.mark.parametrize(
    ("last", "superlink", "follows"),
    [
        ("1.23.0", "1.24.0", False),
        ("1.24.0", "1.41.0", False),
        ("1.25.0", "1.25.1", True),
        ("1.25.0", "1.29.0", False),
        ("1.25.0", "1.30.0", True),
        ("1.26.1", "1.28.0", True),
        ("1.25.0", "1.99.0", True),
        ("1.40.0", "1.39.0", True),
        ("1.41.0", "1.40.0", False),
        ("1.41.2", "1.41.0", True),
        ("1.41.0", "1.42.0", True),
        ("1.42.0", "1.41.0", False),
        ("1.27.0", "1.25.0", False),
    ],
)
def test_which_databases_a_superlink_can_go_on_with(
    last: str, superlink: str, follows: bool
) -> None:
    before, after = parse_release(last), parse_release(superlink)
    assert before
    assert after
    assert (database_mismatch(before, after) is None) == follows
