"""Print scores, speeds and costs as the report computed them, for one run or as a table of several."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from vlmhyperbench.cli.output import say, table
from vlmhyperbench.wire.runs import Headline, MetricScore, Run

_NUMBERS: tuple[tuple[str, str, str], ...] = (
    ("latency_p50_ms", "p50 ms", ".0f"),
    ("latency_p99_ms", "p99 ms", ".0f"),
    ("ttft_p50_ms", "TTFT p50 ms", ".0f"),
    ("output_tokens_per_s", "tokens/s", ".1f"),
    ("samples_per_s", "samples/s", ".2f"),
)

_SPEEDS: tuple[tuple[str, str, str], ...] = (
    ("latency_p50_ms", "latency p50", " ms"),
    ("latency_p99_ms", "p99", " ms"),
    ("ttft_p50_ms", "TTFT p50", " ms"),
    ("samples_per_s", "answers/s", ""),
    ("output_tokens_per_s", "output tokens/s", ""),
)

_NO_MEASURES = frozenset({"invalid", "interrupted", "retuned", "partial"})


def rows_of(headline: JsonValue | None) -> list[dict[str, Any]]:
    """Return the rows of a headline, or no rows if the value is not a headline."""
    rows = headline.get("rows") if isinstance(headline, Mapping) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def score_of(run: Run) -> str | None:
    """Return the primary score of a run as the text of a cell; None without a score."""
    score = next(iter(run.headline.scores), None) if run.headline else None
    return None if score is None else f"{score.metric} {_estimate(score.value, score.ci_low, score.ci_high) or '–'}"


def print_scores(run: Run) -> None:
    """Print the results of a run: each metric with its interval and counts, failures, speeds and cost."""
    headline = run.headline
    if headline is None:
        return
    if headline.scores:
        columns = ["metric", "value", "95 % interval", "n", "without value"]
        table(columns, [_score(score) for score in headline.scores], right=columns[1:])
    failed = [
        f"{cause} failures: {count}"
        for count, cause in ((headline.model_failures, "model"), (headline.infrastructure_failures, "infrastructure"))
        if count
    ]
    if headline.requested is not None:
        say(f"answered: {headline.ok} of {headline.requested}{''.join(f', {part}' for part in failed)}")
    speeds = _speeds(headline)
    if speeds:
        reason = f" ({_void(headline.validity)}, see the report)" if headline.validity in _NO_MEASURES else ""
        say(f"speed{reason}: {', '.join(speeds)}")
    if cost := _cost(headline):
        say(cost)


def print_runs(runs: Sequence[Run]) -> None:
    """Print several runs as the comparison table of their report."""
    print_table({"rows": [_headline_row(run) for run in runs]})


def print_table(headline: JsonValue | None) -> None:
    """Print one row per run: state, answers, metrics with intervals, speeds, memory and cost.

    If the memory of some runs is that of the engine and of others that of accelerators, each value says which.
    """
    rows = rows_of(headline)
    metrics = list(dict.fromkeys(name for row in rows for name in row.get("metrics", {})))
    numbers = [part for part in _NUMBERS if any(row.get(part[0]) is not None for row in rows)]
    is_void = any(row.get("validity") in _NO_MEASURES for row in rows)
    of = {row.get("peak_memory_of") for row in rows if row.get("peak_memory_bytes") is not None}
    is_priced = any(row.get("cost_per_answer") is not None for row in rows)
    columns = [
        "run",
        "state",
        "ok",
        *metrics,
        *(["speeds"] if is_void else []),
        *(title for _, title, _ in numbers),
        *(["peak MiB"] if of else []),
        *(["cost per answer"] if is_priced else []),
    ]
    table(
        columns,
        [_row(row, metrics, numbers, is_void=is_void, of_memory=of, is_priced=is_priced) for row in rows],
        right=columns[2:],
    )


def _row(
    row: dict[str, Any],
    metrics: Sequence[str],
    numbers: Sequence[tuple[str, str, str]],
    *,
    is_void: bool,
    of_memory: Collection[str | None],
    is_priced: bool,
) -> list[str | None]:
    cells: list[str | None] = [str(row.get("name")), str(row.get("state")), f"{row.get('ok')}/{row.get('requested')}"]
    cells += [_metric(row.get("metrics", {}).get(name)) for name in metrics]
    if is_void:
        cells.append(_void(row.get("validity")))
    cells += [_number(row.get(name), form) for name, _, form in numbers]
    if of_memory:
        memory = row.get("peak_memory_bytes")
        whose = f" {row.get('peak_memory_of')}" if len(of_memory) > 1 else ""
        cells.append(None if memory is None else f"{memory / 2**20:.0f}{whose}")
    if is_priced:
        cells.append(_cost_per_answer(row))
    return cells


def _cost_per_answer(row: dict[str, Any]) -> str:
    price, validity = row.get("cost_per_answer"), row.get("validity")
    if price is None:
        return "unknown"
    void = f" {_void(validity)}" if row.get("cost_basis") == "hours" and validity in _NO_MEASURES else ""
    return f"{price:.4g} {row.get('cost_currency')}{void}"


def _metric(score: dict[str, Any] | None) -> str | None:
    if not score or score.get("value") is None:
        return None
    return _estimate(score["value"], score.get("ci_low"), score.get("ci_high"))


def _estimate(value: float | None, low: float | None, high: float | None) -> str | None:
    if value is None:
        return None
    interval = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f"{value:.3f}{interval}"


def _score(score: MetricScore) -> tuple[object, ...]:
    has_interval = score.ci_low is not None and score.ci_high is not None
    interval = f"{score.ci_low:.3f} to {score.ci_high:.3f}" if has_interval else None
    return score.metric, _number(score.value, ".3f"), interval, score.n, score.n_without_value


def _speeds(headline: Headline) -> list[str]:
    speeds = [
        f"{title} {value:{'.3g' if value < 100 else ',.0f'}}{unit}"
        for name, title, unit in _SPEEDS
        if (value := getattr(headline, name)) is not None
    ]
    if headline.peak_memory_bytes is not None:
        speeds.append(f"peak memory {headline.peak_memory_bytes / 2**20:.0f} MiB")
    return speeds


def _cost(headline: Headline) -> str | None:
    """Return the cost of a run as text; None for a report of a version that did not compute costs."""
    if headline.cost_per_answer is None:
        return f"cost: unknown ({headline.cost_unknown})" if headline.cost_unknown else None
    amounts = [(headline.cost_per_answer, "per answer"), (headline.cost_total, "in total")]
    if headline.cost_per_million_tokens is not None:
        amounts.insert(1, (headline.cost_per_million_tokens, "per million tokens"))
    is_void = headline.cost_basis == "hours" and headline.validity in _NO_MEASURES
    void = f" ({_void(headline.validity)}, see the report)" if is_void else ""
    return f"cost in {headline.cost_currency}{void}: {', '.join(f'{amount:.4g} {what}' for amount, what in amounts)}"


def _headline_row(run: Run) -> dict[str, JsonValue]:
    if run.headline is None:
        return {"name": run.name, "state": run.state, "ok": run.done - run.failed, "requested": run.total}
    row: dict[str, JsonValue] = run.headline.model_dump(mode="json", exclude={"scores"})
    metrics: JsonValue = {score.metric: score.model_dump(mode="json") for score in run.headline.scores}
    return {**row, "name": run.name, "state": run.state, "metrics": metrics}


def _void(validity: str | None) -> str | None:
    return "INVALID" if validity == "invalid" else validity


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)
