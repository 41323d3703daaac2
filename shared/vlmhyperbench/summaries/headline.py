"""The headline of a summary: the few numbers that lists of runs show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vlmhyperbench.domain.specs import ModelTarget, RunSpec, Target
from vlmhyperbench_sdk.types import JsonObject, JsonValue

if TYPE_CHECKING:  # `target_of` is used by processes that compute nothing
    from vlmhyperbench.summaries.scores import Score
    from vlmhyperbench.summaries.summary import RunSummary


def headline_row(summary: RunSummary) -> dict[str, JsonValue]:
    """Return one flat row with the metrics by name, as the command line's comparison table shows it."""
    performance, counts = summary.performance, summary.counts
    latency, first = performance.times.get("latency_ms"), performance.times.get("ttft_user_ms")
    return {
        "run": summary.id,
        "name": summary.name,
        "target": target_of(summary.spec),
        "task": summary.spec.task,
        "state": summary.state,
        "metrics": {score.key: _cell(score) for score in summary.metrics},
        "latency_p50_ms": latency.p50 if latency else None,
        "latency_p99_ms": latency.p99 if latency else None,
        "ttft_p50_ms": first.p50 if first else None,
        "output_tokens_per_s": performance.output_tokens_per_s,
        "samples_per_s": performance.samples_per_s,
        "peak_memory_bytes": performance.peak_memory_bytes,
        "peak_memory_of": performance.peak_memory_of,
        "energy_j_per_answer": performance.resources.energy_j_per_answer if performance.resources else None,
        "cost_total": performance.cost.total,
        "cost_per_answer": performance.cost.per_answer,
        "cost_per_million_tokens": performance.cost.per_million_tokens,
        "cost_basis": performance.cost.basis,
        "cost_currency": performance.cost.currency,
        "cost_unknown": performance.cost.unknown,
        "goodput_per_s": performance.goodput.per_s if performance.goodput else None,
        "validity": performance.state,
        "samples": summary.samples,
        "requested": counts.requested,
        "ok": counts.answered,
        "model_failures": counts.model_failures,
        "infrastructure_failures": counts.infrastructure_failures,
    }


def scores_of(summary: RunSummary) -> JsonObject:
    """Return the headline as it is stored with a run: with its metrics as a list, the primary metric first."""
    row = headline_row(summary)
    row["scores"] = [{"metric": score.key, **_cell(score)} for score in summary.metrics]
    del row["metrics"]
    return row


def target_of(spec: RunSpec) -> str:
    """Name the target of a run."""
    return name_of(spec.target)


def name_of(target: Target) -> str:
    """Name a target by its model, with the quantisation if its entry states one."""
    quantization = target.quantization if isinstance(target, ModelTarget) else None
    return f"{target.served_name} ({quantization})" if quantization else target.served_name


def _cell(score: Score) -> dict[str, JsonValue]:
    return {
        "value": score.value,
        "ci_low": score.low,
        "ci_high": score.high,
        "n": score.n_scored,
        "n_without_value": score.n_unscored,
        "unscored": score.unscored,
        "invalid": score.n_invalid,
        "lower": score.lower,
        "upper": score.upper,
        "evaluation_id": score.evaluation_id,
    }
