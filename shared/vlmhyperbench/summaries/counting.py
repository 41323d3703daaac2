"""Denominators of a run: requests that were answered and scored, and the causes of the others."""

from __future__ import annotations

import polars

from vlmhyperbench.domain.causes import FailedRequest, read_row
from vlmhyperbench.domain.failure_groups import FailureGroup, group_failures
from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE, Failure
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summary import Counts


def count(run: RunEvidence) -> Counts:
    """Count a run's rows."""
    facts = run.facts
    failed = facts.filter(polars.col("status") != "ok")
    model = failed.filter((polars.col("status") == "error") & (polars.col("failure") == "model")).height
    answered = facts.height - failed.height
    ended = facts.filter(polars.col("status") == "ok")["finish_reason"]
    truncated, is_known = int((ended == "length").sum()), ended.len() > 0 and not ended.null_count()
    scored = unscored = 0
    if run.primary is not None:
        measures = run.primary.measures.filter(polars.col("field").is_null())
        scored = measures.filter(polars.col("value").is_not_null()).height
        unscored = measures.filter(polars.col("outcome") == "unscored").height
    requested = facts.height if run.is_stopped else max(run.total or 0, facts.height)
    return Counts(
        requested=requested,
        answered=answered,
        scored=scored,
        model_failures=model,
        infrastructure_failures=failed.height - model,
        unscored=unscored,
        truncated=truncated,
        truncation_rate=truncated / answered if is_known else None,
        missing=requested - facts.height,
        unreadable=facts.filter(polars.col("error_code") == UNREADABLE_SAMPLE).height,
    )


def errors_of(run: RunEvidence) -> list[FailureGroup]:
    """Group the failed requests of a run by their errors, the most frequent first."""
    failed = run.facts.filter(polars.col("status") != "ok")
    columns = ("error_code", "http_status", "error", "failure")
    counted: list[tuple[FailedRequest, Failure, int]] = []
    for code, http_status, error, failure, count in failed.group_by(columns, maintain_order=True).len().iter_rows():
        request = read_row(error_code=code, http_status=http_status, error=error)
        cause: Failure = "model" if failure == "model" else "infrastructure"
        counted.append((request, cause, count))
    return group_failures(counted, ok=run.facts.height - failed.height)
