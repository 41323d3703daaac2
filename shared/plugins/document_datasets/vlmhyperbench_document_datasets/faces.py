"""Bitmap faces: the characters of a page as pixels, from packages that ship them, without a rasteriser.

The first face is Pillow's built-in bitmap font. The others are fonts of the X Window System in the copies of the
package `pyfiglet` (each file has its own permissive notice); this package contains none of them.
"""

from __future__ import annotations

import hashlib
import string
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from vlmhyperbench_sdk.errors import InvalidInput

CHARACTERS = string.ascii_uppercase + string.digits + ".:"
"""All characters of pages, except the space."""
DEFAULT_FACE = "pillow"
OTHER_FACES = ("5x8", "6x9", "clr6x10", "clb6x10", "clr7x10", "clr8x10", "clb8x10", "cli8x8")
"""Names in `pyfiglet`: width × height in pixels; `clb` is bold, `cli` slanted."""


_SHA256 = {
    "pillow": "383a3a05234df3e1758aff104eb467ed8f3c39f4aeebc87dd5470a56f65b38fe",
    "5x8": "214dbf704f6a4bd5e8c8f509304928fd3e3d968624406fcc43936f3ace47047b",
    "6x9": "53a21e1ec09d45014d1e07fe0eeb78c161f8cf7e6508b434f7e351116fd605ae",
    "clr6x10": "0bcc158db902426b11356b028ea97cb5e44a84c19550ffa755c5a038f7268882",
    "clb6x10": "82bca0fe6bbf98c0d4c062e37870d20b45f50d9f369e3e4ee054216cc651961a",
    "clr7x10": "a56024bb15894799b6568e57574a218e175427cd40f0daa875e3a7d1818257dc",
    "clr8x10": "383a247cec7e263bbcb8e63bfbb33f1d9d7c2273a73ca942c81d430b7bb6957c",
    "clb8x10": "7db5151d777963110c2e0c267b38579315ef8629b707f3dc452023397097bd93",
    "cli8x8": "945a61e8bd6a55c2d3faf437eb403d0d35956b79c5a2fda63b086231e7f8511d",
}
"""Hash of each face's characters, so that pages with the same key are never drawn with other characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """A fixed-width face: a bitmap per character, all of the same size."""

    name: str
    glyphs: dict[str, NDArray[np.bool_]]
    """True is ink. Shape of each: (height, width)."""
    width_px: int
    """Rightmost extent of the ink of all characters."""


@cache
def face(name: str) -> Face:
    """Return a face by its name.

    Raises:
        InvalidInput: the package that ships the face is not installed, or has other characters.
    """
    glyphs = _of_pillow() if name == DEFAULT_FACE else _of_pyfiglet(name)
    if _digest_of(glyphs) != _SHA256[name]:
        package, known = ("pillow", "13.0.0") if name == DEFAULT_FACE else ("pyfiglet", "1.0.4")
        raise InvalidInput(
            f"This {package} ships another face {name} than the one that pages are drawn in.",
            cure=f"Install {package}=={known}, which has it.",
        )
    reach = max(int(np.nonzero(glyph)[1].max()) + 1 for glyph in glyphs.values())
    return Face(name=name, glyphs=glyphs, width_px=reach)


def _digest_of(glyphs: dict[str, NDArray[np.bool_]]) -> str:
    digest = hashlib.sha256()
    for character in CHARACTERS:
        glyph = glyphs[character]
        digest.update(repr(glyph.shape).encode() + glyph.astype(np.uint8).tobytes())
    return digest.hexdigest()


def _of_pillow() -> dict[str, NDArray[np.bool_]]:
    font = ImageFont.load_default_imagefont()
    glyphs = {}
    for character in CHARACTERS:
        image = Image.new("1", (8, 16))
        ImageDraw.Draw(image).text((0, 0), character, font=font, fill=1)
        glyphs[character] = np.array(image)
    return glyphs


def require_other_faces() -> None:
    """Check before the first page that the other faces are installed.

    Raises:
        InvalidInput: `pyfiglet` is not installed, or has other characters.
    """
    for name in OTHER_FACES:
        face(name)


def _of_pyfiglet(name: str) -> dict[str, NDArray[np.bool_]]:
    try:
        from pyfiglet import FigletFont
    except ImportError as error:
        raise InvalidInput(
            "The tier fonts needs the package pyfiglet, which is not installed.",
            cure="Install vlmhyperbench-document-datasets[fonts].",
        ) from error
    rows_of = FigletFont(font=name).chars
    return {
        character: np.array([[mark == "#" for mark in row] for row in rows_of[ord(character)]])
        for character in CHARACTERS
    }
