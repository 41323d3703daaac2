"""Print the comparison table of a report: the numbers come from its `headline`, none is made here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from vlmhyperbench.cli.output import table

_NUMBERS: tuple[tuple[str, str, str], ...] = (
    ("latency_p50_ms", "p50 ms", ".0f"),
    ("latency_p99_ms", "p99 ms", ".0f"),
    ("ttft_p50_ms", "TTFT p50 ms", ".0f"),
    ("output_tokens_per_s", "tokens/s", ".1f"),
    ("samples_per_s", "samples/s", ".2f"),
)

_NO_MEASURES = frozenset({"invalid", "interrupted", "partial"})


def rows_of(headline: JsonValue | None) -> list[dict[str, Any]]:
    """Return the rows of a headline; none where it is not one."""
    rows = headline.get("rows") if isinstance(headline, Mapping) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def print_table(headline: JsonValue | None) -> None:
    """Print one row per run: state, answers, metrics with intervals, speed, memory (and whose, where that differs)."""
    rows = rows_of(headline)
    metrics = list(dict.fromkeys(name for row in rows for name in row.get("metrics", {})))
    numbers = [part for part in _NUMBERS if any(row.get(part[0]) is not None for row in rows)]
    is_void = any(row.get("validity") in _NO_MEASURES for row in rows)
    of = {row.get("peak_memory_of") for row in rows if row.get("peak_memory_bytes") is not None}
    columns = [
        "run",
        "state",
        "ok",
        *metrics,
        *(["speeds"] if is_void else []),
        *(title for _, title, _ in numbers),
        *(["peak MiB"] if of else []),
    ]
    table(
        columns,
        [_row(row, metrics, numbers, is_void=is_void, of_memory=of) for row in rows],
        right=columns[2:],
    )


def _row(
    row: dict[str, Any],
    metrics: Sequence[str],
    numbers: Sequence[tuple[str, str, str]],
    *,
    is_void: bool,
    of_memory: Collection[str | None],
) -> list[str | None]:
    cells: list[str | None] = [str(row.get("name")), str(row.get("state")), f"{row.get('ok')}/{row.get('requested')}"]
    cells += [_metric(row.get("metrics", {}).get(name)) for name in metrics]
    if is_void:
        validity = row.get("validity")
        cells.append("INVALID" if validity == "invalid" else validity)
    cells += [_number(row.get(name), form) for name, _, form in numbers]
    if of_memory:
        memory = row.get("peak_memory_bytes")
        whose = f" {row.get('peak_memory_of')}" if len(of_memory) > 1 else ""
        cells.append(None if memory is None else f"{memory / 2**20:.0f}{whose}")
    return cells


def _metric(found: dict[str, Any] | None) -> str | None:
    if not found or found.get("value") is None:
        return None
    low, high = found.get("ci_low"), found.get("ci_high")
    interval = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f"{found['value']:.3f}{interval}"


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)
