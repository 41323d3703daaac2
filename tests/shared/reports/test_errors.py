"""What a report says of requests that failed: the server's words in its verdict and in a section of their own."""

from __future__ import annotations

from tests.shared.reports.builders import comparison_of, document_of, evidence, fact
from vlmhyperbench.reports.document import Table
from vlmhyperbench.reports.sections.errors import MAX_ROWS, errors_section
from vlmhyperbench.summaries.counting import errors_of
from vlmhyperbench.summaries.summarising import summarise_run

TOO_LONG = "http_400: {} tokens are too many [code=context_length_exceeded, type=invalid_request_error]"


def refused(ordinal: int, error: str, *, failure: str = "model", http_status: int | None = 400) -> dict[str, object]:
    told = {"status": "error", "failure": failure, "error": error, "error_code": error.partition(":")[0]}
    return fact(ordinal, None, "yes") | told | {"http_status": http_status}


def a_run(*rows: dict[str, object], **changes: object):
    answered = [fact(ordinal, "yes", "yes") for ordinal in range(4)]
    return evidence([*answered, *rows], **changes)


MIXED = (
    refused(4, TOO_LONG.format(5000)),
    refused(5, TOO_LONG.format(6000)),
    refused(6, "http_503: later", failure="infrastructure", http_status=503),
)


def test_errors_are_counted_by_what_was_said_the_most_frequent_first() -> None:
    found = [
        (group.rule, group.cause, group.code, group.http_status, group.count) for group in errors_of(a_run(*MIXED))
    ]
    assert found == [
        ("context_exceeded", "sample", "context_length_exceeded", 400, 2),
        ("busy", "infrastructure", "http_503", 503, 1),
    ]


def test_a_section_has_a_row_for_each_kind_of_error() -> None:
    section = errors_section(summarise_run(a_run(*MIXED)))
    assert section is not None
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert [(row[0], row[3], row[5]) for row in table.rows] == [(2, "context_exceeded", "yes"), (1, "busy", "no")]
    document = document_of(a_run(*MIXED))
    assert "errors" in [section.name for section in document.sections]
    assert "2 x HTTP 400, context_length_exceeded (counts against the model): 5000 tokens" in document.verdict[2]


def test_a_run_without_errors_has_no_section() -> None:
    assert errors_section(summarise_run(a_run())) is None


def test_the_rarest_of_many_kinds_of_errors_are_left_out() -> None:
    kinds = [refused(4 + n, f"http_400: no {chr(97 + n)}", http_status=400) for n in range(MAX_ROWS + 1)]
    section = errors_section(summarise_run(a_run(*kinds)))
    assert section is not None
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert len(table.rows) == MAX_ROWS
    assert str(MAX_ROWS + 1) in table.note


def test_what_another_tool_recorded_is_told_as_its_file_says() -> None:
    odd = refused(4, "the kettle boiled over", http_status=None) | {"error_code": "failed_in_file"}
    bare = refused(5, "", failure="infrastructure", http_status=None) | {"error_code": None, "error": None}
    found = {(group.message, group.code, group.cause) for group in errors_of(a_run(odd, bare))}
    assert found == {("the kettle boiled over", "failed_in_file", "model"), ("", "unknown", "infrastructure")}


def test_a_run_that_failed_has_no_score_but_a_reason() -> None:
    why = "inference: api.example refuses the requests: unknown model."
    failed = evidence([], state="FAILED", reason=why, scored=())
    assert document_of(failed).verdict[0].endswith(f"has no score: the run failed. {why}")
    compared = comparison_of("e", "two", "PARTIAL", [a_run(), failed])
    assert f"has no score: the run failed. {why}" in compared.verdict[0]
