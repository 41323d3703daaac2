"""The CSV files of a run, `;` separated: answers, measures in detail, summaries.

Text that a spreadsheet would run as a formula is prefixed with an apostrophe; numbers stay numbers.
"""

from __future__ import annotations

import csv
import hashlib
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import polars

from vlmhyperbench.analysis.quality import Summary, summarise
from vlmhyperbench.reports.answers import answers_of
from vlmhyperbench.reports.evidence import GROUP, RunEvidence, ScoredMetric
from vlmhyperbench.reports.quality import summaries_by

ANSWERS = (
    "id",
    "model_answer",
    "status",
    "finish_reason",
    "error",
    "attempts",
    "prompt_tokens",
    "completion_tokens",
    "latency_ms",
    "ttft_ms",
    "tpot_ms",
    "vram_peak_mb",
    "vram_delta_mb",
    "prompt_sha256",
    "started_at",
)
SUMMARY = (
    "aggregator",
    "group_key",
    "group_value",
    "metric",
    "profile",
    "version",
    "n",
    "n_invalid",
    "value",
    "mean",
    "median",
    "p95",
    "p99",
    "min",
    "max",
    "ci_low",
    "ci_high",
)
_AGGREGATORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("general", ()),
    ("by_doc_type", ("doc_class",)),
    ("by_doc_question", ("doc_class", "question_type")),
)
_DANGEROUS = ("=", "+", "-", "@")

Value = str | int | float | None


def answers_csv(run: RunEvidence) -> bytes:
    """Return one row per request, in order."""
    offsets = {
        claim.id: claim.anchor_wall_ns - claim.anchor_monotonic_ns
        for claim in run.claims
        if claim.anchor_wall_ns is not None and claim.anchor_monotonic_ns is not None
    }
    rows = (_answer(row, offsets) for row in run.facts.iter_rows(named=True))
    return _write(ANSWERS, rows)


def metrics_detailed_csv(run: RunEvidence) -> bytes:
    """Return one row per request and field, with every metric's value."""
    keys = [scored.key for scored in run.scored]
    values: dict[tuple[int, int, str], dict[str, tuple[float | None, str | None]]] = {}
    for scored in run.scored:
        columns = scored.measures.select("phase", "ordinal", "field", "value", "reason")
        for phase, ordinal, field, value, reason in columns.iter_rows():
            values.setdefault((phase, ordinal, field or ""), {})[scored.key] = (value, reason)
    samples = {
        (row["phase"], row["ordinal"]): (row["key"], row.get(f"{GROUP}doc_class"), row.get(f"{GROUP}question_type"))
        for row in run.facts.iter_rows(named=True)
    }
    rows: list[Sequence[Value]] = []
    for (phase, ordinal, field), measured in sorted(values.items()):
        if (phase, ordinal) not in samples:
            continue
        reasons = [f"{key}: {measured[key][1]}" for key in keys if key in measured and measured[key][1]]
        numbers = [measured[key][0] if key in measured else None for key in keys]
        rows.append((*samples[phase, ordinal], field, *numbers, None, "; ".join(reasons)))
    header = ("id", "doc_class", "question_type", "field_name", *keys, "structural_valid", "metric_errors")
    return _write(header, rows)


def metrics_summary_csv(runs: Sequence[RunEvidence], *, is_named: bool = False) -> bytes:
    """Return one row per aggregate, group and metric; `is_named` puts the run's name first, for several runs."""
    rows: list[Sequence[Value]] = []
    for run in runs:
        first = (run.name,) if is_named else ()
        rows += [(*first, *row) for scored in run.scored for row in _summaries(run, scored)]
    return _write(("run", *SUMMARY) if is_named else SUMMARY, rows)


def _summaries(run: RunEvidence, scored: ScoredMetric) -> Iterable[Sequence[Value]]:
    for aggregator, columns in _AGGREGATORS:
        if all(GROUP + column in run.facts.columns for column in columns):
            for summary in summaries_by(run, scored, columns):
                yield _summary(aggregator, columns, summary, scored)
    fields = scored.measures.filter(polars.col("field").is_not_null())
    for summary in summarise(fields, scored.metric, group_by=["field"]) if fields.height else ():
        yield _summary("by_field", ("field",), summary, scored)
    yield from _by_id(answers_of(run, scored), scored)


def _summary(aggregator: str, columns: Sequence[str], summary: Summary, scored: ScoredMetric) -> Sequence[Value]:
    return (
        aggregator,
        " ".join(columns),
        " ".join("" if value is None else str(value) for _, value in summary.group),
        scored.spec.name,
        scored.spec.profile,
        scored.spec.version,
        summary.n,
        summary.n_unscored,
        summary.value,
        summary.mean,
        summary.median,
        summary.p95,
        summary.p99,
        summary.minimum,
        summary.maximum,
        summary.ci_low,
        summary.ci_high,
    )


def _by_id(answers: polars.DataFrame, scored: ScoredMetric) -> Iterable[Sequence[Value]]:
    """One sample is no group to draw an interval from: plain numbers over its repeats."""
    grouped = answers.group_by("key", maintain_order=True).agg(polars.col("value"))
    for key, found in grouped.iter_rows():
        values = sorted(value for value in found if value is not None)
        last = values[-1] if values else None
        yield (
            "by_id",
            "id",
            key,
            scored.spec.name,
            scored.spec.profile,
            scored.spec.version,
            len(found),
            len(found) - len(values),
            *([statistics.fmean(values)] * 2 if values else [None] * 2),
            statistics.median_low(values) if values else None,
            *([last] * 2),
            values[0] if values else None,
            last,
            None,
            None,
        )


def _answer(row: Mapping[str, object], offsets: Mapping[str, int]) -> Sequence[Value]:
    sent, offset = row["sent_ns"], offsets.get(str(row["claim_id"]))
    started = sent + offset if isinstance(sent, int) and offset is not None else None
    prompt = "\n".join(str(part) for part in (row["system_prompt"], row["user_prompt"]) if part is not None)
    return (
        str(row["key"]),
        _text(row["text"]),
        _text(row["status"]),
        _text(row["finish_reason"]),
        _text(row["error"] or row["error_code"]),
        _integer(row["tries"]),
        _integer(row["prompt_tokens"]),
        _integer(row["completion_tokens"]),
        _milliseconds(row["latency_ns"]),
        _milliseconds(row["ttft_user_ns"]),
        _milliseconds(row["tpot_ns"]),
        None,
        None,
        hashlib.sha256(prompt.encode()).hexdigest() if prompt else None,
        None if started is None else datetime.fromtimestamp(started / 1e9, UTC).isoformat(timespec="milliseconds"),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _milliseconds(value: object) -> float | None:
    return round(value / 1e6, 6) if isinstance(value, int | float) else None


def _write(header: Sequence[str], rows: Iterable[Sequence[Value]]) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=";", lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_guarded(cell) for cell in row] for row in rows)
    return buffer.getvalue().encode("utf-8")


def _guarded(cell: Value) -> Value:
    """Disarm text that begins as a formula or with a control character does."""
    if isinstance(cell, str) and (cell.startswith(_DANGEROUS) or (cell[:1] and not cell[0].isprintable())):
        return f"'{cell}"
    return cell
