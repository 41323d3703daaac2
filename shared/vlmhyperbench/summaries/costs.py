"""Usage of a target by the requests of a run, and its cost by the prices that are pinned with the run."""

from __future__ import annotations

import polars

from vlmhyperbench.analysis.costs import Cost, Usage, cost_of
from vlmhyperbench.analysis.times import sum_counts
from vlmhyperbench.domain.specs import RunSpec


def usage_of(rows: polars.DataFrame, *, window_s: float | None) -> Usage:
    """Sum the usage of the target.

    Args:
        rows: Requests that the run sent itself.
        window_s: Time that the requests took together.
    """
    answered = rows.filter(polars.col("status") == "ok")
    cached = answered["cached_tokens"].cast(polars.Int64).sum() if "cached_tokens" in answered.columns else 0
    longest = answered["prompt_tokens"].max()
    images = answered["images"].list.len() if "images" in answered.columns else None
    return Usage(
        answers=answered.height,
        prompt_tokens=sum_counts(answered["prompt_tokens"]),
        completion_tokens=sum_counts(answered["completion_tokens"]),
        cached_tokens=int(cached),
        images=None if images is None or images.null_count() else int(images.sum()),
        longest_prompt_tokens=longest if isinstance(longest, int) else None,
        window_s=window_s,
    )


def cost_of_run(spec: RunSpec, rows: polars.DataFrame, *, window_s: float | None) -> Cost:
    """Compute the cost of a run's own requests."""
    return cost_of(spec.prices, usage_of(rows, window_s=window_s), unpriced=spec.unpriced)
