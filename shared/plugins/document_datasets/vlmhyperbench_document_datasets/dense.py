"""Dense pages: invoices and receipts of 192 × 192 pixels, with two columns of fields and a table whose sums add up."""

from __future__ import annotations

import random

from vlmhyperbench_document_datasets.pages import (
    CITIES,
    COLUMNS,
    FIELDS,
    SHOPS,
    Page,
    Span,
    Value,
    name_of,
    word,
)

DENSE_WIDTH_PX = DENSE_HEIGHT_PX = 192
SECOND_COLUMN = COLUMNS // 2
GOODS = ("TEA", "BREAD", "MILK", "RICE", "SOAP", "PAPER", "CABLE", "LAMP", "SALT", "APPLE", "PEN", "INK")
MAX_NAME_CHARS = 6
COUNT_END, PRICE_END, SUM_END = 9, 16, COLUMNS
"""The columns in which the numbers of the table end, exclusive."""

DENSE_FIELDS: dict[str, dict[str, Value]] = {
    "invoice": {name: FIELDS["invoice"][name] for name in ("number", "client", "date", "due")},
    "receipt": {
        "shop": name_of(SHOPS),
        "date": FIELDS["receipt"]["date"],
        "number": FIELDS["invoice"]["number"],
        "city": name_of(CITIES),
    },
}
"""Document class → field → generator of its value; subtotal, tax and total follow from the table."""


def compose_dense_page(rng: random.Random) -> Page:
    """Choose a class, four of its fields, two to five items, and whether tax is added to their sum."""
    doc_class = rng.choice(sorted(DENSE_FIELDS))
    fields = [(name, value(rng)) for name, value in DENSE_FIELDS[doc_class].items()]
    rng.shuffle(fields)
    is_taxed = rng.random() < 0.5
    items, subtotal = _items(rng, rng.randint(2, 3 if is_taxed else 5))
    totals = _totals(subtotal, rng.choice((5, 7, 10, 19, 20)) if is_taxed else None)

    lines, spans = [doc_class.upper()], dict[str, Span]()
    for left, right in ((fields[0], fields[1]), (fields[2], fields[3])):
        labels = [name.upper() + rng.choice(("", ":")) for name, _ in (left, right)]
        lines.append(labels[0].ljust(SECOND_COLUMN) + labels[1])
        for (name, text), column in ((left, 0), (right, SECOND_COLUMN)):
            spans[name] = Span(row=len(lines), column=column, text=text)
        lines.append(left[1].ljust(SECOND_COLUMN) + right[1])
    lines.append(_row("ITEM", "N", "PRICE", "SUM"))
    for number, item in enumerate(items):
        for name, end in (("count", COUNT_END), ("price", PRICE_END), ("sum", SUM_END)):
            spans[f"items.{number}.{name}"] = Span(row=len(lines), column=end - len(item[name]), text=item[name])
        spans[f"items.{number}.name"] = Span(row=len(lines), column=0, text=item["name"])
        lines.append(_row(item["name"], item["count"], item["price"], item["sum"]))
    for name, text in totals.items():
        spans[name] = Span(row=len(lines), column=COLUMNS - len(text), text=text)
        lines.append(name.upper().ljust(COLUMNS - len(text)) + text)
    return Page(
        doc_class=doc_class,
        fields={**dict(fields), **totals},
        lines=tuple(lines),
        spans=spans,
        items=tuple(items),
        width_px=DENSE_WIDTH_PX,
        height_px=DENSE_HEIGHT_PX,
        labels=frozenset(("items", "price")),
    )


def _items(rng: random.Random, count: int) -> tuple[list[dict[str, str]], int]:
    """Generate a number of items with different names; also return the sum of their prices, in cents."""
    items: dict[str, dict[str, str]] = {}
    total = 0
    while len(items) < count:
        name = rng.choice(GOODS) if rng.random() < 0.5 else word(rng)[:MAX_NAME_CHARS]
        pieces, cents = rng.randint(1, 20), rng.randint(5, 9999)
        if name not in items:
            items[name] = {
                "name": name,
                "count": str(pieces),
                "price": _money(cents),
                "sum": _money(pieces * cents),
            }
            total += pieces * cents
    return list(items.values()), total


def _totals(subtotal: int, tax_percent: int | None) -> dict[str, str]:
    if tax_percent is None:
        return {"total": _money(subtotal)}
    tax = (subtotal * tax_percent + 50) // 100
    return {"subtotal": _money(subtotal), "tax": _money(tax), "total": _money(subtotal + tax)}


def _row(name: str, count: str, price: str, total: str) -> str:
    cells = name.ljust(COUNT_END - len(count)) + count
    cells = cells.ljust(PRICE_END - len(price)) + price
    return cells.ljust(SUM_END - len(total)) + total


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"
