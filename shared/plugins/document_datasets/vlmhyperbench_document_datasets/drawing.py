"""How the lines of a page become ink, and ink becomes grey pixels; and where on the page each value then stands.

All but the noise of `add_clean_noise` is integer arithmetic, so that a page has the same pixels on every machine.
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
"""The coverage of a pixel that is all ink; 0 is none."""

Grey = NDArray[np.uint8]
Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; right and bottom are the first ones outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Where there is ink, and which value it belongs to."""

    coverage: NDArray[np.int64]
    """From 0 to FULL. Shape: (height, width)."""
    owners: NDArray[np.int64]
    """0, or the number of the value (from 1, in the order of the page's spans). Shape: (height, width)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a page is printed: the grey of paper and ink, and where its text begins."""

    paper: int
    ink: int
    shift_x_px: int
    shift_y_px: int
    first_row: int


def choose_look(page: Page, rng: random.Random) -> Look:
    """Choose paper, ink, a shift of a few pixels, and a first row that leaves room for all lines."""
    paper, ink = rng.randint(215, 255), rng.randint(0, 70)
    shift_x_px, shift_y_px = rng.randint(0, 2), rng.randint(0, 4)
    first_row = rng.randint(0, page.height_px // CELL_HEIGHT_PX - len(page.lines))
    return Look(paper=paper, ink=ink, shift_x_px=shift_x_px, shift_y_px=shift_y_px, first_row=first_row)


def write(page: Page, face: Face, *, left_px: tuple[int, ...], top_px: int, size: tuple[int, int]) -> Sheet:
    """Write the lines of a page in a face: the line `n` begins `left_px[n]` from the left.

    Args:
        page: what is written.
        face: in which characters.
        left_px: one for every line.
        top_px: where the first line begins.
        size: (height, width) of the sheet in pixels; characters have to lie inside.
    """
    ink = np.zeros((size[0] + CELL_HEIGHT_PX, size[1] + CELL_WIDTH_PX), dtype=np.int64)
    owners = np.zeros_like(ink)
    owner_of = {
        (span.row, span.column + place): number
        for number, span in enumerate(page.spans.values(), 1)
        for place in range(len(span.text))
    }
    for row, line in enumerate(page.lines):
        for column, character in enumerate(line):
            if character != " ":
                glyph = face.glyphs[character]
                top, left = top_px + CELL_HEIGHT_PX * row, left_px[row] + CELL_WIDTH_PX * column
                place = np.s_[top : top + glyph.shape[0], left : left + glyph.shape[1]]
                ink[place] |= glyph
                owners[place] = np.where(glyph, owner_of.get((row, column), 0), owners[place])
    return Sheet(coverage=FULL * ink[: size[0], : size[1]], owners=owners[: size[0], : size[1]])


def write_on_grid(page: Page, face: Face, look: Look) -> Sheet:
    """Write a page on its grid of cells, shifted as its look says (less where the face fills its cells)."""
    shift_x_px = min(look.shift_x_px, CELL_WIDTH_PX - face.width_px)
    return write(
        page,
        face,
        left_px=(shift_x_px,) * len(page.lines),
        top_px=CELL_HEIGHT_PX * look.first_row + look.shift_y_px,
        size=(page.height_px, page.width_px),
    )


def print_on_paper(sheet: Sheet, look: Look) -> NDArray[np.int64]:
    """Return the pixels of a sheet, from 0 (black) to 255. Shape: (height, width)."""
    mixed: NDArray[np.int64] = look.paper * (FULL - sheet.coverage) + look.ink * sheet.coverage
    return (mixed + FULL // 2) // FULL


def add_clean_noise(pixels: NDArray[np.int64], rng: random.Random) -> Grey:
    """Add the normal noise of the clean pages, in the exact draws that their model was trained on."""
    noise_rng = np.random.default_rng(rng.getrandbits(32))
    noise = noise_rng.normal(0, rng.choice((0, 2, 5, 8)), pixels.shape)
    return np.clip(pixels + noise, 0, 255).astype(np.uint8)


def add_noise(pixels: NDArray[np.int64], rng: random.Random, *, deviation: int) -> Grey:
    """Add bell-shaped noise of a standard deviation in grey values: the sum of four bytes for every pixel."""
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
    least = np.full((len(page.spans) + 1, 2), max(sheet.owners.shape))
    most = np.full_like(least, -1)
    for axis, places in enumerate((columns, rows)):
        np.minimum.at(least[:, axis], owners, places)
        np.maximum.at(most[:, axis], owners, places)
    if (most[1:] < 0).any():
        raise ValueError("A value of the page has no ink.")
    corners = np.concatenate([least, most + 1], axis=1).tolist()
    return {
        name: (left, top, right, bottom)
        for name, (left, top, right, bottom) in zip(page.spans, corners[1:], strict=True)
    }


def encode(pixels: Grey) -> bytes:
    """Return grey pixels as a PNG."""
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "PNG")
    return encoded.getvalue()
