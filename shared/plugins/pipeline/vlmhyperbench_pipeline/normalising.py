"""Keys of votes: what equal answers have in common, by the declared type of the answer."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from vlmhyperbench_pipeline.json_votes import read_json
from vlmhyperbench_sdk.jsontext import canonical, digits

Normalise = Callable[[str], "str | None"]
"""Vote → its key; None abstains, because the vote is not of the declared type."""

NORMALISERS: Final = ("text", "exact", "number", "date", "json")

LOCALES: Final[Mapping[str, tuple[str, str]]] = {"en": (",", "."), "de": (".", ","), "fr": (" ", ","), "ch": ("'", ".")}
"""Locale → what separates thousands, and the decimal mark."""

DATE_ORDERS: Final = ("dmy", "mdy", "ymd")

_OPENING: Final = " \"'`*_([{<«“‘„¿¡"
_CLOSING: Final = " \"'`*_)]}>»”’.,;:!?…。、"
_MAX_NUMBER_CHARS: Final = 100
_DATE: Final = re.compile(r"(\d{1,4})([-./ ])(\d{1,2})\2(\d{1,4})", re.ASCII)


def normaliser(kind: str, *, locale: str, date_order: str) -> Normalise:
    """Return the function that makes the key of a vote."""
    if kind == "number":
        return _number(*LOCALES[locale])
    if kind == "date":
        return _date(date_order)
    return {"text": plain, "exact": _exact, "json": _json}[kind]


def plain(text: str) -> str | None:
    """Fold width, case and spaces, and strip quotes, brackets and sentence marks at the ends; None if it is blank.

    Signs, units and a decimal mark before a digit stay: they are part of what is answered.
    """
    if text.isascii():
        folded = text.lower()
    else:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    collapsed = " ".join(folded.split())
    stripped = collapsed.lstrip(_OPENING).rstrip(_CLOSING)
    return stripped or collapsed or None


def _exact(text: str) -> str | None:
    return text.strip() or None


def _number(thousands: str, mark: str) -> Normalise:
    group, point = re.escape(thousands), re.escape(mark)
    form = re.compile(rf"([+-]?)(\d{{1,3}}(?:{group}\d{{3}})+|\d+)(?:{point}(\d+))?", re.ASCII)

    def key(text: str) -> str | None:
        if len(text) > _MAX_NUMBER_CHARS:
            return None
        folded = (plain(text) or "").replace("−", "-").replace("’", "'")
        bare = "".join(character for character in folded if unicodedata.category(character) != "Sc").strip()
        match = form.fullmatch(bare)
        if match is None:
            return None
        return digits(Decimal(f"{match[1]}{match[2].replace(thousands, '')}.{match[3] or 0}"))

    return key


def _date(order: str) -> Normalise:
    def key(text: str) -> str | None:
        match = _DATE.fullmatch(plain(text[:_MAX_NUMBER_CHARS].replace("T", " T").split(" T")[0]) or "")
        if match is None:
            return None
        first, second, third = match[1], match[3], match[4]
        parts = (
            {"y": first, "m": second, "d": third}
            if len(first) == 4
            else dict(zip(order, (first, second, third), strict=True))
        )
        if len(parts["y"]) != 4 or max(len(parts["m"]), len(parts["d"])) > 2:
            return None  # a year of two digits may be of any century
        try:
            return datetime.date(int(parts["y"]), int(parts["m"]), int(parts["d"])).isoformat()
        except ValueError:
            return None

    return key


def _json(text: str) -> str | None:
    parsed = read_json(text)
    return canonical(parsed[0]) if parsed is not None else None
