"""Ids that are given by their first digits, as commits are: which ids begin so."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from vlmhyperbench_sdk.errors import InvalidInput

NamedKind = Literal["run", "experiment", "artifact"]
"""What has an id that people give."""

MIN_DIGITS = 4
SHOWN_DIGITS = 8
"""How many digits of an id are shown to people."""
_DIGITS = 32
_HEX = frozenset("0123456789abcdef")


def ids_from(text: str) -> tuple[UUID, UUID]:
    """Return the first and the last id that begin with these digits; dashes are passed over.

    Raises:
        InvalidInput: that is no beginning of an id, or too short a one.
    """
    digits = text.lower().replace("-", "")
    if not digits or len(digits) > _DIGITS or not _HEX.issuperset(digits):
        raise InvalidInput(f"{text[:80]!r} is no id.", cure="Copy it from `vlmhyperbench ls`; its first digits do.")
    if len(digits) < MIN_DIGITS:
        raise InvalidInput(f"{text!r} is too short for an id.", cure=f"Give at least {MIN_DIGITS} of its digits.")
    return UUID(digits.ljust(_DIGITS, "0")), UUID(digits.ljust(_DIGITS, "f"))


def short(value: UUID | str) -> str:
    """Return the first digits of an id, by which people tell it from others."""
    return str(value)[:SHOWN_DIGITS]
