"""Divide texts into words as jiwer does, and write each word as one character, which edit distances read fastest."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import count

import numpy as np

from vlmhyperbench_text_metrics.white_space import has_other_space

_SEPARATOR, _EMPTY, _FIRST = 0, 1, 2
_SURROGATES_START, _SURROGATES = 0xD800, 0x800
_CHARACTERS = 0x110000 - _SURROGATES

_WIDE_SPACE = re.compile(r"\s\s+")


def words_as_characters(
    said: list[str], true: list[str], *, characters: int = _CHARACTERS
) -> tuple[Sequence[Sequence[str | int]], Sequence[Sequence[str | int]]]:
    """Write the same word as the same character on both sides; as numbers, where there are more words than characters.

    Words are what jiwer's `wer_default` makes of a text: runs of two or more white-space characters become a space,
    the ends are stripped, spaces divide. A single tab or line break inside a text therefore divides nothing.
    """
    texts = [*said, *true]
    if not texts:
        return [], []
    joined = " \n ".join(texts)
    if has_other_space(joined, line_breaks=len(texts) - 1):
        joined = " \n ".join([_WIDE_SPACE.sub(" ", text).strip() for text in texts])
    numbers: defaultdict[str, int] = defaultdict(count(_FIRST).__next__)
    # No word is a line break alone: white space beside white space is gone.
    numbers["\n"], numbers[""] = _SEPARATOR, _EMPTY
    words = joined.split(" ")
    ids = np.fromiter(map(numbers.__getitem__, words), dtype=np.uint32, count=len(words))
    ids = ids[ids != _EMPTY]
    coded: Sequence[Sequence[str | int]]
    if len(numbers) > characters:
        parts = np.split(ids, np.flatnonzero(ids == _SEPARATOR))
        coded = [part[part != _SEPARATOR].tolist() for part in parts]
    else:
        points = np.where(ids < _SURROGATES_START, ids, ids + _SURROGATES).astype("<u4")
        coded = points.tobytes().decode("utf-32-le").split("\x00")
    return coded[: len(said)], coded[len(said) :]
