"""The sums of many groups are combined one by one, or at once where the metric can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.analysis.combining import combine_rows


class AtOnce:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, sums: Mapping[str, float]) -> float | None:
        raise AssertionError("it is asked one by one")

    def of_rows(self, names: Sequence[str], rows: Sequence[Sequence[float]]) -> list[float | None]:
        self.asked.append(len(rows))
        return [_share(dict(zip(names, row, strict=True))) for row in rows]


def _share(sums: Mapping[str, float]) -> float | None:
    return sums["right"] / sums["of"] if sums["of"] else None


def test_both_ways_give_the_same() -> None:
    columns = [[1.0, 2.0, 3.0], [2.0, 0.0, 4.0]]
    at_once = AtOnce()
    assert combine_rows(at_once, ["right", "of"], columns) == combine_rows(_share, ["right", "of"], columns)
    assert combine_rows(_share, ["right", "of"], columns) == [0.5, None, 0.75]
    assert at_once.asked == [3]
