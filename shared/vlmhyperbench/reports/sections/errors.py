"""The errors of a run's requests, counted, and the claims that failed: memory, a stall, an exit, a dead worker."""

from __future__ import annotations

from vlmhyperbench.domain.states import RunState
from vlmhyperbench.reports.document import Column, Listing, Section, Table, write_number
from vlmhyperbench.reports.sections.wording import plural
from vlmhyperbench.summaries.records import ClaimEvidence
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.gateway import without_output

MAX_ROWS = 20
MAX_LISTINGS = 3
MEANINGS = {
    "oom": "memory ran out",
    "engine_exited": "the engine's process ended or was killed",
    "engine_lost": "the engine's address did not answer",
    "stalled": "no answer came within the limit",
    "load_timeout": "the engine was not ready in time",
    "load_failed": "the engine did not become ready",
    "worker_died": "the worker's process ended or was killed",
    "lease_expired": "the worker was not heard of in time",
}
"""Code of a claim's failure → what it means."""


def errors_section(summary: RunSummary) -> Section | None:
    """Return the section on errors; None if no request failed."""
    tables = [table for table in (_errors(summary), _failed_claims(summary)) if table is not None]
    if not tables:
        return None
    total, failed = sum(group.count for group in summary.errors), len(_failures(summary))
    parts = [f"{plural(total, 'request')} of {write_number(summary.counts.rows, 0)} failed."] if total else []
    parts += [f"{plural(failed, 'claim')} of the run's jobs failed."] if failed else []
    lead = " ".join(parts)
    return Section(name="errors", title="Errors", lead=lead, blocks=(*tables, *_ends_of_output(summary)))


def _errors(summary: RunSummary) -> Table | None:
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
    return Table(
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


def _failed_claims(summary: RunSummary) -> Table | None:
    """Return the claims that failed, oldest first; their jobs were tried again or failed with them."""
    failed = _failures(summary)
    if not failed:
        return None
    return Table(
        name="failed-claims",
        title="Claims that failed",
        columns=(
            Column(title="claim", kind="code"),
            Column(title="job"),
            Column(title="ended"),
            Column(title="code"),
            Column(title="meaning"),
            Column(title="message"),
        ),
        rows=tuple(
            (
                claim.id,
                claim.job.lower(),
                claim.ended_at or "–",
                code,
                MEANINGS.get(code, "see the message"),
                without_output(message),
            )
            for claim, code, message in failed[:MAX_ROWS]
        ),
        note="What such a claim had committed stays; its job was tried again, or failed with the run.",
    )


def _ends_of_output(summary: RunSummary) -> list[Listing]:
    """Return the end of the engine's output for each claim whose engine had one when it failed."""
    ends = [(claim.id, _end_of_output(claim, message)) for claim, _, message in _failures(summary)]
    return [
        Listing(title=f"End of the engine's output, claim {claim_id}", text=end)
        for claim_id, end in [(claim_id, end) for claim_id, end in ends if end][:MAX_LISTINGS]
    ]


def _end_of_output(claim: ClaimEvidence, message: str) -> str:
    """Return the end of the engine's log, or else the part of it that the message has."""
    stored = (claim.failure or {}).get("output")
    return stored if isinstance(stored, str) else message.partition("\n")[2]


def _failures(summary: RunSummary) -> list[tuple[ClaimEvidence, str, str]]:
    return [
        (claim, str(claim.failure.get("code")), str(claim.failure.get("message")))
        for claim in summary.claims
        if claim.failure is not None
    ]


def say_most_frequent(summary: RunSummary) -> str:
    """Return a clause with the most frequent error; empty if no request failed."""
    return f"the most frequent error: {summary.errors[0].in_words.rstrip('.')}" if summary.errors else ""


def say_why_failed(summary: RunSummary) -> str:
    """Return a clause that says why a run failed and so has no score; empty if it did not fail."""
    return f"no score: the run failed. {summary.reason}" if summary.state == RunState.FAILED and summary.reason else ""
