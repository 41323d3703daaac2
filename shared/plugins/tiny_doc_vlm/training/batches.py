"""Batches of training steps: a function of the seed and the step's number, so that a run resumes where it stopped.

All questions about a page share a row: each attends to the page and to itself, at the positions that it would have
without the others. The page's tokens, which are most of the work, are then processed once for all of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.asking import READER_PROMPT, Exchange, Habits, ask_page, exchange
from training.drawing import TrainingPage, cut_tiles, draw_digit, draw_page, tiles_of
from training.vocabulary import END, PAD, START, encode, image_tokens

NO_TARGET = -100
"""Target of tokens that are not predicted."""
DIGITS = "digits"
LONG_SHARE = 0.35
"""Share of the batches with room for the longest answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """The composition of batches."""

    tiers: dict[str, float]
    """Weights of the tiers whose pages have two tiles."""
    dense: float
    """Share of the batches with dense pages only, because all pages of a batch have the same size."""
    digits: float
    """Share of the batches with handwritten digits only, which have the shortest rows."""
    habits: Habits


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Arrays of one step; rows are pages, padded at their ends."""

    tiers: tuple[str, ...]
    """Of each row."""
    tiles: NDArray[np.uint8]
    """Shape: (rows, tiles + 1, TILE_PX, TILE_PX); the last is the overview."""
    characters: NDArray[np.int64]
    """Shape: (rows, tiles, TOKENS_PER_TILE, SLOTS)."""
    ids: NDArray[np.int64]
    """Shape: (rows, length)."""
    targets: NDArray[np.int64]
    """The token to be predicted at each position, or NO_TARGET. Shape: (rows, length)."""
    positions: NDArray[np.int64]
    """Shape: (rows, length)."""
    segments: NDArray[np.int64]
    """0 for the page, 1 and more for its questions, -1 for padding. Shape: (rows, length)."""
    kinds: tuple[tuple[str, ...], ...]
    """Of each row's questions."""


def draw_batch(mixture: Mixture, *, seed: int, step: int, rows: int, has_text: bool = True) -> Batch:
    """Draw the pages and questions of a step; dense batches have half as many rows.

    Args:
        mixture: The composition of batches.
        seed: The seed of the run.
        step: The number of the step.
        rows: The number of pages.
        has_text: Whether the step trains answers; a step that only names characters has no digits and no questions.
    """
    rng = random.Random(f"{seed}/{step}")  # noqa: S311 - drawn, not secret
    kind = rng.random()
    if kind < mixture.dense:
        tiers, budgets = ["dense"] * max(1, rows // 2), (320, 720)
    elif has_text and kind < mixture.dense + mixture.digits:
        tiers, budgets = [DIGITS] * rows, (0, 0)
    else:
        tiers, budgets = rng.choices([*mixture.tiers], weights=[*mixture.tiers.values()], k=rows), (200, 360)
    is_long = rng.random() < LONG_SHARE
    has_system_prompt = rng.random() < mixture.habits.system_prompt
    packed = []
    for number, tier in enumerate(tiers):
        page = draw_digit(rng) if tier == DIGITS else draw_page(f"{seed}/{step}/{number}", tier)
        exchanges: list[Exchange] = []
        if has_text:
            budget = budgets[is_long]
            exchanges = _ask(
                page, mixture.habits, rng, budget_tokens=budget, is_long=is_long, has_system_prompt=has_system_prompt
            )
        packed.append(_pack(page, exchanges, rng, has_system_prompt=has_system_prompt))
    length = max(len(row.ids) for row in packed)
    return Batch(
        tiers=tuple(tiers),
        tiles=np.stack([row.tiles for row in packed]),
        characters=np.stack([row.characters for row in packed]),
        ids=np.array([row.ids + [PAD] * (length - len(row.ids)) for row in packed]),
        targets=np.array([row.targets + [NO_TARGET] * (length - len(row.ids)) for row in packed]),
        positions=np.array([row.positions + [0] * (length - len(row.ids)) for row in packed]),
        segments=np.array([row.segments + [-1] * (length - len(row.ids)) for row in packed]),
        kinds=tuple(row.kinds for row in packed),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    tiles: NDArray[np.uint8]
    characters: NDArray[np.int64]
    ids: list[int]
    targets: list[int]
    positions: list[int]
    segments: list[int]
    kinds: tuple[str, ...]


def _ask(
    page: TrainingPage,
    habits: Habits,
    rng: random.Random,
    *,
    budget_tokens: int,
    is_long: bool,
    has_system_prompt: bool,
) -> list[Exchange]:
    if page.page is None:
        return [exchange(page.question, page.answer, kind=DIGITS)]
    return ask_page(
        page.page, habits, rng, budget_tokens=budget_tokens, is_long=is_long, has_system_prompt=has_system_prompt
    )


def _pack(page: TrainingPage, exchanges: list[Exchange], rng: random.Random, *, has_system_prompt: bool) -> _Row:
    before = [*encode(f"System: {READER_PROMPT}"), END, *encode("\n")] if has_system_prompt else []
    ids = [START, *before, *encode("User: "), *image_tokens(*tiles_of(page.pixels.shape))]
    targets, positions, segments = [NO_TARGET] * len(ids), [*range(len(ids))], [0] * len(ids)
    page_end = len(ids)
    for segment, asked in enumerate(exchanges, 1):
        text, wanted = _shifted(asked)
        ids += text
        targets += wanted
        positions += range(page_end, page_end + len(text))
        segments += [segment] * len(text)
    return _Row(
        tiles=cut_tiles(page.pixels, rng),
        characters=page.characters,
        ids=ids,
        targets=targets,
        positions=positions,
        segments=segments,
        kinds=tuple(exchange.kind for exchange in exchanges),
    )


def _shifted(exchange: Exchange) -> tuple[list[int], list[int]]:
    """Return the input tokens and, for each, the token that must follow; the last token is no input."""
    read = exchange.question + exchange.answer[:-1]
    return read, [NO_TARGET] * (len(exchange.question) - 1) + exchange.answer
