"""Gaps between tokens, and tokens over time, as a report draws them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shared.reports.builders import claim, document_of, evidence, fact
from tests.shared.reports.reading import figures_of, section_of
from tests.shared.summaries.test_tokens import GRID, token_rows
from tests.support.wording import Wording
from vlmhyperbench.summaries.records import TokenEvents
from vlmhyperbench.summaries.tokens import fold, no_events


def test_a_report_draws_gaps_and_tokens_over_time(wording: Wording) -> None:
    events, _ = fold(no_events(GRID), token_rows((0, [10, 30, 120], 3), (50, [10, 20], None)), {})
    document = document_of(evidence([fact(0, "a", "a")], metrics=(), claims=[claim()], events=events))
    figures = figures_of(document)
    wording(figures["gaps"].alt)
    wording(figures["gaps"].note)
    wording(figures["token-rate"].note)
    performance = document.runs[str(document.id)]["performance"]
    assert isinstance(performance, dict)
    assert isinstance(performance["gaps_ms"], dict)
    assert (performance["gaps_ms"]["n"], performance["gaps_ms"]["within"]) == (3, pytest.approx(0.005))


def test_answers_in_a_single_event_have_no_gaps_to_draw(wording: Wording) -> None:
    events: TokenEvents = replace(no_events(GRID), uncounted=1)
    document = document_of(evidence([fact(0, "a", "a")], metrics=(), claims=[claim()], events=events))
    assert not {"gaps", "token-rate"} & set(figures_of(document))
    wording(section_of(document, "performance").lead)
