"""The use of a judge, from the rows of its phase: a missing count makes the sum unknown, not smaller."""

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
    """Make a verdict for each change, with 100 prompt and 11 completion tokens and a latency of at least 20 ms."""
    return facts_frame([fact(no, "yes", "yes", **change) for no, change in enumerate(changes)])


def _use(verdicts: polars.DataFrame, *, claims: Sequence[ClaimEvidence] = (), **judging: object) -> JudgeUse:
    """Return the use of a judge of two answers: the first answer is about one page, the second about three."""
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


def test_tokens_are_unknown_if_a_verdict_lacks_its_count() -> None:
    assert _tokens(UNCOUNTED, UNCOUNTED) == (None, None)
    assert _tokens({}, UNCOUNTED) == (None, None)
    assert _tokens({}, {"completion_tokens": None}) == (200, None)


def test_reused_failed_and_unasked_verdicts_do_not_make_the_sum_unknown() -> None:
    failed = {"status": "error", "failure": "infrastructure", "error_code": "connection_lost"}
    unasked = {"status": "error", "failure": "infrastructure", "error_code": "unreadable_sample"}
    assert _tokens({}, {**UNCOUNTED, "is_reused": True}, UNCOUNTED | failed, UNCOUNTED | unasked) == (100, 11)
    assert _tokens({**UNCOUNTED, "is_reused": True}) == (0, 0)


def test_a_sum_may_exceed_the_type_of_its_counts() -> None:
    many = {"prompt_tokens": 2**31 - 1}
    assert _tokens(many, many) == (2**32 - 2, 22)


def test_a_judge_is_shown_the_images_of_each_answer_in_every_order_and_repeat() -> None:
    unlike = {"images": ["x"] * 50}  # of the sample with the same number as the verdict
    assert _use(_verdicts(*[unlike] * 8), repeats=2, images=True).images == 16
    assert _use(_verdicts(unlike, unlike, unlike), images=True, swap=False, repeats=2).images == 5


def test_a_judge_that_is_shown_no_images_counts_none() -> None:
    assert _use(_verdicts({}, {}, {}, {})).images == 0


@pytest.mark.parametrize(("is_endpoint", "seconds"), [(True, 1.0), (False, 2.0)])
def test_overlapping_times_of_claims_count_once_for_an_endpoint(is_endpoint: bool, seconds: float) -> None:
    times = {"scheduled_ns": 0, "latency_ns": 10**9, "stream_end_ns": 10**9}
    verdicts = _verdicts({**times, "claim_id": "first"}, {**times, "claim_id": "second"})
    judging = {"target": EndpointTarget(endpoint="http://judge.example/v1", model_name="wise")} if is_endpoint else {}
    claims = [claim(id=name, job="JUDGE") for name in ("first", "second")]
    assert _use(verdicts, claims=claims, **judging).window_s == seconds
