"""The tiers of difficulty: how their pages are generated and drawn.

`clean`, `noisy`, `shifted` and `fonts` draw the same documents, so that tiers can be compared by pairs of samples;
`dense` has documents of its own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from vlmhyperbench_document_datasets.degrading import degrade
from vlmhyperbench_document_datasets.dense import compose_dense_page
from vlmhyperbench_document_datasets.drawing import (
    Box,
    Grey,
    Sheet,
    add_clean_noise,
    add_noise,
    boxes_of,
    choose_look,
    print_on_paper,
    write,
    write_on_grid,
)
from vlmhyperbench_document_datasets.faces import DEFAULT_FACE, OTHER_FACES, face
from vlmhyperbench_document_datasets.pages import CELL_HEIGHT_PX, CELL_WIDTH_PX, Page, compose_page
from vlmhyperbench_document_datasets.warping import warp

TIERS = ("clean", "noisy", "shifted", "fonts", "dense")
MAX_LINE_SHIFT_PX = CELL_WIDTH_PX // 2
"""Maximum offset of a line of a shifted page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawn page: its pixels, and the bounding box of each value."""

    pixels: Grey
    boxes: dict[str, Box]


def make_document(document: str, tier: str) -> tuple[Page, random.Random]:
    """Generate the page of a document; return it with the random generator for drawing it."""
    rng = random.Random(f"synthetic_documents/{'dense/' if tier == 'dense' else ''}{document}")  # noqa: S311 - drawn, not secret
    page = compose_dense_page(rng) if tier == "dense" else compose_page(rng)
    return page, rng


def draw(page: Page, rng: random.Random, *, document: str, tier: str) -> Drawing:
    """Draw the page of a document in its tier; `rng` is the generator that `make_document` returned.

    Raises:
        InvalidInput: the tier needs a package that is not installed.
        ValueError: there is no such tier.
    """
    look = choose_look(page, rng)
    own = random.Random(f"synthetic_documents/{tier}/draw/{document}")  # noqa: S311 - drawn, not secret
    usual = face(DEFAULT_FACE)
    match tier:
        case "clean":
            sheet = write_on_grid(page, usual, look)
            pixels = add_clean_noise(print_on_paper(sheet, look), rng)
        case "noisy":
            sheet = write_on_grid(page, usual, look)
            pixels = degrade(print_on_paper(sheet, look), own, paper=look.paper)
        case "shifted":
            sheet = warp(_write_unevenly(page, own), own, size=(page.height_px, page.width_px))
            pixels = add_noise(print_on_paper(sheet, look), own, deviation=own.randint(0, 8))
        case "fonts":
            sheet = write_on_grid(page, face(own.choice(OTHER_FACES)), look)
            pixels = add_noise(print_on_paper(sheet, look), own, deviation=own.randint(0, 8))
        case "dense":
            sheet = write_on_grid(page, usual, look)
            pixels = add_noise(print_on_paper(sheet, look), own, deviation=own.randint(0, 8))
        case _:
            raise ValueError(f"There is no tier {tier!r}.")
    return Drawing(pixels=pixels, boxes=boxes_of(page, sheet))


def _write_unevenly(page: Page, rng: random.Random) -> Sheet:
    """Set a page with every line a few pixels off the grid, on a sheet with room for it."""
    height_px = CELL_HEIGHT_PX * len(page.lines)
    lefts = tuple(rng.randint(0, MAX_LINE_SHIFT_PX) for _ in page.lines)
    return write(
        page,
        face(DEFAULT_FACE),
        left_px=lefts,
        top_px=0,
        size=(height_px, page.width_px + MAX_LINE_SHIFT_PX + CELL_WIDTH_PX),
    )
