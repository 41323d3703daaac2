"""Failed attempts are counted by address, for a minute, and of a bounded number of addresses."""

import pytest

from vlmhyperbench_api import attempts as room
from vlmhyperbench_api.attempts import MAX_FAILURES, WINDOW_S, Attempts
from vlmhyperbench_api.errors import TooMany


def test_an_address_with_too_many_failures_waits_until_the_first_of_them_is_old() -> None:
    attempts = Attempts()
    for second in range(MAX_FAILURES):
        attempts.check("a", now=second)
        attempts.failed("a", now=second)
    with pytest.raises(TooMany):
        attempts.check("a", now=WINDOW_S - 1)
    attempts.check("b", now=WINDOW_S - 1)
    attempts.check("a", now=WINDOW_S)


def test_the_memory_of_failures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MAX_ADDRESSES", 2)
    attempts = Attempts()
    for _ in range(MAX_FAILURES):
        for address in ("a", "b"):
            attempts.failed(address, now=0)
    attempts.failed("c", now=0)
    attempts.check("a", now=0)
    with pytest.raises(TooMany):
        attempts.check("b", now=0)
