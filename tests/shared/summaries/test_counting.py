"""Failed requests are grouped by what the server answered."""

from __future__ import annotations

from tests.shared.reports.builders import evidence, fact
from tests.shared.reports.test_errors import MIXED, refused
from vlmhyperbench.summaries.counting import errors_of


def test_errors_are_grouped_by_their_answer_the_most_frequent_first() -> None:
    run = evidence([*(fact(ordinal, "yes", "yes") for ordinal in range(4)), *MIXED])
    assert [(group.rule, group.cause, group.code, group.http_status, group.count) for group in errors_of(run)] == [
        ("context_exceeded", "sample", "context_length_exceeded", 400, 2),
        ("busy", "infrastructure", "http_503", 503, 1),
    ]


def test_failures_of_an_imported_file_keep_its_message() -> None:
    odd = refused(4, "the kettle boiled over", http_status=None) | {"error_code": "failed_in_file"}
    bare = refused(5, "", failure="infrastructure", http_status=None) | {"error_code": None, "error": None}
    groups = {(group.message, group.code, group.cause) for group in errors_of(evidence([odd, bare]))}
    assert groups == {("the kettle boiled over", "failed_in_file", "model"), ("", "unknown", "infrastructure")}
