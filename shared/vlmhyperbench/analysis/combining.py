"""The part of a metric that aggregation uses: from the sums of a group's statistics to the group's value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Protocol, runtime_checkable

from vlmhyperbench_sdk.protocols import MetricDescription

Combine = Callable[[Mapping[str, float]], float | None]
"""Maps sums of statistics to a value, or to None where it is undefined."""


class Combining(Protocol):
    """Part of a metric that aggregation uses."""

    @property
    def description(self) -> MetricDescription: ...

    @property
    def combine(self) -> Combine: ...


@runtime_checkable
class CombinesRows(Protocol):
    """A `Combine` that takes the sums of many groups at once, because each call of it is expensive."""

    def of_rows(self, names: Sequence[str], rows: Sequence[Sequence[float]]) -> Sequence[float | None]:
        """Return the value of each row of sums, whose columns are `names`."""
        ...


def combine_rows(combine: Combine, names: Sequence[str], columns: Sequence[Sequence[float]]) -> Sequence[float | None]:
    """Return the value of each group; each column has one statistic's sum of every group."""
    if isinstance(combine, CombinesRows):
        return combine.of_rows(names, list(zip(*columns, strict=True)))
    return list(map(combine, map(dict, map(zip, repeat(names), zip(*columns, strict=True)))))
