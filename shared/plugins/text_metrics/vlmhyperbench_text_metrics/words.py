"""Split texts into words as jiwer does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmhyperbench_text_metrics.white_space import has_other_space

_WIDE_SPACE = re.compile(r"\s\s+")


def divide_words(texts: Sequence[str]) -> list[list[str]]:
    """Split each text into words as jiwer's `wer_default` does.

    Two or more white-space characters become a space, the ends are stripped, and spaces separate words. A single tab or
    line break inside a text therefore separates nothing.
    """
    if has_other_space("".join(texts)):
        texts = [_WIDE_SPACE.sub(" ", text).strip() for text in texts]
        return [text.split(" ") if text else [] for text in texts]
    return list(map(str.split, texts))
