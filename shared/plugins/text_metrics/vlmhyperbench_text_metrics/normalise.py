"""Normaliser v1: texts with the same normal form are the same answer."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from vlmhyperbench_text_metrics.white_space import collapsed_lines

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS_RU = ("ноль", "один", "два", "три", "четыре", "пять", "шесть", "семь", "восемь", "девять", "десять")
_DIGITS = {word: str(value) for words in (_NUMBERS, _NUMBERS_RU) for value, word in enumerate(words)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NormaliserV1:
    """NFKC → casefold → collapse white space → strip; three options, off by default and recorded.

    `yo_fold` and `words_to_digits` apply to case-folded words; `strip_punct` precedes `words_to_digits`, so that
    "Two." is 2.
    """

    strip_punct: bool = False
    """Remove punctuation (Unicode category P) at both ends of every word; a word of punctuation only is removed."""
    yo_fold: bool = False
    """Replace the Cyrillic letter ё by е."""
    words_to_digits: bool = False
    """Replace the whole words zero … ten (English and Russian) by digits."""

    def __call__(self, text: str) -> str:
        words = unicodedata.normalize("NFKC", text).casefold().split()
        if self.yo_fold:
            words = [word.replace("ё", "е") for word in words]
        if self.strip_punct:
            words = [bare for word in words if (bare := word.strip(_punctuation()))]
        if self.words_to_digits:
            words = [_DIGITS.get(word, word) for word in words]
        return " ".join(words)

    def bulk(self, texts: Sequence[str]) -> list[str]:
        """Normalise many texts, joined into a single one if no option applies to words. Shape as `texts`."""
        if not texts:
            return []
        if self.strip_punct or self.words_to_digits:
            return [self(text) for text in texts]
        # No character composes with a line break or is normalised to one, so the texts remain separable.
        joined = "\n".join(texts)
        if joined.count("\n") != len(texts) - 1:
            joined = "\n".join([text.replace("\n", " ") for text in texts])
        joined = unicodedata.normalize("NFKC", joined).casefold()
        if self.yo_fold:
            joined = joined.replace("ё", "е")
        return collapsed_lines(joined)

    def __str__(self) -> str:
        options = [name for name in ("strip_punct", "yo_fold", "words_to_digits") if getattr(self, name)]
        return " + ".join(["v1: NFKC, casefold, white space collapsed and stripped", *options])


@lru_cache(maxsize=1)
def _punctuation() -> str:
    return "".join(char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char)[0] == "P")
