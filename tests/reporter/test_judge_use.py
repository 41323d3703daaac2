"""What asking a judge took, from the rows of its phase: a count that it left out makes the sum unknown, not small."""

from __future__ import annotations

from collections.abc import Sequence

import polars
import pytest

from tests.shared.domain.builders_of_jobs import judge_metric
from tests.shared.reports.builders import claim, fact, facts_frame
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.summaries.records import ClaimEvidence, JudgeUse
from vlmhyperbench_reporter.reading import use_of_judge

UNCOUNTED = {"prompt_tokens": None, "completion_tokens": None}


def _verdicts(*changes: dict[str, object]) -> polars.DataFrame:
    """One verdict of 100 and 11 tokens after 20 ms and more for each."""
    return facts_frame([fact(no, "yes", "yes", **change) for no, change in enumerate(changes)])


def _use(verdicts: polars.DataFrame, *, claims: Sequence[ClaimEvidence] = (), **judging: object) -> JudgeUse:
    """What a judge of two answers took: the first answer is of a page, the second of three."""
    images = ({"images": ["a"]}, {"images": ["a", "b", "c"]})
    answers = facts_frame([fact(no, "yes", "yes", **shown) for no, shown in enumerate(images)])
    return use_of_judge(judge_metric(**judging), verdicts, answers, total=2, claims=claims)


def _tokens(*changes: dict[str, object]) -> tuple[int | None, int | None]:
    use = _use(_verdicts(*changes))
    return use.prompt_tokens, use.completion_tokens


def test_counts_are_summed_up() -> None:
    use = _use(_verdicts({}, {}, {"is_reused": True}))
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
    assert _tokens({}, {**UNCOUNTED, "is_reused": True}, UNCOUNTED | failed, UNCOUNTED | unasked) == (100, 11)
    assert _tokens({**UNCOUNTED, "is_reused": True}) == (0, 0)


def test_a_sum_is_longer_than_its_counts() -> None:
    many = {"prompt_tokens": 2**31 - 1}
    assert _tokens(many, many) == (2**32 - 2, 22)


def test_a_judge_is_shown_the_images_of_each_answer_in_every_order_and_repeat() -> None:
    unlike = {"images": ["x"] * 50}  # of the sample that happens to have the verdict's number
    assert _use(_verdicts(*[unlike] * 8), repeats=2, images=True).images == 16
    assert _use(_verdicts(unlike, unlike, unlike), images=True, swap=False, repeats=2).images == 5


def test_a_judge_that_sees_no_images_took_none() -> None:
    assert _use(_verdicts({}, {}, {}, {})).images == 0


@pytest.mark.parametrize(("is_endpoint", "seconds"), [(True, 1.0), (False, 2.0)])
def test_time_of_claims_side_by_side_counts_once_where_one_endpoint_judged(is_endpoint: bool, seconds: float) -> None:
    times = {"scheduled_ns": 0, "latency_ns": 10**9, "stream_end_ns": 10**9}
    verdicts = _verdicts({**times, "claim_id": "first"}, {**times, "claim_id": "second"})
    judging = {"target": EndpointTarget(endpoint="http://judge.example/v1", model_name="wise")} if is_endpoint else {}
    claims = [claim(id=name, job="JUDGE") for name in ("first", "second")]
    assert _use(verdicts, claims=claims, **judging).window_s == seconds
