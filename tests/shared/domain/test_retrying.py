"""How often a job that fails is tried again, and after which pause."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.retrying import backoff_s, is_given_up


def test_a_job_that_cannot_start_is_given_up_at_the_third_failure() -> None:
    assert [is_given_up(fails=fails, done=0) for fails in (1, 2, 3)] == [False, False, True]


def test_a_job_that_has_rows_gets_more_tries() -> None:
    assert not is_given_up(fails=3, done=1)
    assert is_given_up(fails=6, done=1)


def test_a_permanent_failure_is_given_up_at_once() -> None:
    assert is_given_up(fails=1, done=9, is_permanent=True)


def test_the_first_failure_is_tried_again_at_once() -> None:
    assert backoff_s(1, 0.99) == 0


@given(st.integers(2, 60), st.floats(0, 1, exclude_max=True))
def test_later_tries_wait_up_to_five_minutes(fails: int, draw: float) -> None:
    assert 0 <= backoff_s(fails, draw) <= min(300, 5 * 2**fails)
