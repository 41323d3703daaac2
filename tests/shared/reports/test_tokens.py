"""Events of many answers, folded batch by batch: the same as all at once."""

from __future__ import annotations

from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import MS, claim, document_of, evidence, fact
from vlmhyperbench.analysis.timelines import Grid
from vlmhyperbench.facts.schema import polars_schema
from vlmhyperbench.summaries.records import TokenEvents
from vlmhyperbench.summaries.tokens import COLUMNS, fold, gaps_ms, no_events, tokens_per_s

GRID = Grid(start_ns=0, width_ns=100 * MS, bins=2)


def _rows(*answers: tuple[int, list[int], int | None]) -> polars.DataFrame:
    """Answers by when they were due, when their tokens came after that, one each, and how many there were, in ms."""
    every = polars_schema()
    schema = {name: every[name] for name in COLUMNS} | {"claim_id": polars.String()}
    rows = [
        {
            "scheduled_ns": due * MS,
            "sent_ns": due * MS,
            "stream_end_ns": (due + came[-1]) * MS,
            "last_event_ns": (due + came[-1]) * MS,
            "completion_tokens": tokens,
            "event_ns": [(due + at) * MS for at in came],
            "event_tokens": [1] * len(came),
            "event_kind": ["content"] * len(came),
            "claim_id": "c",
        }
        for due, came, tokens in answers
    ]
    return polars.DataFrame(rows, schema=schema)


def test_gaps_and_tokens_are_counted_where_they_were() -> None:
    events, longest = fold(no_events(GRID), _rows((0, [10, 30, 120], 3), (50, [10], 1)), {})
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
    whole, _ = fold(no_events(GRID), _rows(*answers), {})
    parts = no_events(GRID)
    for answer in answers:
        parts, _ = fold(parts, _rows(answer), {})
    assert parts.tokens.tolist() == whole.tokens.tolist()
    assert parts.gap_counts.tolist() == whole.gap_counts.tolist()
    assert (parts.uncounted, whole.uncounted) == (1, 1)


def test_instants_are_laid_on_the_clock_that_claims_share() -> None:
    events, _ = fold(no_events(GRID), _rows((0, [10], 1)), {"c": 100 * MS})
    assert events.tokens.tolist() == [0, 1]


def test_gaps_are_folded_where_claims_share_no_clock() -> None:
    events, longest = fold(no_events(None), _rows((0, [10, 30, 120], 3), (50, [10], 1)), {})
    assert tokens_per_s(events) is None
    assert longest.to_list() == [90 * MS, None]
    assert gaps_ms(events).n == 2


def test_a_report_draws_gaps_and_tokens_over_time() -> None:
    events, _ = fold(no_events(GRID), _rows((0, [10, 30, 120], 3), (50, [10, 20], None)), {})
    document = document_of(evidence([fact(0, "a", "a")], metrics=(), claims=[claim()], events=events))
    figures = {figure.name: figure for figure in document.figures}
    assert figures["gaps"].alt == "Gaps between tokens. tiny: p50 20, p99 90, slowest 90 ms."
    assert figures["gaps"].note.startswith("Of 3 tokens after the first ones")
    assert "1 answer of unknown length are not in it." in figures["token-rate"].note
    performance = document.data[str(document.id)]["performance"]
    assert isinstance(performance, dict)
    assert isinstance(performance["gaps_ms"], dict)
    assert (performance["gaps_ms"]["n"], performance["gaps_ms"]["within"]) == (3, pytest.approx(0.005))


def test_answers_of_one_piece_have_no_gaps_to_draw() -> None:
    events: TokenEvents = replace(no_events(GRID), uncounted=1)
    document = document_of(evidence([fact(0, "a", "a")], metrics=(), claims=[claim()], events=events))
    assert {"gaps", "token-rate"}.isdisjoint(figure.name for figure in document.figures)
    chapter = next(section for section in document.sections if section.name == "performance")
    assert "Gaps between tokens are not drawn" in chapter.lead
