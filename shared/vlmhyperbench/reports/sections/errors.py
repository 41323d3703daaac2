"""The errors of a run's requests: the server's messages, counted, and whether they count against the model."""

from __future__ import annotations

from vlmhyperbench.domain.states import RunState
from vlmhyperbench.reports.document import Column, Section, Table, write_number
from vlmhyperbench.reports.sections.wording import plural
from vlmhyperbench.summaries.summary import RunSummary

MAX_ROWS = 20


def errors_section(summary: RunSummary) -> Section | None:
    """Return the section on errors; None if no request failed."""
    errors = summary.errors
    if not errors:
        return None
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
    more = f" The table shows the {MAX_ROWS} most frequent of {len(errors)} kinds." if len(errors) > MAX_ROWS else ""
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
            Column(title="message of the server"),
        ),
        rows=rows,
        note=f"Messages that differ only in numbers are counted together.{more}",
    )
    total = sum(group.count for group in errors)
    lead = f"{plural(total, 'request')} of {write_number(summary.counts.rows, 0)} failed."
    return Section(name="errors", title="Errors", lead=lead, blocks=(table,))


def say_most_frequent(summary: RunSummary) -> str:
    """Return a clause with the most frequent error; empty if no request failed."""
    return f"the most frequent error: {summary.errors[0].in_words.rstrip('.')}" if summary.errors else ""


def say_why_failed(summary: RunSummary) -> str:
    """Return a clause that says why a run failed and so has no score; empty if it did not fail."""
    return f"no score: the run failed. {summary.reason}" if summary.state == RunState.FAILED and summary.reason else ""
