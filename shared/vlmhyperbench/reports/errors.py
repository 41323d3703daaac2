"""What requests of a run failed with: the server's own words, counted, and whether that counts against the model."""

from __future__ import annotations

import polars

from vlmhyperbench.domain.causes import FailedRequest, read_row
from vlmhyperbench.domain.failure_groups import FailureGroup, group_failures
from vlmhyperbench.domain.failures import Failure
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.reports.document import Column, Section, Table, write_number
from vlmhyperbench.reports.evidence import RunEvidence
from vlmhyperbench.reports.wording import plural

MAX_ROWS = 20


def errors_of(run: RunEvidence) -> list[FailureGroup]:
    """Count what failed of a run by what was said, the most frequent first."""
    failed = run.facts.filter(polars.col("status") != "ok")
    columns = ("error_code", "http_status", "error", "failure")
    found: list[tuple[FailedRequest, Failure, int]] = []
    for code, http_status, error, failure, count in failed.group_by(columns, maintain_order=True).len().iter_rows():
        read = read_row(error_code=code, http_status=http_status, error=error)
        whose: Failure = "model" if failure == "model" else "infrastructure"
        found.append((read, whose, count))
    return group_failures(found, ok=run.facts.height - failed.height)


def errors_section(run: RunEvidence) -> tuple[Section, ...]:
    """Show the errors; nothing where no request failed."""
    errors = errors_of(run)
    if not errors:
        return ()
    rows = tuple(
        (
            group.count,
            str(group.http_status or "none"),
            group.code,
            group.rule,
            group.cause,
            "yes" if group.is_of_model else "no",
            group.message,
        )
        for group in errors[:MAX_ROWS]
    )
    more = f" The {MAX_ROWS} most frequent of {len(errors)} kinds." if len(errors) > MAX_ROWS else ""
    table = Table(
        name="errors",
        title="",
        columns=(
            Column(title="requests", kind="number"),
            Column(title="HTTP status"),
            Column(title="code"),
            Column(title="rule"),
            Column(title="cause"),
            Column(title="counts against the model"),
            Column(title="what the server said"),
        ),
        rows=rows,
        note=f"Messages that differ in numbers only are counted together.{more}",
    )
    total = sum(group.count for group in errors)
    lead = f"{plural(total, 'request')} of {write_number(run.facts.height, 0)} failed."
    return (Section(name="errors", title="Errors", lead=lead, blocks=(table,)),)


def say_most_frequent(run: RunEvidence) -> str:
    """Say the most frequent error in a clause; empty where no request failed."""
    errors = errors_of(run)
    return f"the most frequent error: {errors[0].in_words.rstrip('.')}" if errors else ""


def say_why_failed(run: RunEvidence) -> str:
    """Say why a run failed, which then has no score; empty where it did not."""
    return f"no score: the run failed. {run.reason}" if run.state == RunState.FAILED and run.reason else ""
