"""Token events are folded batch by batch, with the result of folding all at once."""

from __future__ import annotations

import polars
import pytest

from tests.shared.reports.builders import MS
from vlmhyperbench.analysis.timelines import Grid
from vlmhyperbench.facts.schema import polars_schema
from vlmhyperbench.summaries.tokens import COLUMNS, fold, gaps_ms, no_events, tokens_per_s

GRID = Grid(start_ns=0, width_ns=100 * MS, bins=2)


def token_rows(*answers: tuple[int, list[int], int | None]) -> polars.DataFrame:
    """Make answered requests.

    Each has the instant at which it was due, the times of its tokens after that instant, both in milliseconds, and
    its number of completion tokens.
    """
    every = polars_schema()
    schema = {name: every[name] for name in COLUMNS} | {"claim_id": polars.String()}
    rows = [
        {
            "scheduled_ns": due * MS,
            "sent_ns": due * MS,
            "stream_end_ns": (due + times[-1]) * MS,
            "last_event_ns": (due + times[-1]) * MS,
            "completion_tokens": tokens,
            "event_ns": [(due + at) * MS for at in times],
            "event_tokens": [1] * len(times),
            "event_kind": ["content"] * len(times),
            "claim_id": "c",
        }
        for due, times, tokens in answers
    ]
    return polars.DataFrame(rows, schema=schema)


def test_gaps_and_tokens_are_counted_in_the_bins_in_which_they_occurred() -> None:
    events, longest = fold(no_events(GRID), token_rows((0, [10, 30, 120], 3), (50, [10], 1)), {})
    assert events.tokens.tolist() == [3, 1]
    rate = tokens_per_s(events)
    assert rate is not None
    assert (rate[0], rate[1].tolist()) == (GRID, [30, 10])
    assert longest.to_list() == [90 * MS, None]
    gaps = gaps_ms(events)
    assert gaps.n == 2
    assert gaps.percentile(50) == pytest.approx(20, rel=0.005)
    assert gaps.percentile(99) == pytest.approx(90, rel=0.005)


def test_batches_add_up_to_the_whole() -> None:
    answers = ((0, [10, 30, 120], 3), (50, [10], 1), (90, [5, 9], None))
    whole, _ = fold(no_events(GRID), token_rows(*answers), {})
    parts = no_events(GRID)
    for answer in answers:
        parts, _ = fold(parts, token_rows(answer), {})
    assert parts.tokens.tolist() == whole.tokens.tolist()
    assert parts.gap_counts.tolist() == whole.gap_counts.tolist()
    assert (parts.uncounted, whole.uncounted) == (1, 1)


def test_the_offset_of_a_claim_moves_its_tokens_to_the_shared_clock() -> None:
    events, _ = fold(no_events(GRID), token_rows((0, [10], 1)), {"c": 100 * MS})
    assert events.tokens.tolist() == [0, 1]


def test_gaps_are_folded_where_claims_share_no_clock() -> None:
    events, longest = fold(no_events(None), token_rows((0, [10, 30, 120], 3), (50, [10], 1)), {})
    assert tokens_per_s(events) is None
    assert longest.to_list() == [90 * MS, None]
    assert gaps_ms(events).n == 2
