"""Say where things are in lists, so that matrices of pairs can be filled part by part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise


def having(objects: Sequence[Iterable[str]]) -> dict[str, list[int]]:
    """Say, for every key, which objects have it."""
    places: dict[str, list[int]] = {}
    for place, keys in enumerate(objects):
        for key in keys:
            places.setdefault(key, []).append(place)
    return places


def spans(lengths: Iterable[int]) -> list[slice]:
    """Say where the items of each list are when all lists stand one after another."""
    return [slice(start, end) for start, end in pairwise(accumulate(lengths, initial=0))]
