"""Dense pages: tables whose numbers add up, and answers that agree with them."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal

from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.protocols import DatasetSource


def _pages(documents: int = 60) -> list[dict[str, str]]:
    """Return the answers of each page, by the name of their question."""
    pages: dict[str, dict[str, str]] = defaultdict(dict)
    for sample in SyntheticDocuments(DatasetSource(seed=4, params={"documents": documents, "tier": "dense"})):
        document, _, name = sample.key.rpartition("/")
        pages[document][name] = sample.references[0]
    return list(pages.values())


def _table(text: str) -> list[tuple[str, Decimal, Decimal, Decimal]]:
    """Read the table out of a page's text."""
    lines = text.splitlines()
    start = lines.index("ITEM N PRICE SUM") + 1
    rows = [line.split() for line in lines[start:]]
    return [(row[0], Decimal(row[1]), Decimal(row[2]), Decimal(row[3])) for row in rows if len(row) == 4]


def test_count_times_price_is_the_sum_of_an_item_and_sums_make_the_total() -> None:
    taxed = 0
    for page in _pages():
        table = _table(page["read"])
        assert all(count * price == total for _, count, price, total in table)
        subtotal = sum(total for *_, total in table)
        assert Decimal(page["sum"]) == subtotal
        if "tax" in page:
            assert Decimal(page["subtotal"]) == subtotal
            assert Decimal(page["total"]) == subtotal + Decimal(page["tax"])
            taxed += 1
        else:
            assert Decimal(page["total"]) == subtotal
    assert 15 < taxed < 45


def test_tax_is_a_usual_part_of_the_subtotal() -> None:
    for page in _pages():
        if "tax" in page:
            tax, subtotal = Decimal(page["tax"]), Decimal(page["subtotal"])
            assert min(abs(tax - subtotal * rate / 100) for rate in (5, 7, 10, 19, 20)) <= Decimal("0.005")


def test_the_questions_about_the_table_are_answered_by_it() -> None:
    for page in _pages():
        table = _table(page["read"])
        assert page["count"] == str(len(table))
        assert 2 <= len(table) <= 5
        assert len({name for name, *_ in table}) == len(table)
        for number, (_, count, price, total) in enumerate(table):
            assert Decimal(page[f"item-{number}-count"]) == count
            assert Decimal(page[f"item-{number}-price"]) == price
            assert Decimal(page[f"item-{number}-sum"]) == total


def test_the_json_holds_the_fields_and_the_table() -> None:
    for page in _pages():
        document = json.loads(page["json"])
        items = [(item["name"], item["count"], item["price"], item["sum"]) for item in document.pop("items")]
        assert items == [(name, *map(str, numbers)) for name, *numbers in _table(page["read"])]
        assert document.pop("kind") == page["kind"]
        assert document == {name: page[name] for name in document}
        assert {"number", "date", "total"} <= set(document)


def test_a_page_has_at_most_twelve_lines_of_at_most_twenty_four_characters() -> None:
    samples = SyntheticDocuments(DatasetSource(params={"documents": 60, "tier": "dense", "page": "text"}))
    for sample in samples:
        lines = sample.question.partition("\n\n")[0].splitlines()
        assert 8 <= len(lines) <= 12
        assert max(map(len, lines)) <= 24
