"""Flower releases, and which one an image or a version field names."""

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, order=True)
class Release:
    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def line(self) -> tuple[int, int]:
        """Major and minor: patches of one line speak alike."""
        return (self.major, self.minor)


OLDEST = Release(1, 23)
NEWEST = Release(1, 42)

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+][\w.+-]+|\.?(?:dev|rc|a|b)\d*)?", re.ASCII)


@lru_cache(maxsize=256)
def parse_release(text: str) -> Release | None:
    """`1.25.0`, `1.25`, `1.25.0-py3.13-ubuntu24.04` and the like; None for other texts."""
    match = _VERSION.fullmatch(text)
    if not match or any(len(number) > 6 for number in match.groups("0")):
        return None
    major, minor, patch = (int(number) for number in match.groups("0"))
    return Release(major, minor, patch)


def tag_of(image: str) -> str | None:
    """The tag of an image reference, which may have a registry's port and a digest."""
    name = image.partition("@")[0]
    last = name.rpartition("/")[2]
    return last.partition(":")[2] or None


def is_official(image: str) -> bool:
    """Whether this is one of Flower's own images, wherever it is mirrored."""
    path = image.partition("@")[0].split("/")
    return len(path) >= 2 and path[-2] == "flwr"


@lru_cache(maxsize=1024)
def release_of_image(image: str) -> Release | None:
    """The Flower release that an image's tag names.

    A tag of Flower's own images always does. That of any other image does if it could be a
    release known or to come: `my-app:2.0` is a version of the app, not of Flower.
    """
    tag = tag_of(image)
    release = parse_release(tag) if tag else None
    if release and not is_official(image) and not OLDEST <= release < Release(2, 0):
        return None
    return release
