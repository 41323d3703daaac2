"""Small synthetic documents on a grid of 24 × 6 characters: their content and their layout.

The model of `vlmhyperbench-tiny-doc-vlm` was trained on this distribution: sizes, fields, layouts and probabilities are
part of the contract between the two packages.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from vlmhyperbench_sdk.types import JsonObject

WIDTH_PX, HEIGHT_PX = 192, 96
CELL_WIDTH_PX, CELL_HEIGHT_PX = 8, 16
COLUMNS, ROWS = WIDTH_PX // CELL_WIDTH_PX, HEIGHT_PX // CELL_HEIGHT_PX
VALUE_COLUMN = 10
"""Column of the values in a tabulated page."""

Value = Callable[[random.Random], str]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GIVEN_NAMES = _words(
    "ANNA BORIS CARLA DAVID ELENA FELIX GRETA HUGO IRINA JONAS KARIN LEO MARIA NILS OLGA PAUL ROSA STEFAN TANYA VICTOR"
)
SHOPS = _words("ALFA BETA GAMMA DELTA NOVA ORION PICO QUARK RADIX SIGMA TETRA UMBRA VEGA ZENIT")
CITIES = _words("OSLO ROME PARIS RIGA MINSK LIMA CAIRO TOKYO DELHI QUITO SOFIA BERN DUBLIN TURIN KAZAN PERM")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The position of a value in the lines: its row and its first column, both from 0."""

    row: int
    column: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A document: its class, its fields in the order of the page, and its lines of text."""

    doc_class: str
    fields: dict[str, str]
    lines: tuple[str, ...]
    spans: dict[str, Span]
    """Position of each value, by the name of its field; of a value of a table by its path, `items.0.price`."""
    items: tuple[dict[str, str], ...] = ()
    """Rows of its table, as printed: name, count, price, sum."""
    width_px: int = WIDTH_PX
    height_px: int = HEIGHT_PX
    labels: frozenset[str] = field(default_factory=frozenset)
    """Printed labels that are no fields: the columns of a table."""

    @property
    def truth(self) -> JsonObject:
        """The content of the page as an object: its class, its fields, and the rows of its table if it has one."""
        return {"kind": self.doc_class, **self.fields, **({"items": [*self.items]} if self.items else {})}


def compose_page(rng: random.Random) -> Page:
    """Choose a class, three to five of its fields, and a layout."""
    doc_class = rng.choice(sorted(FIELDS))
    fields = [(name, value(rng)) for name, value in FIELDS[doc_class].items()]
    rng.shuffle(fields)
    chosen = dict(fields[: rng.choice((3, 4, 5, 5))])
    lines = _lay_out(doc_class, chosen, rng)
    spans = {
        name: Span(row=row, column=len(lines[row]) - len(value), text=value)
        for row, (name, value) in enumerate(chosen.items(), 1)
    }
    return Page(doc_class=doc_class, fields=chosen, lines=lines, spans=spans)


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


def word(rng: random.Random) -> str:
    """Generate a pronounceable word that is on no list, so that a model must read it."""
    syllables = (rng.choice("BCDFGHJKLMNPRSTVWXZ") + rng.choice("AEIOUY") for _ in range(rng.randint(2, 3)))
    return "".join(syllables) + rng.choice(("", "N", "S", "R", "L"))


def name_of(known: tuple[str, ...]) -> Value:
    """Generate a name: a known one, or more often a word that is on no list."""
    return lambda rng: rng.choice(known) if rng.random() < 0.4 else word(rng)


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
        "client": name_of(GIVEN_NAMES),
        "date": _date,
        "due": _date,
        "total": _money,
    },
    "passport": {
        "name": name_of(GIVEN_NAMES),
        "surname": word,
        "born": _date,
        "number": _digits(7, 7),
        "city": name_of(CITIES),
    },
    "receipt": {
        "shop": name_of(SHOPS),
        "date": _date,
        "items": _count,
        "tax": _money,
        "total": _money,
    },
    "ticket": {
        "from": name_of(CITIES),
        "to": name_of(CITIES),
        "date": _date,
        "seat": _seat,
        "price": _money,
    },
}
"""Document class → field → generator of its value."""
