"""Turn the measures of samples into the columns of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Union, overload

from vlmhyperbench_sdk.types import Measure, Measures

NO_REFERENCE = "no_reference"
TOO_LARGE = "too_large"


class SparseColumn(Sequence[float]):
    """A sparse column of a statistic that few samples of a batch have; all other values are 0."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._numbers: dict[int, float] = {}

    def put(self, index: int, number: float) -> None:
        """Set the number of the sample at `index`."""
        self._numbers[index] = number

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> list[float]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[float, list[float]]:
        if isinstance(index, slice):
            return [self._numbers.get(number, 0.0) for number in range(*index.indices(self._length))]
        return self._numbers.get(range(self._length)[index], 0.0)

    def __iter__(self) -> Iterator[float]:
        return (self._numbers.get(index, 0.0) for index in range(self._length))


def gather(measures: Sequence[Measure], names: Sequence[str]) -> Measures:
    """Turn measures into columns; `names` are columns of every batch, others exist only if a sample has them.

    Every scored sample also gets the statistic `count` = 1.
    """
    fixed = {name: [measure.statistics.get(name, 0.0) for measure in measures] for name in names}
    others: dict[str, SparseColumn] = {}
    for index, measure in enumerate(measures):
        for name, number in measure.statistics.items():
            if name not in fixed:
                others.setdefault(name, SparseColumn(len(measures))).put(index, number)
    return Measures(
        values=[measure.value for measure in measures],
        reasons=[measure.reason for measure in measures],
        statistics={**fixed, **others, "count": [float(measure.value is not None) for measure in measures]},
    )


def share(sums: Mapping[str, float], part: str) -> float | None:
    """Return the mean of a statistic over the scored samples of a group; None without scored samples."""
    count = sums.get("count", 0.0)
    return sums[part] / count if count > 0 else None
