"""Times and rates of a run's own requests."""

from __future__ import annotations

from collections.abc import Sequence

import polars

from vlmhyperbench.analysis.distributions import BUCKET_RATIO, Ordered, ordered
from vlmhyperbench.analysis.percentiles import percentiles_of
from vlmhyperbench.analysis.preset_gates import gates_of_preset
from vlmhyperbench.analysis.queries import query_latencies
from vlmhyperbench.analysis.times import floats_of, sum_counts
from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE
from vlmhyperbench.domain.presets import SAMPLES_PER_QUERY
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.summaries.costs import cost_of_run
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.harness import harness_of
from vlmhyperbench.summaries.records import ClaimEvidence
from vlmhyperbench.summaries.resources import resources_of
from vlmhyperbench.summaries.slo import slo_of
from vlmhyperbench.summaries.spans import ANSWERED, clock_offsets, own_rows, window_s
from vlmhyperbench.summaries.speeds import Gaps, Performance
from vlmhyperbench.summaries.tokens import gaps_ms
from vlmhyperbench.summaries.validity import validity_of

TIMES = {
    "latency_ms": "latency_ns",
    "ttft_user_ms": "ttft_user_ns",
    "ttft_service_ms": "ttft_service_ns",
    "tpot_ms": "tpot_ns",
    "queue_ms": "queue_ns",
}
"""Name of a time → its column."""
OF_THE_CLIENT = frozenset({"queue_ms"})
"""Times that failed requests have as well, so that failures do not count as infinite."""


def times_of(run: RunEvidence) -> dict[str, Ordered]:
    """Return the times of the answers to the run's own requests, sorted; a time without values is left out."""
    own = own_rows(run.facts).filter(polars.col("status") == "ok")
    times = {name: ordered(own[column].drop_nulls().to_numpy() / NS_PER_MS) for name, column in TIMES.items()}
    return {name: values for name, values in times.items() if values.n}


def performance_of(run: RunEvidence, *, missing: int) -> Performance:
    """Summarise the speed of the requests that the run sent itself; reused answers do not count.

    Args:
        run: Evidence of the run.
        missing: Number of its requests without a row.
    """
    everything = own_rows(run.facts)
    asked = everything.filter(polars.col("error_code").ne_missing(UNREADABLE_SAMPLE))
    own = everything.filter(polars.col("status") == "ok")
    measured = set(everything["claim_id"].to_list())
    claims = [claim for claim in run.generating if claim.id in measured]
    is_one_engine = isinstance(run.spec.target, EndpointTarget)
    window = window_s(everything, clock_offsets(run.generating) if is_one_engine else None)
    answered = own.filter(ANSWERED)
    # An answer without a token has no time: its user waits forever.
    without_token = own.height - answered.height
    failed = asked.height - own.height
    infinite = failed + without_token + missing
    values = times_of(run)
    times = {name: ordered_times.describe() for name, ordered_times in values.items()}
    total_tokens = sum_counts(answered["completion_tokens"]) if answered.height else None
    arrivals, limits = run.spec.scenario.arrivals, run.spec.scenario.slo.limits_ms
    ttft = times.get("ttft_user_ms")
    answers = answered.height
    goodput, verdicts = slo_of(asked, limits, scheduled=asked.height + missing, failed=infinite, window_s=window)
    resources = (
        None
        if is_one_engine
        else resources_of(
            claims, answers=answers, tokens=total_tokens, window_s=window, request_delta_bytes=_largest_rise(own)
        )
    )
    percentiles = {
        name: percentiles_of(ordered_times.values.tolist(), failed=0 if name in OF_THE_CLIENT else infinite)
        for name, ordered_times in values.items()
    }
    scenario, preset = run.spec.scenario, run.spec.scenario.preset
    if scenario.kind == "multi_stream" and preset not in (None, "quick"):
        percentiles["query_latency_ms"] = query_latencies(
            everything["ordinal"].to_numpy(),
            everything.select(ANSWERED).to_series().fill_null(value=False).to_numpy(),
            floats_of(everything["latency_ns"]),
            scheduled=everything.height + missing,
            samples=SAMPLES_PER_QUERY,
        )
    return Performance(
        times=times,
        percentiles=percentiles,
        gaps_ms=_gaps(run),
        failed=failed,
        window_s=window,
        samples_per_s=answers / window if window else None,
        output_tokens_per_s=total_tokens / window if window and total_tokens is not None else None,
        output_tokens=total_tokens,
        goodput=goodput,
        slo=verdicts,
        token_sources=tuple(sorted(own["token_source"].drop_nulls().unique().to_list())),
        parts=own["claim_id"].n_unique(),
        measured_by=tuple(sorted(measured)),
        is_interrupted=_is_interrupted(own, run.generating),
        is_partial=run.is_stopped or bool(run.facts["is_reused"].any()),
        is_retuned=bool(run.retunes),
        hosts=len({claim.host for claim in claims}),
        peak_memory_bytes=resources.peak_memory_bytes if resources else None,
        peak_memory_of=resources.peak_memory_of if resources else None,
        resources=resources,
        validity=validity_of(
            everything,
            missing=missing,
            claims=claims,
            ttft_p50_ms=ttft.p50 if ttft is not None else None,
            process=arrivals.process if arrivals is not None else None,
            cv=arrivals.cv if arrivals is not None else 1.0,
            rules=gates_of_preset(
                preset,
                scenario=scenario.kind,
                duration_s=window,
                sent=asked["sent_ns"].count(),
                percentiles=percentiles,
                limits=verdicts,
            )
            if preset is not None
            else (),
        ),
        cost=cost_of_run(run.spec, asked, window_s=window),
        harness=harness_of(everything, claims, window_s=window),
    )


def _largest_rise(rows: polars.DataFrame) -> int | None:
    """Return the largest rise of the accelerators' memory during a request; None where it was not measured."""
    if "vram_peak_bytes" not in rows.columns:
        return None
    rises = (rows["vram_peak_bytes"] - rows["vram_before_bytes"]).drop_nulls().to_list()
    return max(rises, default=None)


def _gaps(run: RunEvidence) -> Gaps | None:
    """Return the percentiles of the gaps between tokens, with an error of at most half a bucket."""
    if run.events is None or not run.events.gap_counts.any():
        return None
    gaps = gaps_ms(run.events)
    p50, p90, p99, longest = (gaps.percentile(percent) for percent in (50, 90, 99, 100))
    return Gaps(n=gaps.n, p50=p50, p90=p90, p99=p99, max=longest, within=(BUCKET_RATIO - 1) / 2)


def _is_interrupted(facts: polars.DataFrame, claims: Sequence[ClaimEvidence]) -> bool:
    measured = set(facts["claim_id"].to_list())
    jobs = [claim.job_id for claim in claims if claim.id in measured]
    return len(set(jobs)) < len(jobs)
