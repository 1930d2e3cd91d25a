"""Which release an image, a version field and a whole Federation name."""

import pytest

from flower_operator.flower.dialects import DIALECTS, NEWEST, dialect_of
from flower_operator.flower.releases import Release, parse_release, release_of_image, tag_of
from flower_operator.render import Plan
from tests.unit.federations import container, document, plan, pod
from tests.unit.test_manifest import problems as refused
from tests.unit.test_render import render_problems


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("flwr/superlink", None),
        ("flwr/superlink:1.25.0", "1.25.0"),
        ("localhost:5000/flwr/superlink", None),
        ("localhost:5000/flwr/superlink:1.25.0", "1.25.0"),
        ("reg.example/flwr/superlink:1.25.0@sha256:abc", "1.25.0"),
        ("flwr/superlink@sha256:abc", None),
    ],
)
def test_the_tag_of_an_image(image: str, tag: str | None) -> None:
    assert tag_of(image) == tag


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("flwr/superlink:1.25.0", Release(1, 25)),
        ("flwr/superlink:1.25.0-py3.13-ubuntu24.04", Release(1, 25)),
        ("localhost:5000/flwr/supernode:1.26.1", Release(1, 26, 1)),
        ("flwr/supernode:1.41.0@sha256:abc", Release(1, 41)),
        ("flwr/supernode:v1.30", Release(1, 30)),
        ("flwr/supernode:1.17.0", Release(1, 17)),
        ("flwr/supernode:latest", None),
        ("flwr/supernode", None),
        ("my-registry/supernode-gpu:1.25.0", Release(1, 25)),
        ("my-app/client:latest", None),
        ("my-app/client:1.0.3", None),
        ("my-app/client:2.30", None),
        ("my-app/client:20260101", None),
        ("my-app/client:sha-1.25.0", None),
    ],
)
def test_the_release_of_an_image(image: str, release: Release | None) -> None:
    assert release_of_image(image) == release


@pytest.mark.parametrize("text", ["", "one", "1", "1.", "1.x", "1.25.0 ", "٣.٢", "1.99999999"])
def test_what_is_no_release(text: str) -> None:
    assert parse_release(text) is None


def test_a_release_speaks_the_last_dialect_that_began_before_it() -> None:
    assert dialect_of(Release(1, 28)).since == Release(1, 26)
    assert dialect_of(Release(1, 29)).since == Release(1, 29)
    assert dialect_of(Release(1, 34, 7)).since == Release(1, 33)
    assert dialect_of(Release(1, 99)) == dialect_of(NEWEST) == DIALECTS[-1]


def superlink_flags(rendered: Plan) -> set[str]:
    found = pod(rendered, "Deployment", "fed-superlink")
    return {text for text in container(found, "superlink")["args"] if text.startswith("--")}


def test_spec_version_wins_over_tags_and_says_so() -> None:
    rendered = plan(version="1.41.0")
    assert "--host" in superlink_flags(rendered)
    assert any("looks like Flower 1.25.0" in notice for notice in rendered.notices)


def test_images_without_a_release_follow_the_superlink() -> None:
    rendered = plan(supernodes={"image": "my-app/client:latest"})
    supernode = container(pod(rendered, "StatefulSet", "fed-supernode-default"), "supernode")
    assert "--clientappio-api-address" in supernode["args"]
    assert rendered.notices[0] == (
        "spec.supernodes.image: my-app/client:latest names no Flower release, so it is assumed to "
        "be 1.25.0; set spec.version to the release that it has"
    )


def test_no_release_anywhere_is_the_newest_with_a_notice() -> None:
    rendered = plan(superlink={"image": "a"}, supernodes={"image": "b"})
    assert "--host" in superlink_flags(rendered)
    assert (
        f"spec.superlink.image: a names no Flower release, so it is assumed to be {NEWEST}"
        in str(rendered.notices)
    )


def test_a_release_to_come_is_run_like_the_newest_known() -> None:
    rendered = plan(version="1.57.0")
    assert superlink_flags(rendered) == superlink_flags(plan(version=str(NEWEST)))
    assert "spec.version: Flower 1.57.0 is newer than" in rendered.notices[0]


def test_the_newest_release_is_run_without_a_word() -> None:
    assert plan(version="1.42.0", superlink={"image": "a"}, supernodes={"image": "b"}).notices == ()


def test_what_is_too_old_or_no_release_is_refused() -> None:
    assert render_problems(version="1.22.0") == [
        "spec.version: Flower 1.22.0 is older than 1.23.0, the oldest that is known here"
    ]
    assert render_problems(version="stable") == [
        "spec.version: 'stable' is no Flower release; write one such as 1.42.0"
    ]
    assert render_problems(superlink={"image": "flwr/superlink:1.17.0"})
    assert refused(document(version=""))
