"""Statistics of which each sample has exactly one: thousands of columns, stored as a code per sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from vlmhyperbench_sdk.types import Measure, Measures


class Column(Sequence[float]):
    """A column: 1 for the samples with its code, else 0. Shape: (samples,)."""

    def __init__(self, codes: Sequence[int], code: int) -> None:
        self._codes = codes
        self._code = code

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, index: int) -> float: ...

    @overload
    def __getitem__(self, index: slice) -> list[float]: ...

    def __getitem__(self, index: int | slice) -> float | list[float]:
        if isinstance(index, slice):
            return [float(code == self._code) for code in self._codes[index]]
        return float(self._codes[index] == self._code)

    def __iter__(self) -> Iterator[float]:
        return (float(code == self._code) for code in self._codes)


@dataclass(frozen=True, slots=True)
class OneHotMeasures(Measures):
    """Measures of samples with one of many statistics each, and `count`; a row contains only its own statistic."""

    names: Sequence[str] = ()
    """Shape: (columns,)."""
    codes: Sequence[int] = ()
    """Index of each sample's statistic in `names`, −1 if it is unscored. Shape: (samples,)."""

    def __getitem__(self, index: int) -> Measure:
        code = self.codes[index]
        return Measure(
            value=self.values[index],
            reason=self.reasons[index],
            statistics={self.names[code]: 1.0, "count": 1.0} if code >= 0 else {},
        )


def one_hot(
    values: Sequence[float | None], reasons: Sequence[str | None], names: Sequence[str | None]
) -> OneHotMeasures:
    """Make measures in which each sample has the named statistic; None if it is unscored. Shapes: (samples,)."""
    code_by_name: dict[str, int] = {}
    codes = [-1 if name is None else code_by_name.setdefault(name, len(code_by_name)) for name in names]
    is_scored = [float(code >= 0) for code in codes]
    columns: Mapping[str, Sequence[float]] = {name: Column(codes, code) for name, code in code_by_name.items()}
    return OneHotMeasures(
        values=values,
        reasons=reasons,
        statistics={**columns, "count": is_scored},
        names=list(code_by_name),
        codes=codes,
    )
