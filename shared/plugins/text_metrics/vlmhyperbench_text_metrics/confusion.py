"""Confusion cells: statistics named by the true and the predicted class, and the scores that follow from their sums.

A cell is `cell:<true>|<predicted>`. In a class's name `%`, `|` and all characters that are not printable are written as
`%XX` of their UTF-8 bytes, so that names are unambiguous; `__unparsed__` means an answer that names no class, and a
class with this name begins with `%5F`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote_to_bytes

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

UNPARSED = "__unparsed__"

Average = Literal["macro_f1", "micro_f1", "weighted_f1", "macro_precision", "macro_recall", "balanced_accuracy"]

_PREFIX = "cell:"
_NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScores:
    """One class of a group. A precision without predictions is 0, as in scikit-learn by default."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    """Samples of this class."""
    predicted: int
    """Samples that were predicted as this class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """The confusion matrix of a group; its classes are the true classes of the group."""

    labels: tuple[str, ...]
    """The sorted classes of the rows, and of all columns except the last."""
    counts: tuple[tuple[int, ...], ...]
    """Samples by true class and prediction; the last column is `__unparsed__`. Shape: (classes, classes + 1)."""
    classes: tuple[ClassScores, ...]
    """Shape: (classes,)."""


def cell_name(true: str, predicted: str | None) -> str:
    """Return the name of a cell's statistic; a prediction of None names no class."""
    return f"{_PREFIX}{escaped(true)}|{UNPARSED if predicted is None else escaped(predicted)}"


def confusion_of(sums: Mapping[str, float]) -> Confusion | None:
    """Turn sums of the statistics of `classification` into a confusion matrix; None without scored samples.

    A prediction that is not a true class of the group counts as unparsed.
    """
    layout, counts = _of(sums)
    tallies = _tally(layout, counts)
    if tallies is None:
        return None
    rows = [label for label, support in zip(layout.labels, tallies.support.tolist(), strict=True) if support > 0]
    index = {label: no for no, label in enumerate(sorted(rows))}
    matrix = np.zeros((len(index), len(index) + 1), dtype=np.int64)
    for true, predicted, count in zip(layout.true.tolist(), layout.predicted.tolist(), counts.tolist(), strict=True):
        if count > 0:
            column = index.get(layout.labels[predicted], len(index)) if predicted != _NOWHERE else len(index)
            matrix[index[layout.labels[true]], column] += round(count)
    return Confusion(
        labels=tuple(index),
        counts=tuple(tuple(row) for row in matrix.tolist()),
        classes=tuple(_scores(label, matrix, no) for label, no in index.items()),
    )


def average_of(sums: Mapping[str, float], average: Average) -> float | None:
    """Combine the classes of a group into a number; None without scored samples.

    The numbers are those of scikit-learn with the group's true classes as `labels`, and 0 for 0/0.
    """
    tallies = _tally(*_of(sums))
    if tallies is None:
        return None
    is_class = tallies.support > 0
    right, support, predicted = (part[is_class] for part in (tallies.right, tallies.support, tallies.predicted))
    match average:
        case "micro_f1":
            return float(2 * right.sum() / (support.sum() + predicted.sum()))
        case "macro_precision":
            return float(np.mean(right / np.maximum(predicted, 1.0)))
        case "macro_recall" | "balanced_accuracy":
            return float(np.mean(right / support))
        case "weighted_f1":
            return float(np.sum(2 * right * support / (support + predicted)) / support.sum())
        case "macro_f1":
            return float(np.mean(2 * right / (support + predicted)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The indexes of cells among given statistics; the same for every group of a run."""

    labels: tuple[str, ...]
    """Every true class."""
    columns: tuple[int, ...]
    """Indexes of the statistics that are cells. Shape: (cells,)."""
    true: IntArray
    """Index of each cell's true class. Shape: (cells,)."""
    predicted: IntArray
    """Index of each cell's predicted class, −1 if it is no true class. Shape: (cells,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tallies:
    """Counts of each label of a layout. Each of shape (labels,)."""

    right: FloatArray
    support: FloatArray
    predicted: FloatArray


def _of(sums: Mapping[str, float]) -> tuple[_Layout, FloatArray]:
    layout = _layout(tuple(sums))
    numbers = list(sums.values())
    return layout, np.array([numbers[column] for column in layout.columns], dtype=np.float64)


@lru_cache(maxsize=16)
def _layout(names: tuple[str, ...]) -> _Layout:
    cells = [(no, *_pair(name)) for no, name in enumerate(names) if name.startswith(_PREFIX)]
    labels = tuple(dict.fromkeys(true for _, true, _ in cells))
    index = {label: no for no, label in enumerate(labels)}
    return _Layout(
        labels=labels,
        columns=tuple(no for no, _, _ in cells),
        true=np.array([index[true] for _, true, _ in cells], dtype=np.int64),
        predicted=np.array(
            [_NOWHERE if predicted is None else index.get(predicted, _NOWHERE) for _, _, predicted in cells],
            dtype=np.int64,
        ),
    )


def _tally(layout: _Layout, counts: FloatArray) -> _Tallies | None:
    size = len(layout.labels)
    if not counts.any():
        return None
    is_named = layout.predicted != _NOWHERE
    is_right = layout.predicted == layout.true
    return _Tallies(
        right=_sums(layout.true[is_right], counts[is_right], size),
        support=_sums(layout.true, counts, size),
        predicted=_sums(layout.predicted[is_named], counts[is_named], size),
    )


def _sums(indexes: IntArray, counts: FloatArray, size: int) -> FloatArray:
    return np.bincount(indexes, weights=counts, minlength=size).astype(np.float64)


def _scores(label: str, matrix: IntArray, no: int) -> ClassScores:
    right, support, predicted = int(matrix[no, no]), int(matrix[no].sum()), int(matrix[:, no].sum())
    return ClassScores(
        label=label,
        precision=right / predicted if predicted else 0.0,
        recall=right / support,
        f1=2 * right / (support + predicted),
        support=support,
        predicted=predicted,
    )


def _pair(name: str) -> tuple[str, str | None]:
    true, _, predicted = name.removeprefix(_PREFIX).partition("|")
    return _plain(true), None if predicted == UNPARSED else _plain(predicted)


def escaped(label: str) -> str:
    """Return a text as it stands in the name of a statistic."""
    if label == UNPARSED:
        return f"%5F{UNPARSED[1:]}"
    if label.isprintable() and "%" not in label and "|" not in label:
        return label
    return "".join(char if char.isprintable() and char not in "%|" else _bytes_of(char) for char in label)


def _bytes_of(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _plain(name: str) -> str:
    return unquote_to_bytes(name).decode("utf-8", "surrogatepass") if "%" in name else name
