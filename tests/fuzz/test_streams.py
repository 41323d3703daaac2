"""Search for bytes that break the parsing of answers, guided by how much of the parsers' code an example reaches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from tests.fuzz.streams import PIECES, check
from vlmhyperbench_loadgen import answers, http1, sse

PARSERS = frozenset({answers.__file__, http1.__file__, sse.__file__})
PAYLOADS = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=12)), max_size=10).map(b"".join)
OFFSETS = st.lists(st.integers(0, 3000), max_size=10)


def steps_of(call: Callable[[], None]) -> set[tuple[str, int, int]]:
    """Return the steps from line to line that a call makes inside the parsers."""
    steps: set[tuple[str, int, int]] = set()

    def enter(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        del event, arg
        if frame.f_code.co_filename not in PARSERS:
            return None
        before = frame.f_lineno

        def follow(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
            nonlocal before
            del event, arg
            steps.add((frame.f_code.co_filename, before, frame.f_lineno))
            before = frame.f_lineno
            return follow

        return follow

    outer = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(outer)
    return steps


@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(PAYLOADS, OFFSETS)
def test_no_bytes_break_the_parsers_and_no_cut_changes_an_answer(payload: bytes, offsets: Sequence[int]) -> None:
    target(float(len(steps_of(lambda: check(payload, offsets)))))


def test_a_valid_stream_reaches_more_code_than_an_empty_one() -> None:
    empty, valid = (steps_of(lambda payload=payload: check(payload, [5])) for payload in (b"", b"".join(PIECES)))
    assert 0 < len(empty) < len(valid)
