"""Bitmap faces: the characters of a page as pixels, from packages that ship them, with no rasteriser in between.

The first face is Pillow's built-in bitmap font. The others are fonts of the X Window System in the copies that the
package `pyfiglet` ships (each file carries its own permissive notice); nothing of them is kept here.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from vlmhyperbench_sdk.errors import InvalidInput

CHARACTERS = string.ascii_uppercase + string.digits + ".:"
"""All that is ever printed on a page, beside the space."""
DEFAULT_FACE = "pillow"
OTHER_FACES = ("5x8", "6x9", "clr6x10", "clb6x10", "clr7x10", "clr8x10", "clb8x10", "cli8x8")
"""Their names in `pyfiglet`: width × height in pixels; `clb` is bold, `cli` slanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """A fixed-width face: one bitmap per character, all of one size."""

    name: str
    glyphs: dict[str, NDArray[np.bool_]]
    """True is ink. Shape of each: (height, width)."""
    width_px: int
    """As far as the ink of any character reaches to the right."""


@cache
def face(name: str) -> Face:
    """Return a face by its name.

    Raises:
        InvalidInput: the face is one of `pyfiglet`'s, and that package is not installed.
    """
    glyphs = _of_pillow() if name == DEFAULT_FACE else _of_pyfiglet(name)
    reach = max(int(np.nonzero(glyph)[1].max()) + 1 for glyph in glyphs.values())
    return Face(name=name, glyphs=glyphs, width_px=reach)


def _of_pillow() -> dict[str, NDArray[np.bool_]]:
    font = ImageFont.load_default_imagefont()
    glyphs = {}
    for character in CHARACTERS:
        image = Image.new("1", (8, 16))
        ImageDraw.Draw(image).text((0, 0), character, font=font, fill=1)
        glyphs[character] = np.array(image)
    return glyphs


def require_other_faces() -> None:
    """Find out now, not at the first page, whether there are other faces.

    Raises:
        InvalidInput: `pyfiglet` is not installed.
    """
    face(OTHER_FACES[0])


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
