"""Ids abbreviated to their first digits, as those of commits are."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from vlmhyperbench_sdk.errors import InvalidInput

NamedKind = Literal["run", "experiment", "artifact"]
"""Kinds of things whose ids users write."""

LISTED_BY = "`vlmhyperbench ls runs`, `ls sessions` and `ls experiments` list ids."
MIN_DIGITS = 4
SHOWN_DIGITS = 8
"""Number of digits of an id that users are shown."""
_DIGITS = 32
_HEX = frozenset("0123456789abcdef")


def ids_from(text: str) -> tuple[UUID, UUID]:
    """Return the first and the last id that begin with these digits; dashes are ignored.

    Raises:
        InvalidInput: the text is not the beginning of an id, or is too short.
    """
    digits = text.lower().replace("-", "")
    if not digits or len(digits) > _DIGITS or not _HEX.issuperset(digits):
        raise InvalidInput(f"{text[:80]!r} is not an id.", cure=f"Copy its first digits. {LISTED_BY}")
    if len(digits) < MIN_DIGITS:
        raise InvalidInput(f"{text!r} is too short for an id.", cure=f"Give at least {MIN_DIGITS} digits of the id.")
    return UUID(digits.ljust(_DIGITS, "0")), UUID(digits.ljust(_DIGITS, "f"))


def short(value: UUID | str) -> str:
    """Return the first digits of an id, for display."""
    return str(value)[:SHOWN_DIGITS]
