"""What machines read of a report: the headline row of a run, and its summaries in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from vlmhyperbench.analysis.distributions import BUCKET_RATIO
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.reports.counting import Counts
from vlmhyperbench.reports.document import Tone
from vlmhyperbench.reports.evidence import RunEvidence
from vlmhyperbench.reports.performance import Performance
from vlmhyperbench.reports.quality import Quality
from vlmhyperbench.reports.wording import public_spec, target_of
from vlmhyperbench_sdk.types import JsonObject, JsonValue


def final_state(run: RunEvidence, counts: Counts) -> str:
    """Return the state in which a run ends: a report is made while the run is still open."""
    if RunState(run.state).is_terminal:
        return run.state
    is_whole = counts.answered == counts.requested and not run.is_unjudged
    return RunState.SUCCEEDED.value if is_whole else RunState.PARTIAL.value


def tone_of(state: str) -> Tone:
    """Say how a state is coloured."""
    return "good" if state == RunState.SUCCEEDED else "neutral" if state in {"PARTIAL", "DONE"} else "bad"


def finished_at(run: RunEvidence) -> str:
    """Say when the run ended, or else its last measuring claim."""
    return run.finished_at or max((claim.ended_at for claim in run.generating), default="")


def headline_row(
    run: RunEvidence, *, counts: Counts, performance: Performance, quality: list[Quality]
) -> dict[str, JsonValue]:
    """Return one flat row: what the command line's comparison table shows."""
    latency, first = performance.times.get("latency_ms"), performance.times.get("ttft_user_ms")
    return {
        "run": run.id,
        "name": run.name,
        "target": target_of(run.spec),
        "task": run.spec.task,
        "state": final_state(run, counts),
        "metrics": {
            one.scored.key: {
                "value": one.value,
                "ci_low": one.low,
                "ci_high": one.high,
                "n": one.n,
                "n_without_value": one.summary.n_unscored,
                "unscored": one.summary.unscored,
                "invalid": one.summary.n_invalid,
                "lower": one.summary.lower,
                "upper": one.summary.upper,
                "evaluation_id": one.scored.evaluation_id,
            }
            for one in quality
        },
        "latency_p50_ms": latency.p50 if latency else None,
        "latency_p99_ms": latency.p99 if latency else None,
        "ttft_p50_ms": first.p50 if first else None,
        "output_tokens_per_s": performance.output_tokens_per_s,
        "samples_per_s": performance.samples_per_s,
        "peak_memory_bytes": performance.peak_memory_bytes,
        "peak_memory_of": performance.resources.peak_memory_of if performance.resources else None,
        "energy_j_per_answer": performance.resources.energy_j_per_answer if performance.resources else None,
        "cost_total": performance.price.total,
        "cost_per_answer": performance.price.per_answer,
        "cost_per_million_tokens": performance.price.per_million_tokens,
        "cost_currency": performance.price.currency,
        "cost_unknown": performance.price.unknown,
        "goodput_per_s": performance.goodput.per_s if performance.goodput else None,
        "validity": performance.state if performance.times else None,
        "samples": run.samples,
        "requested": counts.requested,
        "ok": counts.answered,
        "model_failures": counts.model_failures,
        "infrastructure_failures": counts.infrastructure_failures,
    }


def scores_of(row: Mapping[str, JsonValue]) -> JsonObject:
    """Return what lists of runs show of a headline row: the metrics as a list, the primary one first."""
    metrics = row["metrics"]
    assert isinstance(metrics, Mapping)  # noqa: S101 - `headline_row` makes it so
    scores = [{"metric": name, **found} for name, found in metrics.items() if isinstance(found, Mapping)]
    return {"scores": scores, **{name: value for name, value in row.items() if name != "metrics"}}


def run_data(
    run: RunEvidence,
    *,
    counts: Counts,
    performance: Performance,
    quality: list[Quality],
    by_group: Mapping[str, list[Quality]],
) -> JsonObject:
    """Return everything that was summarised of a run."""
    return {
        "name": run.name,
        "spec": public_spec(run.spec).model_dump(mode="json"),
        "spec_digest": run.spec_digest,
        "judges": [use.as_json() for use in run.judged],
        "stopping": run.stopping,
        "is_stopped": run.is_stopped,
        "parent_run_id": run.parent_run_id,
        "manifest_id": run.manifest_id,
        "platform_version": run.platform_version,
        "counts": {**asdict(counts), "truncation_rate": counts.truncation_rate},
        "performance": {
            "window_s": performance.window_s,
            "samples_per_s": performance.samples_per_s,
            "output_tokens_per_s": performance.output_tokens_per_s,
            "output_tokens": performance.output_tokens,
            "token_sources": list(performance.token_sources),
            "parts": performance.parts,
            "is_interrupted": performance.is_interrupted,
            "is_partial": performance.is_partial,
            "peak_memory_bytes": performance.peak_memory_bytes,
            "resources": performance.resources.as_json() if performance.resources else None,
            "times": {name: asdict(times) for name, times in performance.times.items()},
            "percentiles": {name: [asdict(one) for one in found] for name, found in performance.percentiles.items()},
            "gaps_ms": _gaps(performance),
            "goodput": asdict(performance.goodput) if performance.goodput else None,
            "slo": [asdict(one) for one in performance.limits],
            "validity": performance.validity.as_json() if performance.times else None,
            "cost": performance.price.as_json(),
            "harness": performance.cost.as_json() if performance.cost else None,
        },
        "metrics": [_summary(one) for one in quality],
        "groups": {column: [_summary(one) for one in rows] for column, rows in by_group.items()},
        "phases": [
            {"no": phase.no, "kind": phase.kind, "state": phase.state, "count": phase.count} for phase in run.phases
        ],
        "claims": [
            {
                "id": claim.id,
                "job": claim.job,
                "host": claim.host,
                "machine": claim.machine,
                "engine": claim.engine,
                "packages": claim.packages,
                "client": claim.client,
                "resources": claim.resources,
                "measured_at": claim.measured_at,
                "started_at": claim.started_at,
                "ended_at": claim.ended_at,
            }
            for claim in run.claims
        ],
    }


def _gaps(performance: Performance) -> JsonObject | None:
    """Percentiles of the gaps between tokens, within half a bucket."""
    gaps = performance.gaps
    if gaps is None:
        return None
    percentiles = {f"p{percent}": gaps.percentile(percent) for percent in (50, 90, 99)}
    return {"n": gaps.n, **percentiles, "max": gaps.percentile(100), "within": (BUCKET_RATIO - 1) / 2}


def _summary(one: Quality) -> JsonObject:
    summary, interval = one.summary, one.summary.interval
    return {
        "metric": one.scored.spec.name,
        "profile": one.scored.spec.profile,
        "version": one.scored.spec.version,
        "environment": one.scored.environment,
        "evaluation_id": one.scored.evaluation_id,
        "group": list(one.group),
        "n": summary.n,
        "n_scored": summary.n_scored,
        "n_unscored": summary.n_unscored,
        "n_invalid": summary.n_invalid,
        "model_failures": summary.model_failures,
        "infrastructure_failures": summary.infrastructure_failures,
        "value": summary.value,
        "mean": summary.mean,
        "pooled": summary.pooled,
        "lower": summary.lower,
        "upper": summary.upper,
        "interval": asdict(interval) if interval is not None else None,
    }
