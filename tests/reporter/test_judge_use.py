"""What asking a judge took, from the rows of its phase: a count that it left out makes the sum unknown, not small."""

from __future__ import annotations

import polars

from tests.shared.reports.builders import fact, facts_frame
from vlmhyperbench_reporter.reading import use_of_judge

UNCOUNTED = {"prompt_tokens": None, "completion_tokens": None}


def _verdicts(*changes: dict[str, object]) -> polars.DataFrame:
    """One verdict of 100 and 11 tokens after 20 ms and more for each."""
    return facts_frame([fact(no, "yes", "yes", **change) for no, change in enumerate(changes)])


def _tokens(*changes: dict[str, object]) -> tuple[int | None, int | None]:
    use = use_of_judge("judged@v1", _verdicts(*changes))
    return use.prompt_tokens, use.completion_tokens


def test_counts_are_summed_up() -> None:
    use = use_of_judge("judged@v1", _verdicts({}, {}, {"is_kept": True}))
    assert (use.metric, use.requests, use.kept, use.failed) == ("judged@v1", 3, 1, 0)
    assert (use.prompt_tokens, use.completion_tokens, use.busy_s) == (200, 22, 0.041)
    assert use.answers == 2


def test_tokens_that_no_or_not_every_verdict_has_are_unknown() -> None:
    assert _tokens(UNCOUNTED, UNCOUNTED) == (None, None)
    assert _tokens({}, UNCOUNTED) == (None, None)
    assert _tokens({}, {"completion_tokens": None}) == (200, None)


def test_what_was_known_already_or_failed_or_never_asked_leaves_the_sum_known() -> None:
    failed = {"status": "error", "failure": "infrastructure", "error_code": "connection_lost"}
    unasked = {"status": "error", "failure": "infrastructure", "error_code": "unreadable_sample"}
    assert _tokens({}, {**UNCOUNTED, "is_kept": True}, UNCOUNTED | failed, UNCOUNTED | unasked) == (100, 11)
    assert _tokens({**UNCOUNTED, "is_kept": True}) == (0, 0)


def test_a_sum_is_longer_than_its_counts() -> None:
    many = {"prompt_tokens": 2**31 - 1}
    assert _tokens(many, many) == (2**32 - 2, 22)
