"""Rows of a result: as models, as plain dictionaries, and as a Polars table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pydantic import BaseModel, ConfigDict

from vlmhyperbench.extras import needed_for
from vlmhyperbench.wire.results import Result

if TYPE_CHECKING:
    import polars

Row = TypeVar("Row", bound=BaseModel)
_SHOWN = 10


class MetricRow(BaseModel):
    """The value of one metric for one run, over all of its answers or one group of them."""

    model_config = ConfigDict(frozen=True)

    run: str
    metric: str
    group: str | None = None
    """Value of the requested group column; None over all answers."""
    value: float | None
    ci_low: float | None
    """Bounds of the 95 % interval: `ci_low` and `ci_high`."""
    ci_high: float | None
    n: int
    """Number of answers that have a value."""
    n_without_value: int
    target: str
    task: str
    run_id: str


class Rows(Sequence[Row], Generic[Row]):
    """An immutable sequence of rows."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return self._rows[at]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        lines = [repr(row) for row in self._rows[:_SHOWN]]
        more = [f"… {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        return "\n".join([f"{len(self)} rows", *lines, *more])

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dictionary of plain values."""
        return [row.model_dump(mode="json") for row in self._rows]

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a Polars table.

        Raises:
            Unavailable: Polars is not installed.
        """
        with needed_for("to_polars()"):
            import polars
        return polars.DataFrame(self.to_dicts(), infer_schema_length=None)


class SampleRows(Rows[Result]):
    """Results of a run; their table has the group columns and one column per metric."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each sample as a flat dictionary: its fields, its groups and the values of its metrics."""
        return [_flat(row) for row in self]


def _flat(row: Result) -> dict[str, Any]:
    values = row.model_dump(mode="json", exclude={"group", "measures"})
    for name, value in row.group.items():
        values.setdefault(name, value)
    for measure in row.measures:
        if measure.field is None:
            values.setdefault(measure.metric, measure.value)
    return values
