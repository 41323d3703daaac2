"""Training pages: pages that this project's datasets draw, with the character at each part of a tile.

Documents are named `train/…`. The dataset names its own documents by whole numbers, `7/000123`, and a page depends only
on its name: no seed of the dataset can draw a page of the training. Of the handwritten digits, only the split `train`
is used.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from training.vocabulary import TOKENS_PER_TILE
from vlmhyperbench_document_datasets.digits import MAX_INK, QUESTION, SIDE, draw_ink, inks_and_labels
from vlmhyperbench_document_datasets.drawing import Box, Grey
from vlmhyperbench_document_datasets.faces import CHARACTERS
from vlmhyperbench_document_datasets.pages import Page, Span
from vlmhyperbench_document_datasets.tiers import draw, make_document

TILE_PX = 96
CLASSES = len(CHARACTERS) + 1
"""Classes of a slot: empty (0), or a character (1 and more)."""
UNKNOWN = -100
"""Class of slots without a label; losses ignore it."""
TOKEN_PX, QUARTER_PX, PER_QUARTER = 16, 8, 2
SLOTS = (TOKEN_PX // QUARTER_PX) ** 2 * PER_QUARTER
"""An image token has four quarters; the centres of at most two characters fit into each."""
TOKENS_PER_SIDE = TILE_PX // TOKEN_PX
FILTERS = (Image.Resampling.LANCZOS, Image.Resampling.BICUBIC, Image.Resampling.BILINEAR)
"""Engines use different filters for the overview, so training draws one at random."""

Labels = NDArray[np.int64]
_CLASS_OF = {character: number for number, character in enumerate(CHARACTERS, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPage:
    """A drawn page, its content (None for a digit), and the characters at its image tokens."""

    pixels: Grey
    """Shape: (height, width), each a multiple of TILE_PX."""
    page: Page | None
    characters: Labels
    """Classes of each quarter of each token, from left to right. Shape: (tiles, TOKENS_PER_TILE, SLOTS)."""
    question: str = ""
    answer: str = ""
    """Questions of a digit; those about a page come from the dataset."""


def draw_page(name: str, tier: str) -> TrainingPage:
    """Draw the page of the training document with a unique name."""
    document = f"train/{name}"
    page, rng = make_document(document, tier)
    # Every printed character is a value of its own here, so that the drawing gives the position of each.
    words = [
        [Span(row=row, column=column + offset, text=character) for offset, character in enumerate(text)]
        for row, column, text in _words(page)
    ]
    spans = {f"{span.row}.{span.column}": span for word in words for span in word}
    drawing = draw(dataclasses.replace(page, spans=spans), rng, document=document, tier=tier)
    marks = [[(drawing.boxes[f"{span.row}.{span.column}"], span.text) for span in word] for word in words]
    return TrainingPage(pixels=drawing.pixels, page=page, characters=_labels(drawing.pixels.shape, marks))


def draw_digit(rng: random.Random) -> TrainingPage:
    """Draw a digit of the split `train` on wide paper, shifted a little, thinner or thicker."""
    inks, labels = _training_digits()
    row = rng.randrange(len(labels))
    down, right = 1 + rng.choice((-1, 0, 0, 0, 1)), 1 + rng.choice((-1, 0, 0, 0, 1))
    ink = np.pad(inks[row], 1)[down : down + SIDE, right : right + SIDE]
    more = np.array(rng.choices((-2, -1, 0, 0, 1, 2), k=SIDE**2)).reshape(SIDE, SIDE)
    ink = np.where(ink > 0, np.clip(ink + more, 0, MAX_INK), 0)
    pixels = draw_ink(ink, scale=TILE_PX // SIDE, is_wide=True)
    unknown = np.full((2, TOKENS_PER_TILE, SLOTS), UNKNOWN)
    return TrainingPage(pixels=pixels, page=None, characters=unknown, question=QUESTION, answer=str(labels[row]))


@cache
def _training_digits() -> tuple[Labels, Labels]:
    """Return counts of ink and labels of the split that is not evaluated."""
    return inks_and_labels("train")


def tiles_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how many rows and columns of tiles a page of (height, width) pixels has."""
    return shape[0] // TILE_PX, shape[1] // TILE_PX


def cut_tiles(pixels: Grey, rng: random.Random) -> Grey:
    """Cut a page into its tiles, row by row, and add the overview. Shape: (tiles + 1, TILE_PX, TILE_PX)."""
    rows, columns = tiles_of(pixels.shape)
    tiles = pixels.reshape(rows, TILE_PX, columns, TILE_PX).swapaxes(1, 2).reshape(-1, TILE_PX, TILE_PX)
    small = Image.fromarray(pixels).resize((TILE_PX, TILE_PX), rng.choice(FILTERS))
    return np.concatenate([tiles, np.asarray(small)[None]])


def _words(page: Page) -> Iterator[tuple[int, int, str]]:
    for row, line in enumerate(page.lines):
        for match in re.finditer(r"\S+", line):
            yield row, match.start(), match.group()


def _labels(shape: tuple[int, ...], words: list[list[tuple[Box, str]]]) -> Labels:
    """Assign every character to the quarter of its centre; a quarter with more than two characters has no label."""
    by_quarter: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for word in words:
        # A full stop is low, so the height of a character is taken from its word.
        top, bottom = min(box[1] for box, _ in word), max(box[3] for box, _ in word)
        for (left, _, right, _), character in word:
            quarter = (top + bottom) // 2 // QUARTER_PX, (left + right) // 2 // QUARTER_PX
            by_quarter[quarter].append((left + right, _CLASS_OF[character]))
    slots = np.zeros((shape[0] // QUARTER_PX, shape[1] // QUARTER_PX, PER_QUARTER), dtype=np.int64)
    for quarter, characters in by_quarter.items():
        classes = [number for _, number in sorted(characters)]
        slots[quarter][: len(classes)] = classes if len(classes) <= PER_QUARTER else UNKNOWN
    return _by_tile(slots)


def _by_tile(slots: NDArray[np.int64]) -> Labels:
    """Order the slots of a page's quarters by tile, token, quarter."""
    side, halves = TOKENS_PER_SIDE, TOKEN_PX // QUARTER_PX
    rows, columns = (count // (side * halves) for count in slots.shape[:2])
    parted = slots.reshape(rows, side, halves, columns, side, halves, PER_QUARTER)
    return parted.transpose(0, 3, 1, 4, 2, 5, 6).reshape(rows * columns, TOKENS_PER_TILE, SLOTS)
