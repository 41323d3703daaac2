"""Failed requests are grouped by their errors."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench.domain.causes import Cause, read_row
from vlmhyperbench.domain.failure_groups import FailureGroup, group_failures


def refused(error: str, http_status: int | None = 400, code: str = "http_400"):
    return read_row(error_code=code, http_status=http_status, error=error)


def test_messages_that_differ_only_in_numbers_are_one_group() -> None:
    result = group_failures(
        [(refused("http_400: no 1"), "model", 2), (refused("http_400: no 22"), "model", 3), (refused("x"), "model", 1)],
        ok=100,
    )
    assert [(group.message, group.count) for group in result] == [("no 1", 5), ("x", 1)]


@pytest.mark.parametrize(("ok", "cause"), [(4, "configuration"), (6, "infrastructure")])
def test_the_share_of_answers_decides_over_all_refusals_of_a_rule(ok: int, cause: str) -> None:
    result = group_failures([(refused("a"), "model", 4), (refused("b"), "model", 2)], ok=ok)
    assert {group.cause for group in result} == {cause}


def test_an_error_without_a_rule_keeps_the_stored_kind_of_failure() -> None:
    result = group_failures([(refused("odd", None, "failed_in_file"), "model", 1)], ok=0)
    assert [(group.rule, group.cause) for group in result] == [("server_error", "model")]


@pytest.mark.parametrize(("cause", "http_status"), [("sample", 400), ("infrastructure", None)])
def test_a_group_is_described_in_one_line(cause: Cause, http_status: int | None, wording: Wording) -> None:
    group = FailureGroup(message="m", code="c", http_status=http_status, rule="r", cause=cause, count=3)
    wording(group.in_words)
