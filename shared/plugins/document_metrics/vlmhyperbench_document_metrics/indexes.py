"""Indexes of values in lists, by which matrices of pairs are filled part by part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise


def having(objects: Sequence[Iterable[str]]) -> dict[str, list[int]]:
    """Return, for every key, the indexes of the objects that have it."""
    indexes: dict[str, list[int]] = {}
    for index, keys in enumerate(objects):
        for key in keys:
            indexes.setdefault(key, []).append(index)
    return indexes


def spans(lengths: Iterable[int]) -> list[slice]:
    """Return the range of each list's items if all lists are concatenated."""
    return [slice(start, end) for start, end in pairwise(accumulate(lengths, initial=0))]
