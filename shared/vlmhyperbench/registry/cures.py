"""Cures for each type of Pydantic error: one imperative sentence each, never empty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

from vlmhyperbench.registry.values import sentence_of

FALLBACK: Final = "Write what the documentation of this field allows."
"""For kinds that no model of ours can produce today; a test knows every kind that they do produce."""

_WHOLE: Final = "Write a whole number, without quotes."
_NUMBER: Final = "Write a number, without quotes."
_TRUTH: Final = "Write true or false, without quotes."
_ID: Final = "Write an id as lists show it, such as 1f0c8a52-9a3f-4a52-8d6e-0d9c2f6f3a11."
_INSTANT: Final = "Write an instant with its time zone, such as 2026-01-31T12:00:00Z."

_CURES: Final[Mapping[str, str | Callable[[Mapping[str, Any]], str]]] = {
    "missing": "Add it.",
    "none_required": "Leave it out.",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "Write a smaller number.",
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "Write a finite number.",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "string_type": "Write text, in quotes where it looks like something else.",
    "string_unicode": "Write text in UTF-8.",
    "string_too_short": lambda ctx: f"Write at least {_count(ctx['min_length'], 'character')}.",
    "string_too_long": lambda ctx: f"Write at most {_count(ctx['max_length'], 'character')}.",
    "string_pattern_mismatch": lambda ctx: (sentence_of(ctx["pattern"]) or ("", f"Match {ctx['pattern']}."))[1],
    "too_short": lambda ctx: f"Give at least {ctx['min_length']:,}.",
    "too_long": lambda ctx: f"Give at most {ctx['max_length']:,}.",
    "greater_than": lambda ctx: f"Write more than {ctx['gt']:g}.",
    "greater_than_equal": lambda ctx: f"Write at least {ctx['ge']:g}.",
    "less_than": lambda ctx: f"Write less than {ctx['lt']:g}.",
    "less_than_equal": lambda ctx: f"Write at most {ctx['le']:g}.",
    "literal_error": lambda ctx: f"Write {ctx['expected']}.",
    "enum": lambda ctx: f"Write {ctx['expected']}.",
    "dict_type": "Write keys and values.",
    "model_type": "Write keys and values.",
    "model_attributes_type": "Send an object of keys and values.",
    "list_type": "Write a list.",
    "tuple_type": "Write a list.",
    "invalid_key": "Use text for every key.",
    "union_tag_not_found": lambda ctx: f"Add {ctx['discriminator']}, which says what it is.",
    "union_tag_invalid": lambda ctx: f"Write {ctx['expected_tags']}.",
    "uuid_type": _ID,
    "uuid_parsing": _ID,
    "datetime_type": _INSTANT,
    "datetime_parsing": _INSTANT,
    "datetime_from_date_parsing": _INSTANT,
    "timezone_aware": _INSTANT,
    "json_invalid": "Send one JSON object.",
    "json_type": "Write JSON: text, numbers, true, false, null, lists and objects.",
    "recursion_loop": "Write the value out.",
}


def cure_of(details: ErrorDetails) -> str:
    """Return the cure of a Pydantic error; our own checks carry their cure (`domain.base.Refused`)."""
    context = details.get("ctx", {})
    own = getattr(context.get("error"), "cure", "")
    if own:
        return str(own)
    cure = _CURES.get(details["type"], FALLBACK)
    return cure if isinstance(cure, str) else cure(context)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
