"""Tree edit distance of two tables: apted computes it, on what differs between them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from apted import APTED, Config
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from vlmhyperbench_document_metrics.tables import Label, TableNode
from vlmhyperbench_document_metrics.work import TooLarge

Thing = TypeVar("Thing", bound=Hashable)
FloatArray = npt.NDArray[np.float64]

MAX_SUBTREE_PAIRS = 4_000_000
"""Bound of the work: each tree counts the nodes of its subtrees that have an elder sibling, and of itself."""
MAX_CHARS = 200_000
"""Characters and tags in the cells that differ, of both tables."""

_ROOT = Label(tag="")
_FIRST_TAG = 0xD800
"""Tags inside of cells are written as surrogates, which no table that was read holds."""
_MAX_TAGS = 0x800


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tree:
    """A node with the number of its label, and the number that equal trees share."""

    label: int
    same: int
    children: Sequence[_Tree]


def edit_distance(true: TableNode, predicted: TableNode) -> float:
    """Return the least cost of edits between two tables, by the costs of TEDS (Zhong et al. 2020, section 5).

    A node more or less costs 1, another tag or span 1, another content of a cell its normalised Levenshtein distance.

    Raises:
        TooLarge: it would take more work than the bounds of this module allow.
    """
    labels: dict[Label, int] = {}
    trees: dict[tuple[int, ...], int] = {}
    own, other = _differing(_tree(true, labels, trees), _tree(predicted, labels, trees))
    if not own or not other:
        return float(sum(map(_size, own)) + sum(map(_size, other)))
    root = _number(_ROOT, labels)
    first, second = _Tree(label=root, same=-1, children=own), _Tree(label=root, same=-1, children=other)
    if _work(first) * _work(second) > MAX_SUBTREE_PAIRS:
        raise TooLarge
    named = list(labels)
    differing = sorted(_labels([first, second]))
    costs = _Costs(differing, _rename_costs([named[label] for label in differing]))
    return float(APTED(first, second, costs).compute_edit_distance())


class _Costs(Config):  # type: ignore[misc] # apted has no types
    """What it costs to make one node the other; a deletion or an insertion costs 1."""

    def __init__(self, labels: Sequence[int], costs: FloatArray) -> None:
        self._places = {label: place for place, label in enumerate(labels)}
        self._costs: list[list[float]] = costs.tolist()

    def rename(self, one: _Tree, other: _Tree) -> float:
        if one.label == other.label:
            return 0.0
        return self._costs[self._places[one.label]][self._places[other.label]]


def _tree(node: TableNode, labels: dict[Label, int], trees: dict[tuple[int, ...], int]) -> _Tree:
    children = tuple(_tree(child, labels, trees) for child in node.children)
    label = _number(node.label, labels)
    same = _number((label, *(child.same for child in children)), trees)
    return _Tree(label=label, same=same, children=children)


def _number(thing: Thing, seen: dict[Thing, int]) -> int:
    """Number things in the order in which they are first seen."""
    return seen.setdefault(thing, len(seen))


def _differing(true: _Tree, predicted: _Tree) -> tuple[Sequence[_Tree], Sequence[_Tree]]:
    """Leave out equal trees on both ends, below roots that have the same label; the distance is that of the rest.

    Some best mapping keeps all of them: to map their nodes elsewhere saves no deletion and no insertion.
    """
    while True:
        own, other = _without_equal_start(true.children, predicted.children)
        own, other = (list(reversed(rest)) for rest in _without_equal_start(own[::-1], other[::-1]))
        if len(own) != 1 or len(other) != 1 or own[0].label != other[0].label:
            return own, other
        true, predicted = own[0], other[0]


def _without_equal_start(own: Sequence[_Tree], other: Sequence[_Tree]) -> tuple[Sequence[_Tree], Sequence[_Tree]]:
    equal = sum(1 for _ in takewhile(lambda pair: pair[0].same == pair[1].same, zip(own, other, strict=False)))
    return own[equal:], other[equal:]


def _size(tree: _Tree) -> int:
    return 1 + sum(map(_size, tree.children))


def _work(tree: _Tree) -> int:
    """Count the nodes of the subtrees that a left decomposition looks at."""
    counted = _size(tree)
    stack = [tree]
    while stack:
        children = stack.pop().children
        counted += sum(map(_size, children[1:]))
        stack.extend(children)
    return counted


def _labels(trees: Sequence[_Tree]) -> set[int]:
    return {tree.label for tree in trees}.union(*(_labels(tree.children) for tree in trees))


def _rename_costs(labels: Sequence[Label]) -> FloatArray:
    """Return what it costs to make one label another. Shape: (labels, labels)."""
    kinds: dict[Hashable, int] = {}
    tags: dict[str, int] = {}
    kind = np.array([_number((label.tag, label.colspan, label.rowspan), kinds) for label in labels])
    texts = [_written(label.content, tags) for label in labels]
    if len(tags) > _MAX_TAGS or sum(map(len, texts)) > MAX_CHARS:
        raise TooLarge
    costs = cdist(texts, texts, scorer=Levenshtein.normalized_distance, dtype=np.float64)
    return np.where(np.equal.outer(kind, kind), costs, 1.0)


def _written(content: Sequence[str], tags: dict[str, int]) -> str:
    return "".join(
        token if len(token) == 1 else chr(_FIRST_TAG + _number(token, tags) % _MAX_TAGS) for token in content
    )
