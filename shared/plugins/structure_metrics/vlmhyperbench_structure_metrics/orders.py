"""Parse orders of pages, and compare orders of the same pages by rank."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_json
from vlmhyperbench_sdk.types import JsonValue

Order = tuple[str, ...]
"""Pages, first to last; a page that is a whole number is that number, however it was written."""

_SEPARATORS = ("->", "→", ",", ";")
_BRACKETS = (("[", "]"), ("(", ")"))


def read_list(text: str) -> Order | None:
    """Parse a JSON list of page numbers or labels; None if the text is none."""
    try:
        value = parse_json(text, any_text=True)
    except InvalidInput:
        return None
    if not isinstance(value, list):
        return None
    pages = [_page(item) for item in value]
    return None if None in pages else tuple(page for page in pages if page is not None)


def read_answer(text: str) -> Order | None:
    """Parse a JSON list, or only page numbers (`3, 1, 2`, `3 -> 1 -> 2`); an empty text is an order without pages.

    Numbers are separated by white space, commas, semicolons or arrows; brackets and a final full stop are allowed.
    """
    read = read_list(text)
    if read is not None:
        return read
    bare = text.strip().removesuffix(".").rstrip()
    for opening, closing in _BRACKETS:
        if bare.startswith(opening) and bare.endswith(closing):
            bare = bare[1:-1]
            break
    for separator in _SEPARATORS:
        bare = bare.replace(separator, " ")
    numbers = bare.split()
    return tuple(map(_number, numbers)) if all(map(_is_number, numbers)) else None


def is_same_pages(order: Order, true: Order) -> bool:
    """Return whether an order has exactly the pages of the true one, each once."""
    return len(order) == len(true) and set(order) == set(true)


def kendall_tau(order: Order, true: Order) -> float:
    """(concordant − discordant) / pairs, of orders of the same pages; 1 for a single page (Kendall 1938, eq. 1)."""
    ranks = _ranks(order, true)
    pairs = len(ranks) * (len(ranks) - 1) // 2
    return (pairs - 2 * _discordant(ranks)) / pairs if pairs else 1.0


def spearman_rho(order: Order, true: Order) -> float:
    """1 − 6 Σ d² / (n (n² − 1)), of orders of the same pages; 1 for a single page (Spearman 1904, without ties)."""
    ranks = _ranks(order, true)
    whole = len(ranks) * (len(ranks) ** 2 - 1)
    apart = sum((position - rank) ** 2 for position, rank in enumerate(ranks))
    return (whole - 6 * apart) / whole if whole else 1.0


def positional_accuracy(order: Order, true: Order) -> float:
    """Return pages at the right position / pages."""
    return sum(map(str.__eq__, order, true)) / len(true)


def _ranks(order: Order, true: Order) -> list[int]:
    rank_of = {page: rank for rank, page in enumerate(true)}
    return [rank_of[page] for page in order]


def _discordant(ranks: Sequence[int]) -> int:
    """Count the pairs in the wrong order."""
    before: list[int] = []
    count = 0
    for rank in ranks:
        count += len(before) - bisect_left(before, rank)
        insort(before, rank)
    return count


def _page(item: JsonValue) -> str | None:
    if isinstance(item, str):
        label = item.strip()
        return _number(label) if _is_number(label) else label or None
    if isinstance(item, float) and item.is_integer():
        item = int(item)
    return str(item) if isinstance(item, int) and not isinstance(item, bool) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _number(digits: str) -> str:
    return digits.lstrip("0") or "0"
