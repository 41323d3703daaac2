"""Divide texts into words as jiwer does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmhyperbench_text_metrics.white_space import has_other_space

_WIDE_SPACE = re.compile(r"\s\s+")


def divide_words(texts: Sequence[str]) -> list[list[str]]:
    """Divide each text into what jiwer's `wer_default` calls words.

    Runs of two or more white-space characters become a space, the ends are stripped, spaces divide. A single tab or
    line break inside a text therefore divides nothing.
    """
    if has_other_space("".join(texts)):
        texts = [_WIDE_SPACE.sub(" ", text).strip() for text in texts]
        return [text.split(" ") if text else [] for text in texts]
    return list(map(str.split, texts))
