"""Draw a sheet of held-out pages with question, answer and verdict: `python -m training.sheet FOLDER SHEET.png`."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from training.answering import add_options, answer
from training.held_out import DIGITS, SEED, Item, draw_items

SUITES = ("clean", "noisy", "shifted", "fonts", "dense", "wordings", "unanswerable", "sentences", "reasons", DIGITS)
COLUMNS = 4
CELL_PX, MARGIN_PX, TEXT_PX, LINE_CHARACTERS = (400, 500), 8, 13, 58
PAGE_PX = (384, 384)
RIGHT, WRONG, PLAIN = (0, 120, 40), (190, 0, 0), (30, 30, 30)
MOST_LINES = 8


def main(arguments: list[str]) -> None:
    """Read the command line, ask, and write the sheet."""
    parser = argparse.ArgumentParser(prog="python -m training.sheet", description=__doc__)
    parser.add_argument("model", help="a folder of exported files, or http://HOST:PORT")
    parser.add_argument("sheet", type=Path, help="the PNG to be written")
    parser.add_argument("--pages", type=int, default=20)
    add_options(parser)
    given = parser.parse_args(arguments)
    items = choose(given.pages)
    answers = answer(given.model, items, given)
    draw_sheet(items, answers).save(given.sheet)
    print(f"{sum(said == item.expected for item, said in zip(items, answers, strict=True))} of {len(items)} right")


def choose(pages: int) -> list[Item]:
    """Return one question about each of so many pages: the suites in turn, every page of another document."""
    chosen: list[Item] = []
    for place in range(pages):
        suite, turn = SUITES[place % len(SUITES)], place // len(SUITES)
        by_page: dict[bytes, list[Item]] = {}
        for item in islice(draw_items(suite, place + 1, seed=SEED), 20 * (place + 1)):
            by_page.setdefault(item.image, []).append(item)
        page = [*by_page.values()][-1]
        chosen.append(page[(place + turn) % len(page)])
    return chosen


def draw_sheet(items: Sequence[Item], answers: Sequence[str]) -> Image.Image:
    """Draw every page with its question, its answer and, where that is wrong, the right one."""
    rows = -(-len(items) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * CELL_PX[0], rows * CELL_PX[1]), "white")
    for place, (item, said) in enumerate(zip(items, answers, strict=True)):
        row, column = divmod(place, COLUMNS)
        _draw_cell(sheet, (column * CELL_PX[0], row * CELL_PX[1]), item, said)
    return sheet


def _draw_cell(sheet: Image.Image, corner: tuple[int, int], item: Item, said: str) -> None:
    left, top = corner[0] + MARGIN_PX, corner[1] + MARGIN_PX
    page = Image.open(io.BytesIO(item.image)).convert("RGB")
    scale = min(PAGE_PX[0] // page.width, PAGE_PX[1] // page.height)
    page = page.resize((page.width * scale, page.height * scale), Image.Resampling.NEAREST)
    sheet.paste(page, (left, top))
    is_right = said == item.expected
    lines = [(f"{item.suite}: {item.question}", PLAIN), (f"answer: {said}", RIGHT if is_right else WRONG)]
    if not is_right:
        lines.append((f"right: {item.expected}", PLAIN))
    lines.append(("RIGHT" if is_right else "WRONG", RIGHT if is_right else WRONG))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(TEXT_PX)
    y = top + page.height + MARGIN_PX
    for text, colour in lines:
        for line in _wrapped(text):
            pen.text((left, y), line, fill=colour, font=font)
            y += TEXT_PX + 3


def _wrapped(text: str) -> list[str]:
    lines = [
        line[start : start + LINE_CHARACTERS]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), LINE_CHARACTERS)
    ]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"]


if __name__ == "__main__":
    main(sys.argv[1:])
