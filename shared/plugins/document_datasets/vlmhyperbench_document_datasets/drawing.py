"""Draw the lines of a page as ink and as grey pixels, with the bounding box of each value.

All arithmetic except the noise of `add_clean_noise` is on integers, so that pages are the same on every machine.
"""

from __future__ import annotations

import io
import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vlmhyperbench_document_datasets.faces import Face
from vlmhyperbench_document_datasets.pages import CELL_HEIGHT_PX, CELL_WIDTH_PX, Page

FULL = 16
"""Coverage of a pixel that is completely ink; 0 is none."""

Grey = NDArray[np.uint8]
Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; right and bottom are exclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The ink of a page, and the value to which it belongs."""

    coverage: NDArray[np.int64]
    """From 0 to FULL. Shape: (height, width)."""
    owners: NDArray[np.int64]
    """0, or the number of the value (from 1, in the order of the page's spans). Shape: (height, width)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The appearance of a page: the grey of paper and ink, and the origin of its text."""

    paper: int
    ink: int
    shift_x_px: int
    shift_y_px: int
    first_row: int


def choose_look(page: Page, rng: random.Random) -> Look:
    """Draw the greys of paper and ink, a shift of a few pixels, and a first row with room for all lines."""
    paper, ink = rng.randint(215, 255), rng.randint(0, 70)
    shift_x_px, shift_y_px = rng.randint(0, 2), rng.randint(0, 4)
    first_row = rng.randint(0, page.height_px // CELL_HEIGHT_PX - len(page.lines))
    return Look(paper=paper, ink=ink, shift_x_px=shift_x_px, shift_y_px=shift_y_px, first_row=first_row)


def write(page: Page, face: Face, *, left_px: tuple[int, ...], top_px: int, size: tuple[int, int]) -> Sheet:
    """Set the lines of a page in a face.

    Args:
        page: The page.
        face: The face.
        left_px: Left edge of every line.
        top_px: Top edge of the first line.
        size: Height and width of the sheet in pixels; all characters must be inside.
    """
    ink = np.zeros((size[0] + CELL_HEIGHT_PX, size[1] + CELL_WIDTH_PX), dtype=np.int64)
    owners = np.zeros_like(ink)
    owner_of = {
        (span.row, span.column + offset): number
        for number, span in enumerate(page.spans.values(), 1)
        for offset in range(len(span.text))
    }
    for row, line in enumerate(page.lines):
        for column, character in enumerate(line):
            if character != " ":
                glyph = face.glyphs[character]
                top, left = top_px + CELL_HEIGHT_PX * row, left_px[row] + CELL_WIDTH_PX * column
                area = np.s_[top : top + glyph.shape[0], left : left + glyph.shape[1]]
                ink[area] |= glyph
                owners[area] = np.where(glyph, owner_of.get((row, column), 0), owners[area])
    return Sheet(coverage=FULL * ink[: size[0], : size[1]], owners=owners[: size[0], : size[1]])


def write_on_grid(page: Page, face: Face, look: Look) -> Sheet:
    """Set a page on its grid of cells, with its shift (a smaller one if the face fills its cells)."""
    shift_x_px = min(look.shift_x_px, CELL_WIDTH_PX - face.width_px)
    return write(
        page,
        face,
        left_px=(shift_x_px,) * len(page.lines),
        top_px=CELL_HEIGHT_PX * look.first_row + look.shift_y_px,
        size=(page.height_px, page.width_px),
    )


def print_on_paper(sheet: Sheet, look: Look) -> NDArray[np.int64]:
    """Return the pixels of a sheet, 0 (black) to 255. Shape: (height, width)."""
    mixed: NDArray[np.int64] = look.paper * (FULL - sheet.coverage) + look.ink * sheet.coverage
    return (mixed + FULL // 2) // FULL


def add_clean_noise(pixels: NDArray[np.int64], rng: random.Random) -> Grey:
    """Add the normal noise of the clean pages, with the random numbers that the model was trained on."""
    noise_rng = np.random.default_rng(rng.getrandbits(32))
    noise = noise_rng.normal(0, rng.choice((0, 2, 5, 8)), pixels.shape)
    return np.clip(pixels + noise, 0, 255).astype(np.uint8)


def add_noise(pixels: NDArray[np.int64], rng: random.Random, *, deviation: int) -> Grey:
    """Add approximately normal noise with a standard deviation in grey values: the sum of four bytes per pixel."""
    raw = np.frombuffer(rng.randbytes(4 * pixels.size), dtype=np.uint8).reshape(4, *pixels.shape)
    centred = raw.sum(axis=0, dtype=np.int64) - 510
    # The sum of four bytes has a standard deviation of 147.8.
    noisy: NDArray[np.int64] = pixels + (deviation * centred + 74) // 148
    return np.clip(noisy, 0, 255).astype(np.uint8)


def boxes_of(page: Page, sheet: Sheet) -> dict[str, Box]:
    """Return the tightest box around the ink of each value, by its name.

    Raises:
        ValueError: a value has no ink.
    """
    rows, columns = np.nonzero(sheet.owners)
    owners = sheet.owners[rows, columns]
    lowest = np.full((len(page.spans) + 1, 2), max(sheet.owners.shape))
    highest = np.full_like(lowest, -1)
    for axis, positions in enumerate((columns, rows)):
        np.minimum.at(lowest[:, axis], owners, positions)
        np.maximum.at(highest[:, axis], owners, positions)
    if (highest[1:] < 0).any():
        raise ValueError("A value of the page has no ink.")
    corners = np.concatenate([lowest, highest + 1], axis=1).tolist()
    return {
        name: (left, top, right, bottom)
        for name, (left, top, right, bottom) in zip(page.spans, corners[1:], strict=True)
    }


def encode(pixels: Grey) -> bytes:
    """Return grey pixels as a PNG."""
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "PNG")
    return encoded.getvalue()
