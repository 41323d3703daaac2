"""Normaliser v1: what two texts must agree in to be called the same answer."""

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

    `yo_fold` and `words_to_digits` look at case-folded words; `strip_punct` comes before `words_to_digits`, so that
    "Two." is 2.
    """

    strip_punct: bool = False
    """Take punctuation (Unicode category P) off both ends of every word; a word of nothing else disappears."""
    yo_fold: bool = False
    """Read the Cyrillic letter ё as е."""
    words_to_digits: bool = False
    """Read the whole words zero … ten (English and Russian) as digits."""

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
        """Normalise many texts, as one where the options leave words alone. Shape as `texts`."""
        if not texts:
            return []
        if self.strip_punct or self.words_to_digits:
            return [self(text) for text in texts]
        # A line break neither composes with anything nor comes out of anything else, so the texts stay apart.
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
