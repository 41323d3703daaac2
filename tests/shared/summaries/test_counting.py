"""Failed requests are grouped by what the server answered."""

from __future__ import annotations

from tests.shared.reports.builders import evidence, fact
from tests.shared.reports.test_errors import MIXED, refused
from vlmhyperbench.summaries.counting import count, errors_of


def test_errors_are_grouped_by_their_answer_the_most_frequent_first() -> None:
    run = evidence([*(fact(ordinal, "yes", "yes") for ordinal in range(4)), *MIXED])
    assert [(group.rule, group.cause, group.code, group.http_status, group.count) for group in errors_of(run)] == [
        ("context_exceeded", "sample", "context_length_exceeded", 400, 2),
        ("busy", "infrastructure", "http_503", 503, 1),
    ]


def test_the_share_of_answers_cut_off_is_known_if_it_is_known_of_each_why_it_ended() -> None:
    cut, whole, unknown = (
        fact(ordinal, "yes", "yes") | {"finish_reason": reason}
        for ordinal, reason in enumerate(("length", "stop", None))
    )
    known, partly = count(evidence([cut, whole])), count(evidence([cut, whole, unknown]))
    assert (known.truncated, known.truncation_rate) == (1, 0.5)
    assert (partly.truncated, partly.truncation_rate) == (1, None)
    assert count(evidence([refused(4, "x", http_status=None)])).truncation_rate is None


def test_failures_of_an_imported_file_keep_its_message() -> None:
    odd = refused(4, "the kettle boiled over", http_status=None) | {"error_code": "failed_in_file"}
    bare = refused(5, "", failure="infrastructure", http_status=None) | {"error_code": None, "error": None}
    groups = {(group.message, group.code, group.cause) for group in errors_of(evidence([odd, bare]))}
    assert groups == {("the kettle boiled over", "failed_in_file", "model"), ("", "unknown", "infrastructure")}
