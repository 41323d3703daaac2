"""Draw the words of an answer from a digest, out of millions, so that answers hardly share a word; pure."""

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
"""As many as a byte has values."""

_SYLLABLES_PER_WORD = 3


def draw_words(digest: bytes, count: int, alphabet: Alphabet) -> list[str]:
    """Return `count` words, each with a blank after it; the same digest draws the same words."""
    syllables = SYLLABLES[alphabet]
    drawn = [syllables[byte] for byte in hashlib.shake_256(digest).digest(_SYLLABLES_PER_WORD * count)]
    return [
        f"{first}{second}{third} " for first, second, third in zip(drawn[::3], drawn[1::3], drawn[2::3], strict=True)
    ]
