"""The CSV files of a run, separated by `;`: answers, per-sample scores, aggregates.

Text that a spreadsheet would run as a formula is prefixed with an apostrophe, which `exchange.answers_csv` removes;
numbers stay numbers. A missing value is an empty cell; an empty answer is a quoted empty text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import polars

from vlmhyperbench.analysis.aggregation import describe
from vlmhyperbench.domain.aggregators import AGGREGATORS
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.summaries.answers import ROW, answers_of
from vlmhyperbench.summaries.evidence import GROUP, RunEvidence, ScoredMetric
from vlmhyperbench.summaries.scores import NO_GROUP, Score
from vlmhyperbench.summaries.summary import RunSummary

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
    "repeat",
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
_IDENTITY = SUMMARY[: SUMMARY.index("n")]
_COUNTS = ("n", "n_invalid")
_GROUPS = ("doc_class", "question_type")
BYTES_PER_MB = 1024 * 1024
_FORMULA = r"^'*[=+\-@＝＋－＠[[\p{C}\p{Z}]--\x20]]"
"""Text that a spreadsheet runs as a formula: it begins with an operator, also in full width or after invisible text.

Apostrophes before the operator belong to the text: one more is written before them, so that removing one restores it.
"""


def answers_csv(run: RunEvidence) -> bytes:
    """Return one row per request, in order."""
    offsets = {
        claim.id: claim.anchor_wall_ns - claim.anchor_monotonic_ns
        for claim in run.claims
        if claim.anchor_wall_ns is not None and claim.anchor_monotonic_ns is not None
    }
    offset = polars.col("claim_id").replace_strict(offsets, default=None, return_dtype=polars.Int64)
    started = polars.from_epoch(polars.col("sent_ns") + offset, time_unit="ns")
    rows = run.facts.select(
        id="key",
        model_answer="text",
        status="status",
        finish_reason="finish_reason",
        error=polars.when(polars.col("error") != "").then("error").otherwise("error_code"),
        attempts="tries",
        prompt_tokens="prompt_tokens",
        completion_tokens="completion_tokens",
        latency_ms=_milliseconds("latency_ns"),
        ttft_ms=_milliseconds("ttft_user_ns"),
        tpot_ms=_milliseconds("tpot_ns"),
        vram_peak_mb=_megabytes(run.facts, polars.col("vram_peak_bytes")),
        vram_delta_mb=_megabytes(run.facts, polars.col("vram_peak_bytes") - polars.col("vram_before_bytes")),
        prompt_sha256=_prompt_hashes(run.facts),
        started_at=started.dt.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00"),
        repeat="repeat",
    )
    return _write(ANSWERS, rows)


def metrics_detailed_csv(run: RunEvidence) -> bytes:
    """Return one row per request and field, in order, with every metric's value."""
    metrics = [scored.key for scored in run.scored]
    header = ("id", *_GROUPS, "field_name", *metrics, "structural_valid", "metric_errors")
    if not metrics:
        return _write(header, polars.DataFrame())
    key = [*ROW, "field"]
    parts = [_detail(scored, no).unique(key, keep="last") for no, scored in enumerate(run.scored)]
    groups = (polars.col(GROUP + name) if GROUP + name in run.facts.columns else None for name in _GROUPS)
    samples = run.facts.select(*ROW, "key", **dict(zip(_GROUPS, groups, strict=True)))
    rows = polars.concat([part.select(key) for part in parts]).unique().join(samples, on=list(ROW)).sort(key)
    for part in parts:
        rows = rows.join(part, on=key, how="left", maintain_order="left")
    columns = rows.select(
        "key",
        *_GROUPS,
        "field",
        *(f"value {no}" for no in range(len(parts))),
        structural_valid=None,
        metric_errors=polars.concat_str(
            [f"reason {no}" for no in range(len(parts))], separator="; ", ignore_nulls=True
        ),
    )
    return _write(header, columns.with_columns(polars.col("field", "metric_errors").replace("", None)))


def metrics_summary_csv(runs: Sequence[ReportedRun], *, is_named: bool = False) -> bytes:
    """Return a row for each aggregate, group and metric; `is_named` adds a first column with the run's name.

    `n` counts the answers that have a value, `n_invalid` those that could not be read. The denominators of the report
    say why the others have no value.
    """
    frames = [
        frame.select(polars.lit(run.name).alias("run"), *SUMMARY) if is_named else frame.select(*SUMMARY)
        for run in runs
        for scored in run.evidence.scored
        for frame in (_groups(run.summary, scored.key), _by_id(run.evidence, scored))
    ]
    return _write(("run", *SUMMARY) if is_named else SUMMARY, polars.concat(frames) if frames else polars.DataFrame())


def _detail(scored: ScoredMetric, no: int) -> polars.DataFrame:
    reason = polars.format("{}: {}", polars.lit(scored.key), "reason")
    return scored.measures.select(
        *ROW,
        polars.col("field").fill_null(""),
        polars.col("value").alias(f"value {no}"),
        polars.when(polars.col("reason") != "").then(reason).alias(f"reason {no}"),
    )


def _groups(summary: RunSummary, key: str) -> polars.DataFrame:
    """Return scores with an interval: over all answers, by groups and by fields."""
    crossed = {crossing.columns: crossing.scores for crossing in summary.crossings}
    usual = {
        "general": summary.metrics,
        "by_doc_type": summary.groups.get("doc_class", ()),
        "by_doc_question": crossed.get(("doc_class", "question_type"), ()),
        "by_field": summary.fields,
    }
    rows = [_row(name, score) for name, scores in usual.items() for score in scores if score.key == key]
    schema = {
        **dict.fromkeys(_IDENTITY, polars.String),
        **dict.fromkeys(_COUNTS, polars.Int64),
        **dict.fromkeys(SUMMARY[len(_IDENTITY) + len(_COUNTS) :], polars.Float64),
    }
    return polars.DataFrame(rows, schema=schema, orient="row")


def _row(aggregator: str, score: Score) -> tuple[str | int | float | None, ...]:
    return (
        aggregator,
        " ".join(AGGREGATORS[aggregator]),
        " ".join("" if value == NO_GROUP else value for value in score.group),
        score.metric,
        score.profile,
        score.version,
        score.n_scored,
        score.n_invalid,
        score.value,
        score.mean,
        score.median,
        score.p95,
        score.p99,
        score.minimum,
        score.maximum,
        score.low,
        score.high,
    )


def _by_id(run: RunEvidence, scored: ScoredMetric) -> polars.DataFrame:
    """Return plain numbers over the repeats of each sample; a single sample has no interval."""
    none = polars.lit(None, dtype=polars.Float64)
    return describe(answers_of(run, scored), group_by=["key"]).select(
        aggregator=polars.lit("by_id"),
        group_key=polars.lit("id"),
        group_value="key",
        metric=polars.lit(scored.spec.name),
        profile=polars.lit(scored.spec.profile),
        version=polars.lit(scored.spec.version),
        n=polars.col("n_scored").cast(polars.Int64),
        n_invalid=polars.col("n_invalid").cast(polars.Int64),
        value="mean",
        mean="mean",
        median="median",
        p95="p95",
        p99="p99",
        min="minimum",
        max="maximum",
        ci_low=none,
        ci_high=none,
    )


def _milliseconds(column: str) -> polars.Expr:
    return (polars.col(column) / NS_PER_MS).round(6)


def _megabytes(facts: polars.DataFrame, value: polars.Expr) -> polars.Expr:
    """Write bytes in units of 1,048,576; null where the machine has no accelerator that says it."""
    is_known = "vram_peak_bytes" in facts.columns
    return (value / BYTES_PER_MB).round(3) if is_known else polars.lit(None, dtype=polars.Float64)


def _prompt_hashes(facts: polars.DataFrame) -> polars.Series:
    """Hash the prompts of each request, the system prompt first; null without a prompt."""
    parts = polars.concat_str("system_prompt", "user_prompt", separator="\n", ignore_nulls=True)
    prompts = facts.select(parts.alias("prompt"))["prompt"].to_list()
    hashes = [hashlib.sha256(prompt.encode()).hexdigest() if prompt else None for prompt in prompts]
    return polars.Series("prompt_sha256", hashes, dtype=polars.String)


def csv_rows(rows: polars.DataFrame) -> bytes:
    """Write rows without a header; text that a spreadsheet would run as a formula gets an apostrophe."""
    text = polars.col(polars.String)
    safe = rows.with_columns(polars.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text).name.keep())
    return safe.write_csv(separator=";", include_header=False).encode() if rows.width else b""


def _write(header: Sequence[str], rows: polars.DataFrame) -> bytes:
    """Write a header and rows; names of columns may be any text, because imported files name their scores."""
    names = polars.DataFrame([header], schema={str(no): polars.String for no in range(len(header))}, orient="row")
    return csv_rows(names) + csv_rows(rows)
