"""Compare two JSON documents: shared keys, closeness of values, equality."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeGuard

from rapidfuzz.distance import Levenshtein

from vlmhyperbench_sdk.types import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """The similarity of an answer's document to the true one.

    A key is the path of an object's member, list positions included. A value is a path at which either document has a
    scalar, an empty object or an empty list.
    """

    expected_keys: int
    predicted_keys: int
    shared_keys: int
    score: float
    """Sum of the closeness of all values, each in [0, 1]; 0 for a value that only one document has."""
    values: int
    is_equal: bool
    """Whether the documents are the same JSON value: the order of keys is ignored, 1 equals 1.0 but not true."""


def compare(true: JsonValue, predicted: JsonValue) -> Likeness:
    """Compare an answer's document with the true one."""
    tally = _Tally()
    tally.add(true, predicted)
    return Likeness(
        expected_keys=count_keys(true),
        predicted_keys=count_keys(predicted),
        shared_keys=tally.shared_keys,
        score=tally.score,
        values=tally.values,
        is_equal=tally.equal == tally.values,
    )


def compare_with_nothing(true: JsonValue) -> Likeness:
    """Return the similarity of a missing document to the true one."""
    return Likeness(
        expected_keys=count_keys(true),
        predicted_keys=0,
        shared_keys=0,
        score=0.0,
        values=_count_values(true),
        is_equal=False,
    )


def count_keys(value: JsonValue) -> int:
    """Count the members of all objects, at any depth."""
    if isinstance(value, dict):
        return len(value) + sum(map(count_keys, value.values()))
    return sum(map(count_keys, value)) if isinstance(value, list) else 0


def closeness(true: JsonValue, predicted: JsonValue) -> float:
    """Return the closeness of two scalars or empty containers, from 0 to 1; 0 for values of different types.

    Numbers: `1 − |p − t| / max(|p|, |t|)`, at least 0, so that numbers of opposite sign have 0. Texts:
    `1 − levenshtein / longer length`. All others: 1 if they are equal.
    """
    if isinstance(true, str) and isinstance(predicted, str):
        return Levenshtein.normalized_similarity(true, predicted)
    if _is_number(true) and _is_number(predicted):
        return _nearness(true, predicted)
    return float(_is_equal(true, predicted))


class _Tally:
    """The counts of a simultaneous traversal of both documents."""

    def __init__(self) -> None:
        self.shared_keys = 0
        self.score = 0.0
        self.values = 0
        self.equal = 0

    def add(self, true: JsonValue, predicted: JsonValue) -> None:
        if _is_value(true) and _is_value(predicted):
            self.values += 1
            self.score += closeness(true, predicted)
            self.equal += _is_equal(true, predicted)
        elif _is_value(true) or _is_value(predicted):
            self._miss(true, predicted)
        elif isinstance(true, dict) and isinstance(predicted, dict):
            # In the order of the document, so that the rounding of the sum is reproducible.
            for name in true:
                if name in predicted:
                    self.shared_keys += 1
                    self.add(true[name], predicted[name])
            self._miss(*(value for name, value in true.items() if name not in predicted))
            self._miss(*(value for name, value in predicted.items() if name not in true))
        elif isinstance(true, list) and isinstance(predicted, list):
            for own, other in zip(true, predicted, strict=False):
                self.add(own, other)
            self._miss(*true[len(predicted) :], *predicted[len(true) :])
        else:
            self._miss(true, predicted)

    def _miss(self, *values: JsonValue) -> None:
        self.values += sum(map(_count_values, values))


def _is_value(value: JsonValue) -> bool:
    return not isinstance(value, (dict, list)) or not value


def _count_values(value: JsonValue) -> int:
    if isinstance(value, dict):
        return sum(map(_count_values, value.values())) or 1
    return (sum(map(_count_values, value)) or 1) if isinstance(value, list) else 1


def _is_number(value: JsonValue) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_equal(true: JsonValue, predicted: JsonValue) -> bool:
    """Compare scalars or empty containers as JSON: true is not 1."""
    if _is_number(true) and _is_number(predicted):
        return true == predicted
    return type(true) is type(predicted) and true == predicted


def _nearness(true: float, predicted: float) -> float:
    if true == predicted:
        return 1.0
    try:
        distance = abs(predicted - true) / max(abs(predicted), abs(true))
    except OverflowError:  # a whole number out of range of floats, compared with a float
        distance = float(abs(Fraction(predicted) - Fraction(true)) / max(abs(Fraction(predicted)), abs(Fraction(true))))
    return max(0.0, 1.0 - distance)
