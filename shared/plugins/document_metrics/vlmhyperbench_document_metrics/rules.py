"""Rules by which a field is right: three rules on scalars, after the same normaliser."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Union, cast

import numpy as np
import numpy.typing as npt

from vlmhyperbench_document_metrics.texts import FloatArray, similarities, similarity_of_two
from vlmhyperbench_document_metrics.work import Work

RULES = ("exact", "cer", "similarity")
MAX_CER_PERCENT = 15
MIN_SIMILARITY_PERCENT = 90

NORMALISER = "NFKC, casefold, white space collapsed and stripped; numbers by value, true and false as text"
FORMULAS = {
    "exact": "the texts are equal",
    "cer": f"levenshtein / reference length <= {MAX_CER_PERCENT / 100}",
    "similarity": f"1 - levenshtein / longer length >= {MIN_SIMILARITY_PERCENT / 100}",
}

BoolArray = npt.NDArray[np.bool_]

_AT_LEAST = 0.84
"""Minimum similarity that any rule accepts; lower similarities are not computed exactly."""
_MAX_NUMBER_CHARS = 400
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A value of a field: never null, never blank."""

    text: str
    """The normalised text."""
    number: Decimal | None
    """The value of a JSON number, or of a text that is written as one."""
    is_number: bool
    """Whether it is a JSON number."""


def read_scalar(value: Union[str, float, bool]) -> Scalar | None:
    """Normalise a JSON scalar; None for a blank text, which is no field."""
    if isinstance(value, bool):
        return Scalar(text="true" if value else "false", number=None, is_number=False)
    if isinstance(value, (int, float)):
        number = Decimal(repr(value))
        plain = f"{number:f}"
        return Scalar(text=plain.rstrip("0").rstrip(".") if "." in plain else plain, number=number, is_number=True)
    text = " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    written = text if len(text) <= _MAX_NUMBER_CHARS and _NUMBER.fullmatch(text) else None
    return Scalar(text=text, number=Decimal(written) if written else None, is_number=False) if text else None


def field_text(value: Union[str, float, bool, None]) -> Union[str, None]:
    """Return a field as it is compared; None for null and for a blank text, which are no fields."""
    scalar = None if value is None else read_scalar(value)
    return None if scalar is None else scalar.text


def is_right(rule: str, true: Scalar, predicted: Scalar, work: Work) -> bool:
    """Return whether a value is right.

    Raises:
        TooLarge: the texts are too long.
    """
    if true.text == predicted.text or (
        (true.is_number or predicted.is_number) and true.number == predicted.number is not None
    ):
        return True
    if rule == "exact":
        return False
    alike = similarity_of_two(true.text, predicted.text, at_least=_AT_LEAST, work=work)
    return bool(_is_close(rule, np.array([[alike]]), [true], [predicted])[0, 0])


def right_pairs(rule: str, true: Sequence[Scalar], predicted: Sequence[Scalar], work: Work) -> BoolArray:
    """Return for every pair whether it is right. Shape: (true, predicted).

    Raises:
        TooLarge: the texts are too long.
    """
    own, other = [scalar.text for scalar in true], [scalar.text for scalar in predicted]
    right = _equal(own, other)
    rows, columns = (
        [index for index, scalar in enumerate(side) if scalar.number is not None] for side in (true, predicted)
    )
    same = _equal([true[row].number for row in rows], [predicted[column].number for column in columns])
    meant = np.logical_or.outer(
        [true[row].is_number for row in rows], [predicted[column].is_number for column in columns]
    )
    right[np.ix_(rows, columns)] |= same & meant
    if rule != "exact":
        right |= _is_close(rule, similarities(own, other, at_least=_AT_LEAST, work=work), true, predicted)
    return right


def _is_close(rule: str, alike: FloatArray, true: Sequence[Scalar], predicted: Sequence[Scalar]) -> BoolArray:
    """Compare with the limit in integers, so that rounding has no influence. Shape as `alike`: (true, predicted)."""
    own, other = (np.array([len(scalar.text) for scalar in side], dtype=np.int64) for side in (true, predicted))
    longest = np.maximum.outer(own, other)
    edits = np.rint((1.0 - alike) * longest)
    if rule == "cer":
        accepted = 100 * edits <= MAX_CER_PERCENT * own[:, np.newaxis]
    else:
        accepted = 100 * (longest - edits) >= MIN_SIMILARITY_PERCENT * longest
    return accepted


def _equal(true: Sequence[Hashable], predicted: Sequence[Hashable]) -> BoolArray:
    seen: dict[Hashable, int] = {}
    own, other = (
        np.array([seen.setdefault(value, len(seen)) for value in side], dtype=np.int64) for side in (true, predicted)
    )
    return cast("BoolArray", np.equal.outer(own, other))
