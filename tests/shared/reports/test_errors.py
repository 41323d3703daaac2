"""Failed requests in a report: the server's messages in the verdict and in the section on errors."""

from __future__ import annotations

from tests.shared.reports.builders import claim, comparison_of, document_of, evidence, fact
from tests.shared.reports.reading import tables_of, verdict_of, words_of
from tests.support.wording import Wording
from vlmhyperbench.reports.document import Listing, Table
from vlmhyperbench.reports.sections.errors import MAX_ROWS, MEANINGS, errors_section
from vlmhyperbench.summaries.summarising import summarise_run

TOO_LONG = "http_400: {} tokens are too many [code=context_length_exceeded, type=invalid_request_error]"


def refused(ordinal: int, error: str, *, failure: str = "model", http_status: int | None = 400) -> dict[str, object]:
    failed = {"status": "error", "failure": failure, "error": error, "error_code": error.partition(":")[0]}
    return fact(ordinal, None, "yes") | failed | {"http_status": http_status}


def a_run(*rows: dict[str, object], **changes: object):
    answered = [fact(ordinal, "yes", "yes") for ordinal in range(4)]
    return evidence([*answered, *rows], **changes)


MIXED = (
    refused(4, TOO_LONG.format(5000)),
    refused(5, TOO_LONG.format(6000)),
    refused(6, "http_503: later", failure="infrastructure", http_status=503),
)


def test_a_section_has_a_row_for_each_kind_of_error(wording: Wording) -> None:
    document = document_of(a_run(*MIXED))
    table = tables_of(document)["errors"]
    assert [(row[0], row[3], row[5]) for row in table.rows] == [(2, "context_exceeded", "yes"), (1, "busy", "no")]
    wording(document.verdict[2])


def test_a_run_without_errors_has_no_section() -> None:
    assert errors_section(summarise_run(a_run())) is None


EXITED = "The engine was killed by SIGKILL while it served. The end of its output:\nlistening\nserving 4 slots"


def test_claims_that_failed_are_shown_with_the_end_of_the_engine_s_output(wording: Wording) -> None:
    failures = [
        {"code": "engine_exited", "message": EXITED},
        {"code": "worker_died", "message": "The worker that held the job died.", "output": "slot 3"},
        {"code": "unheard_of", "message": "Something else."},
        None,
    ]
    claims = [claim(id=f"claim-{number}", failure=failure) for number, failure in enumerate(failures)]
    section = errors_section(summarise_run(evidence([fact(0, "yes", "yes")], claims=claims)))
    assert section is not None
    table, *outputs = section.blocks
    assert isinstance(table, Table)
    assert [row[3] for row in table.rows] == ["engine_exited", "worker_died", "unheard_of"]
    shown = [(block.title[-7:], block.text) for block in outputs if isinstance(block, Listing)]
    assert shown == [("claim-0", "listening\nserving 4 slots"), ("claim-1", "slot 3")]
    wording(f"{section.lead} {words_of(table)}")


def test_every_code_of_a_lost_engine_or_worker_has_a_meaning() -> None:
    codes = {"oom", "engine_exited", "engine_lost", "stalled", "load_timeout", "load_failed", "worker_died"}
    assert codes <= set(MEANINGS)


def test_the_rarest_of_many_kinds_of_errors_are_left_out() -> None:
    kinds = [refused(4 + n, f"http_400: no {chr(97 + n)}", http_status=400) for n in range(MAX_ROWS + 1)]
    section = errors_section(summarise_run(a_run(*kinds)))
    assert section is not None
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert len(table.rows) == MAX_ROWS
    assert str(MAX_ROWS + 1) in table.note


def test_a_failed_run_has_a_reason_instead_of_a_score(wording: Wording) -> None:
    why = "inference: api.example refuses the requests: unknown model."
    failed = evidence([], state="FAILED", reason=why, scored=())
    wording(verdict_of(document_of(failed)))
    wording(verdict_of(comparison_of("e", "two", "PARTIAL", [a_run(), failed])))
