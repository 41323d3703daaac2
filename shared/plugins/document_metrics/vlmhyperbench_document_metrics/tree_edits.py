"""Tree edit distance of two tables, computed by apted on the parts that differ."""

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
"""Limit of the work: the product of both trees' nodes in subtrees with an elder sibling, and in the tree itself."""
MAX_CHARS = 200_000
"""Maximum number of characters and tags in the differing cells of both tables."""

_ROOT = Label(tag="")
_FIRST_TAG = 0xD800
"""Tags inside cells are represented by surrogates, which no parsed table contains."""
_MAX_TAGS = 0x800


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tree:
    """A node with the number of its label and a number that is the same for equal trees."""

    label: int
    same: int
    children: Sequence[_Tree]


def edit_distance(true: TableNode, predicted: TableNode) -> float:
    """Return the minimum cost of edits between two tables, by the costs of TEDS (Zhong et al. 2020, section 5).

    Inserting or deleting a node costs 1, another tag or span 1, another content its normalised Levenshtein distance.

    Raises:
        TooLarge: it would take more work than the bounds of this module allow.
    """
    labels: dict[Label, int] = {}
    trees: dict[tuple[int, ...], int] = {}
    children = _differing(_tree(true, labels, trees), _tree(predicted, labels, trees))
    if not all(children):
        return float(sum(_size(tree) for trees_of_side in children for tree in trees_of_side))
    root = _number(_ROOT, labels)
    first, second = (_Tree(label=root, same=-1, children=trees_of_side) for trees_of_side in children)
    if _work(first) * _work(second) > MAX_SUBTREE_PAIRS:
        raise TooLarge
    named = list(labels)
    differing = sorted(_labels([first, second]))
    costs = _Costs(differing, _rename_costs([named[label] for label in differing]))
    return float(APTED(first, second, costs).compute_edit_distance())


class _Costs(Config):  # type: ignore[misc] # apted has no types
    """Costs of edits: replacing a node by its label; a deletion or an insertion costs 1."""

    def __init__(self, labels: Sequence[int], costs: FloatArray) -> None:
        self._numbers = {label: number for number, label in enumerate(labels)}
        self._costs: list[list[float]] = costs.tolist()

    def rename(self, first: _Tree, second: _Tree) -> float:
        if first.label == second.label:
            return 0.0
        return self._costs[self._numbers[first.label]][self._numbers[second.label]]


def _tree(node: TableNode, labels: dict[Label, int], trees: dict[tuple[int, ...], int]) -> _Tree:
    children = tuple(_tree(child, labels, trees) for child in node.children)
    label = _number(node.label, labels)
    same = _number((label, *(child.same for child in children)), trees)
    return _Tree(label=label, same=same, children=children)


def _number(thing: Thing, seen: dict[Thing, int]) -> int:
    """Return the number of a value; numbers follow the order of first use."""
    return seen.setdefault(thing, len(seen))


def _differing(true: _Tree, predicted: _Tree) -> tuple[Sequence[_Tree], Sequence[_Tree]]:
    """Remove equal trees at both ends, below roots with the same label; the distance does not change.

    An optimal mapping maps them to each other, because mapping their nodes elsewhere saves no deletion or insertion.
    """
    while True:
        first, second = _without_equal_start(true.children, predicted.children)
        first, second = (list(reversed(rest)) for rest in _without_equal_start(first[::-1], second[::-1]))
        if len(first) != 1 or len(second) != 1 or first[0].label != second[0].label:
            return first, second
        true, predicted = first[0], second[0]


def _without_equal_start(first: Sequence[_Tree], second: Sequence[_Tree]) -> tuple[Sequence[_Tree], Sequence[_Tree]]:
    equal = sum(1 for _ in takewhile(lambda pair: pair[0].same == pair[1].same, zip(first, second, strict=False)))
    return first[equal:], second[equal:]


def _size(tree: _Tree) -> int:
    return 1 + sum(map(_size, tree.children))


def _work(tree: _Tree) -> int:
    """Count the nodes of the subtrees that a left decomposition visits."""
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
    """Return the costs of replacing labels by each other. Shape: (labels, labels)."""
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
