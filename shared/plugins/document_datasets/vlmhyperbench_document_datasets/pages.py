"""Small synthetic documents on a grid of 24 × 6 characters: what stands on them, how it is laid out, how it is drawn.

The distribution is the one that the model of `vlmhyperbench-tiny-doc-vlm` was trained on: sizes, font, noise, shifts
and probabilities are part of the contract between the two.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WIDTH_PX, HEIGHT_PX = 192, 96
CELL_WIDTH_PX, CELL_HEIGHT_PX = 8, 16
COLUMNS, ROWS = WIDTH_PX // CELL_WIDTH_PX, HEIGHT_PX // CELL_HEIGHT_PX
VALUE_COLUMN = 10
"""Where values stand in a tabulated page."""

Value = Callable[[random.Random], str]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GIVEN_NAMES = _words(
    "ANNA BORIS CARLA DAVID ELENA FELIX GRETA HUGO IRINA JONAS KARIN LEO MARIA NILS OLGA PAUL ROSA STEFAN TANYA VICTOR"
)
SHOPS = _words("ALFA BETA GAMMA DELTA NOVA ORION PICO QUARK RADIX SIGMA TETRA UMBRA VEGA ZENIT")
CITIES = _words("OSLO ROME PARIS RIGA MINSK LIMA CAIRO TOKYO DELHI QUITO SOFIA BERN DUBLIN TURIN KAZAN PERM")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One document: its class, its fields in the order in which they stand, and its lines of text."""

    doc_class: str
    fields: dict[str, str]
    lines: tuple[str, ...]


def compose_page(rng: random.Random) -> Page:
    """Choose a class, three to five of its fields, and a layout."""
    doc_class = rng.choice(sorted(FIELDS))
    fields = [(name, value(rng)) for name, value in FIELDS[doc_class].items()]
    rng.shuffle(fields)
    chosen = dict(fields[: rng.choice((3, 4, 5, 5))])
    return Page(doc_class=doc_class, fields=chosen, lines=_lay_out(doc_class, chosen, rng))


def draw_page(page: Page, rng: random.Random) -> bytes:
    """Draw a page as a grey PNG of 192 × 96 pixels: shifted by a few pixels, in some ink, under some noise."""
    image = Image.new("L", (WIDTH_PX, HEIGHT_PX), rng.randint(215, 255))
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default_imagefont()
    ink, shift_x, shift_y = rng.randint(0, 70), rng.randint(0, 2), rng.randint(0, 4)
    first_row = rng.randint(0, ROWS - len(page.lines))
    for row, line in enumerate(page.lines, first_row):
        for column, character in enumerate(line):
            if character != " ":
                place = (CELL_WIDTH_PX * column + shift_x, CELL_HEIGHT_PX * row + shift_y)
                pen.text(place, character, font=font, fill=ink)
    noise_rng = np.random.default_rng(rng.getrandbits(32))
    noise = noise_rng.normal(0, rng.choice((0, 2, 5, 8)), (HEIGHT_PX, WIDTH_PX))
    pixels = np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "PNG")
    return encoded.getvalue()


def _lay_out(doc_class: str, fields: dict[str, str], rng: random.Random) -> tuple[str, ...]:
    style = rng.choice(("near", "tabulated", "right"))
    title = doc_class.upper()
    lines = [title if rng.random() < 0.6 else title.center(COLUMNS).rstrip()]
    for name, value in fields.items():
        label = name.upper() + rng.choice(("", ":"))
        gap = {
            "near": 1,
            "tabulated": max(1, VALUE_COLUMN - len(label)),
            "right": COLUMNS - len(label) - len(value),
        }[style]
        lines.append(label + " " * gap + value)
    return tuple(lines)


def _word(rng: random.Random) -> str:
    """Make a pronounceable word that is on no list, so that it has to be read."""
    syllables = (rng.choice("BCDFGHJKLMNPRSTVWXZ") + rng.choice("AEIOUY") for _ in range(rng.randint(2, 3)))
    return "".join(syllables) + rng.choice(("", "N", "S", "R", "L"))


def _name_of(known: tuple[str, ...]) -> Value:
    return lambda rng: rng.choice(known) if rng.random() < 0.4 else _word(rng)


def _digits(shortest: int, longest: int) -> Value:
    return lambda rng: "".join(rng.choice("0123456789") for _ in range(rng.randint(shortest, longest)))


def _date(rng: random.Random) -> str:
    return f"{rng.randint(1, 28):02d}.{rng.randint(1, 12):02d}.{rng.randint(1940, 2029)}"


def _money(rng: random.Random) -> str:
    return f"{rng.randint(0, 9999)}.{rng.randint(0, 99):02d}"


def _count(rng: random.Random) -> str:
    return str(rng.randint(1, 99))


def _seat(rng: random.Random) -> str:
    return f"{rng.randint(1, 40)}{rng.choice('ABCDEF')}"


FIELDS: dict[str, dict[str, Value]] = {
    "invoice": {
        "number": _digits(4, 6),
        "client": _name_of(GIVEN_NAMES),
        "date": _date,
        "due": _date,
        "total": _money,
    },
    "passport": {
        "name": _name_of(GIVEN_NAMES),
        "surname": _word,
        "born": _date,
        "number": _digits(7, 7),
        "city": _name_of(CITIES),
    },
    "receipt": {
        "shop": _name_of(SHOPS),
        "date": _date,
        "items": _count,
        "tax": _money,
        "total": _money,
    },
    "ticket": {
        "from": _name_of(CITIES),
        "to": _name_of(CITIES),
        "date": _date,
        "seat": _seat,
        "price": _money,
    },
}
"""Document class → field → how its value is made up."""
