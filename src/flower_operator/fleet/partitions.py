"""Which SuperNode has which partition, over all pools and clusters.

A number stays with its holder for as long as that is there. What is free is given out again, the
smallest first, so that there are few gaps.
"""

from collections.abc import Iterable, Mapping
from itertools import count

Holder = tuple[str, str]
"""A pool on a cluster; "" is the SuperLink's own."""
Partitions = dict[Holder, tuple[int, ...]]


def allocate(held: Mapping[Holder, tuple[int, ...]], wanted: Mapping[Holder, int]) -> Partitions:
    """As many numbers for each holder as it wants, those that it has first."""
    kept = {holder: held.get(holder, ())[:size] for holder, size in wanted.items()}
    taken = {number for numbers in kept.values() for number in numbers}
    free = (number for number in count() if number not in taken)
    return {
        holder: (*kept[holder], *(next(free) for _ in range(size - len(kept[holder]))))
        for holder, size in wanted.items()
    }


def total(partitions: Mapping[Holder, tuple[int, ...]]) -> int:
    """One more than the largest number: a gap is a partition that nobody has for now."""
    return 1 + max((number for numbers in partitions.values() for number in numbers), default=-1)


def write(partitions: Mapping[Holder, tuple[int, ...]]) -> dict[str, str]:
    """As the data of a ConfigMap: a file for each pool, a line for each cluster."""
    files: dict[str, list[str]] = {}
    for (pool, cluster), numbers in sorted(partitions.items()):
        files.setdefault(pool, []).append(f"{cluster or '.'} {ranges(numbers)}")
    return {pool: "\n".join(lines) + "\n" for pool, lines in files.items()}


def read(files: Mapping[str, str]) -> Partitions:
    """The same the other way; raises ValueError where it was not `write` that wrote it."""
    found: Partitions = {}
    for pool, text in files.items():
        for line in text.splitlines():
            cluster, _, numbers = line.partition(" ")
            found[pool, "" if cluster == "." else cluster] = numbers_of(numbers)
    every = [number for numbers in found.values() for number in numbers]
    if len(set(every)) < len(every):
        raise ValueError("a partition is there twice")
    return found


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in their order, neighbours as a range: 0-3,7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def numbers_of(text: str) -> tuple[int, ...]:
    """The same the other way; raises ValueError."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return tuple(found)
