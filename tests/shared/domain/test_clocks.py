from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.support.wording import Wording
from vlmhyperbench.domain.clocks import MAX_CLOCK_DIFFERENCE, clock_ahead, clock_warning

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def ahead_s(*, sent: float, theirs: float, received: float) -> float:
    sent_at, theirs_at, received_at = (NOON + timedelta(seconds=seconds) for seconds in (sent, theirs, received))
    return clock_ahead(sent=sent_at, theirs=theirs_at, received=received_at).total_seconds()


def test_a_clock_is_off_by_at_least_what_the_way_of_the_messages_cannot_explain() -> None:
    assert ahead_s(sent=300, theirs=1, received=302) == 299
    assert ahead_s(sent=-300, theirs=1, received=-298) == -299


def test_a_slow_answer_is_no_difference() -> None:
    assert ahead_s(sent=0, theirs=1, received=60) == 0
    assert ahead_s(sent=0, theirs=59, received=60) == 0


def test_a_clock_that_was_set_back_meanwhile_is_off_by_what_remains() -> None:
    assert ahead_s(sent=300, theirs=0, received=0) == 0


def test_the_warning_says_by_how_much_and_in_which_direction(wording: Wording) -> None:
    assert clock_warning(MAX_CLOCK_DIFFERENCE, other="the database") is None
    wording(clock_warning(timedelta(seconds=300), other="the database"))
    wording(clock_warning(timedelta(seconds=-300.4), other="the server"))
