"""Gaps between tokens, and tokens over time, as a report draws them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shared.reports.builders import claim, document_of, evidence, fact
from tests.shared.summaries.test_tokens import GRID, token_rows
from vlmhyperbench.summaries.records import TokenEvents
from vlmhyperbench.summaries.tokens import fold, no_events


def test_a_report_draws_gaps_and_tokens_over_time() -> None:
    events, _ = fold(no_events(GRID), token_rows((0, [10, 30, 120], 3), (50, [10, 20], None)), {})
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
