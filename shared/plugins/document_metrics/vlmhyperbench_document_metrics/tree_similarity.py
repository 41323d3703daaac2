"""The tree definition of ANLS*: similarity and length of nested values, for all pairs of two lists at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Union, cast

import numpy as np

from vlmhyperbench_document_metrics.indexes import having, spans
from vlmhyperbench_document_metrics.matching import match
from vlmhyperbench_document_metrics.texts import FloatArray, similarities, similarity_of_two
from vlmhyperbench_document_metrics.work import Work
from vlmhyperbench_sdk.types import JsonValue

Pairs = tuple[FloatArray, FloatArray]
"""Sum of leaf similarities, and length, of every pair of values. Each of shape (true, predicted)."""

THRESHOLD = 0.5
_SHORTER, _MORE_ALIKE = 1e-9, 1e-12
"""Weights by which, of matchings with the same sum of averages, the shorter and then the more similar is chosen."""


class _Missing(Enum):
    """Value of the reference for a key that only the answer has."""

    KEY = "key"


Node = Union[JsonValue, _Missing]


def similarity(reference: JsonValue, answer: JsonValue) -> float:
    """Return ANLS* of two nested values (Peer et al. 2024, arXiv:2402.03848, section 3).

    Raises:
        TooLarge: it would take more work than is allowed.
    """
    return _average(*_Comparison().pairs([reference], [answer])).item()


class _Comparison:
    """Compares lists of reference and answer values pairwise, and counts the work."""

    def __init__(self) -> None:
        self._work = Work()

    def pairs(self, true: Sequence[Node], predicted: Sequence[Node]) -> Pairs:
        if len(true) == len(predicted) == 1 and _is_leaf(true[0]) and _is_leaf(predicted[0]):
            alike = similarity_of_two(leaf_text(true[0]), leaf_text(predicted[0]), at_least=THRESHOLD, work=self._work)
            return np.full((1, 1), alike), np.ones((1, 1))
        self._work.count_pairs(len(true) * len(predicted))
        total = np.zeros((len(true), len(predicted)))
        length = np.maximum.outer(_lengths(true), _lengths(predicted))
        nothing = [row for row, value in enumerate(true) if value is None]
        empty = [column for column, value in enumerate(predicted) if value in (None, "", [], {})]
        total[np.ix_(nothing, empty)] = 1.0
        rows, columns = _by_kind(true), _by_kind(predicted)
        for kind in filter(columns.__contains__, rows):
            cells = np.ix_(rows[kind], columns[kind])
            part = [true[row] for row in rows[kind]], [predicted[column] for column in columns[kind]]
            if kind == "leaf":
                own, other = (list(map(leaf_text, leaves)) for leaves in part)
                total[cells] = similarities(own, other, at_least=THRESHOLD, work=self._work)
            elif kind == "object":
                total[cells], length[cells] = self._objects(*cast("_Objects", part))
            else:
                total[cells], length[cells] = self._lists(*cast("_Lists", part))
        return total, length

    def _objects(self, true: Sequence[Mapping[str, JsonValue]], predicted: Sequence[Mapping[str, JsonValue]]) -> Pairs:
        """Add up the keys that either object has; a key that the answer lacks is null."""
        total, length = np.zeros((2, len(true), len(predicted)))
        rows, columns = having(true), having(predicted)
        for key in dict.fromkeys([*rows, *columns]):
            if key in rows:
                own = rows[key]
                part = self.pairs([true[row][key] for row in own], [members.get(key) for members in predicted])
                total[own] += part[0]
                length[own] += part[1]
            if key in columns and len(rows.get(key, ())) < len(true):
                self._work.count_pairs(len(true) * len(columns[key]))
                without = sorted({*range(len(true))}.difference(rows.get(key, ())))
                extra = np.maximum(_lengths([predicted[column][key] for column in columns[key]]), 1.0)
                length[np.ix_(without, columns[key])] += extra
        return total, length

    def _lists(self, true: Sequence[Sequence[JsonValue]], predicted: Sequence[Sequence[JsonValue]]) -> Pairs:
        """Match the items of every pair of lists; unmatched items add to the length."""
        self._work.count_lists(len(true) * len(predicted))
        own, other = [item for items in true for item in items], [item for items in predicted for item in items]
        alike, length = self.pairs(own, other)
        own_lengths, other_lengths = _lengths(own), _lengths(other)
        saved = np.add.outer(own_lengths, other_lengths) - length
        weight = _average(alike, length) + _SHORTER * _of_highest(saved) + _MORE_ALIKE * _of_highest(alike)
        total, lengths = np.zeros((2, len(true), len(predicted)))
        for row, rows in enumerate(spans(map(len, true))):
            for column, columns in enumerate(spans(map(len, predicted))):
                cells = rows, columns
                matched = match(weight[cells])
                total[row, column] = alike[cells][matched].sum()
                everything = own_lengths[rows].sum() + other_lengths[columns].sum()
                lengths[row, column] = everything - saved[cells][matched].sum()
        return total, lengths


_Objects = tuple[list[Mapping[str, JsonValue]], list[Mapping[str, JsonValue]]]
_Lists = tuple[list[Sequence[JsonValue]], list[Sequence[JsonValue]]]


def _average(total: FloatArray, length: FloatArray) -> FloatArray:
    """Return the similarity per leaf; 1 for two values without leaves."""
    return np.where(length > 0, np.minimum(total / np.maximum(length, 1.0), 1.0), 1.0)


def _of_highest(numbers: FloatArray) -> FloatArray:
    return cast("FloatArray", numbers / max(numbers.max(initial=0.0), 1.0))


def _lengths(values: Sequence[Node]) -> FloatArray:
    return np.fromiter(map(_length, values), dtype=np.float64, count=len(values))


def _length(value: Node) -> int:
    """Count leaves; null is a leaf."""
    if isinstance(value, dict):
        return sum(map(_length, value.values()))
    return sum(map(_length, value)) if isinstance(value, list) else 1


def _is_leaf(value: Node) -> bool:
    return isinstance(value, (str, int, float))


def leaf_text(value: Node) -> str:
    """Return a leaf as it is compared: lower case, white space collapsed and stripped."""
    return " ".join(str(value).lower().split())


def _by_kind(values: Sequence[Node]) -> Mapping[str, list[int]]:
    """Return the indexes of scalars, objects and lists; null is none of them."""
    indexes: dict[str, list[int]] = defaultdict(list)
    for index, value in enumerate(values):
        if isinstance(value, dict):
            indexes["object"].append(index)
        elif isinstance(value, list):
            indexes["list"].append(index)
        elif _is_leaf(value):
            indexes["leaf"].append(index)
    return indexes
