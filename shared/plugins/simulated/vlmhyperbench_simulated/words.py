"""Draw the words of an answer by a digest, out of millions, so that two answers rarely share a word; pure."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Literal

Alphabet = Literal["ascii", "multibyte"]
"""Whether a character takes one byte, or two to four."""

SYLLABLES: dict[Alphabet, tuple[str, ...]] = {
    "ascii": tuple(map("".join, product("bdfgklmnprstvwyz", "aeio", ("", "l", "n", "r")))),
    "multibyte": tuple(map("".join, product("бдзклмнпрстфхцчш琥珀盆地雪松角洲杉桃竹梅🌿🧭🏮✨", "аеио", ("", "н")))),
}
"""256 syllables of each alphabet, one for each value of a byte."""

_SYLLABLES_PER_WORD = 3


def draw_words(digest: bytes, count: int, alphabet: Alphabet) -> list[str]:
    """Return `count` words, each followed by a space; the same digest draws the same words."""
    syllables = SYLLABLES[alphabet]
    drawn = [syllables[byte] for byte in hashlib.shake_256(digest).digest(_SYLLABLES_PER_WORD * count)]
    return [
        f"{first}{second}{third} " for first, second, third in zip(drawn[::3], drawn[1::3], drawn[2::3], strict=True)
    ]
