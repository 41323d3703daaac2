"""Draw a sheet of held-out pages with question, answer and verdict: `python -m training.sheet 0.2 SHEET.png`."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from itertools import groupby

from PIL import Image, ImageDraw, ImageFont

from training.answering import MODEL, a_model, add_options, answer
from training.held_out import Item, draw_items
from training.options import at_least_one, new_file, run
from vlmhyperbench_document_datasets.suites import DIGITS

SHOWN = ("clean", "noisy", "shifted", "fonts", "dense", "wordings", "unanswerable", "sentences", "reasons", DIGITS)
MAX_PAGES = 200
"""Fewer than the number of digits, and few enough for image viewers."""
COLUMNS = 4
CELL_PX, PAGE_PX, MARGIN_PX, TEXT_PX, LINE_PX = 400, 384, 8, 13, 16
LINE_CHARACTERS = 58
RIGHT, WRONG, PLAIN = (0, 120, 40), (190, 0, 0), (30, 30, 30)
MAX_LINES = 8


def main(arguments: list[str]) -> None:
    """Parse the command line, send the questions, and write the sheet."""
    parser = argparse.ArgumentParser(prog="python -m training.sheet", description=__doc__)
    parser.add_argument("model", type=a_model, help=MODEL)
    parser.add_argument("sheet", type=new_file, help="the PNG to be written")
    parser.add_argument("--pages", type=at_least_one, default=20, help=f"up to {MAX_PAGES} (default 20)")
    add_options(parser)
    given = parser.parse_args(arguments)
    if given.pages > MAX_PAGES:
        parser.error(f"argument --pages: {given.pages} is more than {MAX_PAGES}")
    items = choose(given.pages)
    answers = answer(given.model, items, given)
    draw_sheet(items, answers).save(given.sheet, format="PNG")
    right = sum(model_answer == item.expected for item, model_answer in zip(items, answers, strict=True))
    print(f"{right} of {len(items)} right")


def choose(pages: int) -> list[Item]:
    """Return a question about each of a number of pages, of the suites in turn, each of another document."""
    by_page = {suite: enumerate(groupby(draw_items(suite, pages), key=lambda item: item.image)) for suite in SHOWN}
    chosen: list[Item] = []
    for index in range(pages):
        suite, turn = SHOWN[index % len(SHOWN)], index // len(SHOWN)
        page = next([*asked] for number, (_, asked) in by_page[suite] if number == index)
        chosen.append(page[(index + turn) % len(page)])
    return chosen


def draw_sheet(items: Sequence[Item], answers: Sequence[str]) -> Image.Image:
    """Draw every page with its question, its answer and, if that is wrong, the right answer."""
    cells = [_draw_cell(item, model_answer) for item, model_answer in zip(items, answers, strict=True)]
    rows = [cells[start : start + COLUMNS] for start in range(0, len(cells), COLUMNS)]
    heights = [max(cell.height for cell in row) for row in rows]
    sheet = Image.new("RGB", (COLUMNS * CELL_PX, sum(heights)), "white")
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            sheet.paste(cell, (column * CELL_PX, sum(heights[:number])))
    return sheet


def _draw_cell(item: Item, model_answer: str) -> Image.Image:
    """Draw a page with its texts, as high as they need."""
    page = Image.open(io.BytesIO(item.image)).convert("RGB")
    scale = PAGE_PX // max(page.size)
    page = page.resize((page.width * scale, page.height * scale), Image.Resampling.NEAREST)
    verdict, colour = ("RIGHT", RIGHT) if model_answer == item.expected else ("WRONG", WRONG)
    texts = [(f"{item.suite}: {item.question}", PLAIN), (f"answer: {model_answer}", colour), (verdict, colour)]
    if model_answer != item.expected:
        texts.insert(2, (f"right: {item.expected}", PLAIN))
    lines = [(line, colour) for text, colour in texts for line in _wrapped(text)]
    top = page.height + 2 * MARGIN_PX
    cell = Image.new("RGB", (CELL_PX, top + LINE_PX * len(lines) + MARGIN_PX), "white")
    cell.paste(page, (MARGIN_PX, MARGIN_PX))
    pen, font = ImageDraw.Draw(cell), ImageFont.load_default(TEXT_PX)
    for number, (line, colour) in enumerate(lines):
        pen.text((MARGIN_PX, top + LINE_PX * number), line, fill=colour, font=font)
    return cell


def _wrapped(text: str) -> list[str]:
    lines = [
        line[start : start + LINE_CHARACTERS]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), LINE_CHARACTERS)
    ]
    return lines if len(lines) <= MAX_LINES else [*lines[: MAX_LINES - 1], "…"]


if __name__ == "__main__":
    sys.exit(run(main))
