"""Check a lens against the other entries: its task, its columns and the metrics of which they are."""

from __future__ import annotations

from collections.abc import Iterator

from vlmhyperbench.domain.filters import read_filter, read_order
from vlmhyperbench.domain.run_columns import COLUMNS, is_number, is_open, metric_of
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import LensEntry
from vlmhyperbench_sdk.suggestions import did_you_mean


def check_lens(references: References, name: str) -> None:
    """Add a problem for each name that no run can have."""
    lens = references.catalogue.lenses[name]
    if lens.task is not None:
        references.find(references.catalogue.tasks, "tasks", lens.task, ("task",))
    for path, column in _columns(lens):
        if _is_known(references, column, path) and path[0] == "preferences" and not _may_be_number(column):
            references.say(path, f"{column} is no number, so neither end of it is better.", "Prefer another column.")


def _columns(lens: LensEntry) -> Iterator[tuple[Path, str]]:
    """Yield every column that a lens names, with where."""
    for key, filters in (("where", lens.where), ("constraints", lens.constraints)):
        yield from (((key, no), read_filter(text).column) for no, text in enumerate(filters))
    yield from ((("preferences", column), column) for column in lens.preferences)
    yield from ((("columns", no), column) for no, column in enumerate(lens.columns))
    yield ("order",), read_order(lens.order).column


def _is_known(references: References, column: str, path: Path) -> bool:
    metric = metric_of(column)
    if metric is not None:
        return references.find(references.catalogue.metrics, "metrics", metric.partition("@")[0], path) is not None
    if column in COLUMNS or is_open(column):
        return True
    references.say(path, f"no run has a column {column!r}.", did_you_mean(column, COLUMNS))
    return False


def _may_be_number(column: str) -> bool:
    return is_number(column) or is_open(column)
