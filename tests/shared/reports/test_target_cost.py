"""The cost of a run's own answers: computed by hand, shown with the source of the prices, or unknown with a reason."""

from __future__ import annotations

import datetime
from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import MS, comparison_of, document_of, evidence, fact, run_spec
from tests.shared.reports.reading import blocks_of, tables_of, words_of
from tests.support.wording import Wording
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.reports.document import Document, Facts, Tile
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_text_metrics.exact_match import ExactMatch

TOKENS = Prices(
    prompt_per_million=2.5, completion_per_million=10.0, source="the price list", date=datetime.date(2026, 11, 1)
)
HOURS = Prices(per_hour=36.0, currency="EUR")
ROWS = [
    fact(0, "yes", "yes"),
    fact(1, "no", "yes"),
    fact(2, None, "yes", prompt_tokens=None, completion_tokens=None),
    fact(3, "yes", "yes", is_reused=True, prompt_tokens=10**6),
]


def priced(prices: Prices | None, **changes: object) -> RunEvidence:
    spec = run_spec(metrics=(ExactMatch(),)).model_copy(update={"prices": prices, **changes})
    return evidence(ROWS, metrics=(ExactMatch(),), spec=spec)


def row_of(document: Document, no: int = 0) -> dict[str, str]:
    table = tables_of(document)["cost"]
    return {column.title: str(cell) for column, cell in zip(table.columns, table.rows[no], strict=True)}


def test_only_answers_to_the_requests_of_the_run_itself_count() -> None:
    headline = document_of(priced(TOKENS)).headline[0]
    # two answers of 100 and 11 tokens: 200 x 2.5 + 22 x 10 millionths
    assert headline["cost_total"] == pytest.approx(0.00072)
    assert headline["cost_per_answer"] == pytest.approx(0.00036)
    assert headline["cost_per_million_tokens"] == pytest.approx(720 / 222)
    assert (headline["cost_currency"], headline["cost_unknown"]) == ("USD", None)


def test_an_hour_is_counted_from_the_first_request_to_the_last_answer(wording: Wording) -> None:
    run = priced(HOURS)
    document = document_of(run)
    window_s = document.runs[run.id]["performance"]["window_s"]
    assert document.headline[0]["cost_total"] == pytest.approx(36.0 * window_s / 3600)
    assert document.headline[0]["cost_basis"] == "hours"
    wording(words_of(tables_of(document)["cost"]), HOURS=f"{window_s / 3600:.4g}")


def cost_tiles(document: Document) -> list[Tile]:
    """Return the tiles whose value is an amount of money."""
    return [tile for tile in document.tiles if tile.value.endswith(("USD", "EUR"))]


def test_a_cost_by_the_hour_is_void_where_the_speeds_are() -> None:
    for prices, basis, mark in ((HOURS, "hours", "\u00a0· INVALID"), (TOKENS, "tokens", "")):
        late = priced(prices)
        late = replace(late, facts=late.facts.with_columns(sent_ns=polars.col("scheduled_ns") + 3 * MS))
        document = document_of(late)
        assert (document.headline[0]["cost_basis"], document.headline[0]["validity"]) == (basis, "invalid")
        [tile] = cost_tiles(document)
        assert (tile.label.endswith(mark), tile.tone) == (True, "bad" if mark else "neutral")
        assert tables_of(document)["cost"].title == f"Cost{mark}"
        several = comparison_of("e", "Experiment", "DONE", [late, replace(late, id="other", name="other")])
        assert tables_of(several)["cost"].title == "Cost"
        assert row_of(several, 1)["run"] == f"other{mark}"


def test_a_report_shows_the_cost_with_source_and_date(wording: Wording) -> None:
    document = document_of(priced(TOKENS))
    wording(words_of(tables_of(document)["cost"]))
    [tile] = cost_tiles(document)
    wording(f"{tile.label}: {tile.value}, {tile.detail}")
    facts = [block for block in blocks_of(document) if isinstance(block, Facts)]
    [prices] = [text for block in facts for label, text in block.items if label == "prices"]
    wording(prices)


def test_an_unknown_cost_has_no_number_and_a_reason() -> None:
    document = document_of(priced(None, unpriced="no prices"))
    assert set(row_of(document).values()) == {"unknown", "no prices"}
    assert (document.headline[0]["cost_total"], document.headline[0]["cost_unknown"]) == (None, "no prices")
    assert cost_tiles(document) == []


def test_runs_of_different_currencies_stand_side_by_side_without_comparison() -> None:
    other = replace(priced(HOURS), id="other", name="other")
    document = comparison_of("e", "Experiment", "DONE", [priced(TOKENS), other])
    assert [row_of(document, no)["per answer"].split("\u00a0")[1] for no in (0, 1)] == ["USD", "EUR"]
