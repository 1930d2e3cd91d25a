"""The Flower releases that tests run: the last patch of every line known."""

from flower_operator.flower.dialects import NEWEST, OLDEST
from flower_operator.flower.releases import Release

LAST_PATCHES = {(1, 26): 1, (1, 32): 1}

RELEASES = [
    Release(1, minor, LAST_PATCHES.get((1, minor), 0))
    for minor in range(OLDEST.minor, NEWEST.minor + 1)
]
