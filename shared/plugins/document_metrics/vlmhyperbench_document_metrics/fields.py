"""The fields of two JSON documents: count them, match them, and count the right ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union, cast

import numpy as np

from vlmhyperbench_document_metrics.indexes import having, spans
from vlmhyperbench_document_metrics.matching import match
from vlmhyperbench_document_metrics.rules import Scalar, is_right, read_scalar, right_pairs
from vlmhyperbench_document_metrics.texts import FloatArray
from vlmhyperbench_document_metrics.work import Work
from vlmhyperbench_sdk.types import JsonValue

RECOGNISED_PERCENT = 85

_MORE_RIGHT = 1e-9
"""Weight by which, of two matchings with the same sum of F1, the one with more right fields is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """A JSON object without members that contain no field."""

    members: Mapping[str, Node]
    size: int
    """Fields inside of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A JSON list without items that contain no field."""

    items: Sequence[Node]
    size: int
    """Fields inside of it."""


Node = Union[Scalar, Object, Items]


@dataclass(slots=True, kw_only=True)
class Tally:
    """The counts of a comparison."""

    right: Counter[str] = field(default_factory=Counter)
    """Right fields by path; list indices are written `[]`."""
    expected: Counter[str] = field(default_factory=Counter)
    """Fields of the reference by path."""
    predicted: int = 0
    """Fields of the answer."""
    lists: int = 0
    """Number of item lists of the reference: lists that contain an object, or nothing."""
    items_expected: int = 0
    items_predicted: int = 0
    items_recognised: int = 0
    items_smaller: int = 0
    """Sum over the item lists of the smaller number of items, the reference's or the answer's."""
    items_larger: int = 0


def read_fields(value: JsonValue) -> Node | None:
    """Prepare a document for comparison; None for null and blank text, which are no fields."""
    if isinstance(value, dict):
        members = {key: node for key, item in value.items() if (node := read_fields(item)) is not None}
        return Object(members=members, size=sum(map(size_of, members.values())))
    if isinstance(value, list):
        items = [node for item in value if (node := read_fields(item)) is not None and size_of(node)]
        return Items(items=items, size=sum(map(size_of, items)))
    return None if value is None else read_scalar(cast("str", value))


def size_of(node: Node) -> int:
    """Count the fields of a node."""
    return 1 if isinstance(node, Scalar) else node.size


def compare_fields(reference: JsonValue, answer: JsonValue, rule: str) -> Tally:
    """Count right fields and recognised items of an answer; null has no fields.

    Objects are compared key by key. The items of every list are matched so that the sum of their F1 is highest; an item
    without any right field is not matched.

    Raises:
        TooLarge: it would take more work than is allowed.
    """
    true, predicted = read_fields(reference), read_fields(answer)
    tally = Tally(predicted=0 if predicted is None else size_of(predicted))
    if true is not None:
        _Comparison(rule, tally).visit(true, predicted, "")
    return tally


class _Comparison:
    def __init__(self, rule: str, tally: Tally) -> None:
        self._rule = rule
        self._tally = tally
        self._work = Work()

    def visit(self, true: Node, predicted: Node | None, path: str) -> None:
        """Count the fields of a node of the reference against the matching node of the answer."""
        if isinstance(true, Scalar):
            self._tally.expected[path] += 1
            if isinstance(predicted, Scalar) and is_right(self._rule, true, predicted, self._work):
                self._tally.right[path] += 1
        elif isinstance(true, Object):
            members = predicted.members if isinstance(predicted, Object) else {}
            for key, node in true.members.items():
                self.visit(node, members.get(key), f"{path}.{key}" if path else key)
        else:
            self._visit_items(true.items, predicted.items if isinstance(predicted, Items) else [], f"{path}[]")

    def _visit_items(self, true: Sequence[Node], predicted: Sequence[Node], path: str) -> None:
        right = self._right(true, predicted)
        matched = match(_weights(true, predicted, right))
        pairs = zip(*(side.tolist() for side in matched), strict=True)
        partners = {row: column for row, column in pairs if right[row, column] > 0}
        if not true or any(isinstance(item, Object) for item in true):
            recognised = sum(
                200 * right[row, column] >= RECOGNISED_PERCENT * (size_of(true[row]) + size_of(predicted[column]))
                for row, column in partners.items()
            )
            self._count_items(len(true), len(predicted), int(recognised))
        for row, item in enumerate(true):
            self.visit(item, predicted[partners[row]] if row in partners else None, path)

    def _count_items(self, expected: int, predicted: int, recognised: int) -> None:
        self._tally.lists += 1
        self._tally.items_expected += expected
        self._tally.items_predicted += predicted
        self._tally.items_recognised += recognised
        self._tally.items_smaller += min(expected, predicted)
        self._tally.items_larger += max(expected, predicted)

    def _right(self, true: Sequence[Node], predicted: Sequence[Node]) -> FloatArray:
        """Count the right fields of every pair of nodes. Shape: (true, predicted)."""
        self._work.count_pairs(len(true) * len(predicted))
        right = np.zeros((len(true), len(predicted)))
        for kind in (Scalar, Object, Items):
            rows = [row for row, node in enumerate(true) if isinstance(node, kind)]
            columns = [column for column, node in enumerate(predicted) if isinstance(node, kind)]
            own, other = [true[row] for row in rows], [predicted[column] for column in columns]
            cells = np.ix_(rows, columns)
            if not rows or not columns:
                continue
            if kind is Scalar:
                right[cells] = right_pairs(self._rule, *cast("_Scalars", (own, other)), self._work)
            elif kind is Object:
                right[cells] = self._right_of_objects(*cast("_Objects", (own, other)))
            else:
                right[cells] = self._right_of_lists(*cast("_Lists", (own, other)))
        return right

    def _right_of_objects(self, true: Sequence[Object], predicted: Sequence[Object]) -> FloatArray:
        right = np.zeros((len(true), len(predicted)))
        rows, columns = (having([row.members for row in side]) for side in (true, predicted))
        for key in filter(columns.__contains__, rows):
            own = [true[row].members[key] for row in rows[key]]
            other = [predicted[column].members[key] for column in columns[key]]
            right[np.ix_(rows[key], columns[key])] += self._right(own, other)
        return right

    def _right_of_lists(self, true: Sequence[Items], predicted: Sequence[Items]) -> FloatArray:
        self._work.count_lists(len(true) * len(predicted))
        own, other = (
            [item for array in true for item in array.items],
            [item for array in predicted for item in array.items],
        )
        right = self._right(own, other)
        weights = _weights(own, other, right)
        total = np.zeros((len(true), len(predicted)))
        for row, rows in enumerate(spans(len(array.items) for array in true)):
            for column, columns in enumerate(spans(len(array.items) for array in predicted)):
                matched = match(weights[rows, columns])
                total[row, column] = right[rows, columns][matched].sum()
        return total


_Scalars = tuple[list[Scalar], list[Scalar]]
_Objects = tuple[list[Object], list[Object]]
_Lists = tuple[list[Items], list[Items]]


def _weights(true: Sequence[Node], predicted: Sequence[Node], right: FloatArray) -> FloatArray:
    """Return the F1 of every pair of items, slightly higher for more right fields. Shape: (true, predicted)."""
    sizes = np.add.outer([size_of(node) for node in true], [size_of(node) for node in predicted])
    weights: FloatArray = 2.0 * right / sizes + _MORE_RIGHT * right / max(right.max(initial=0.0), 1.0)
    return weights
