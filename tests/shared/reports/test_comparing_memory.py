"""How the comparison writes memory and costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import JsonValue

from tests.shared.reports.builders import run_spec
from tests.shared.reports.reading import values_of
from tests.shared.reports.test_comparing import BASELINE, GOOD, run, samples, table_of
from tests.support.wording import Wording
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.reports.comparing import compare, rows, tables
from vlmhyperbench.reports.document import Table
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def test_memory_is_written_in_mib_and_an_unchanged_value_has_no_minus() -> None:
    before, after = samples(GOOD), samples(run("alike", ["yes"] * 6))
    more, less = ({"peak_memory_bytes": peak, "peak_memory_of": "engine"} for peak in (2**20 * 60, 2**20 * 60 - 1000))
    compared = compare(
        replace(before, side=replace(before.side, headline=more)),
        replace(after, side=replace(after.side, headline=less)),
    )
    assert values_of(table_of(compared, "speeds"))[-1] == ("60.0", "60.0", "+0%")


def test_costs_are_compared_where_both_are_known_in_one_currency(wording: Wording) -> None:
    before, after = samples(GOOD), samples(run("alike", ["yes"] * 6))
    euros, dearer, dollars, unknown = (
        {"cost_total": total, "cost_per_answer": each, "cost_currency": currency, "cost_unknown": why}
        for total, each, currency, why in (
            (1.2, 0.2, "EUR", None),
            (1.5, 0.25, "EUR", None),
            (1.5, 0.25, "USD", None),
            (None, None, None, "no prices"),
        )
    )

    def costs(first: dict[str, JsonValue], second: dict[str, JsonValue]) -> Table | None:
        compared = compare(
            replace(before, side=replace(before.side, headline=first)),
            replace(after, side=replace(after.side, headline=second)),
        )
        assert (rows(compared)["costs_not_compared"] is None) == (first is euros and second is dearer)
        return next((table for table in tables(compared) if table.name == "costs"), None)

    known, apart, half = costs(euros, dearer), costs(euros, dollars), costs(euros, unknown)
    assert known is not None
    assert known.rows == (
        ("per answer", "0.2000\u00a0EUR", "0.2500\u00a0EUR", "+25%"),
        ("total", "1.200\u00a0EUR", "1.500\u00a0EUR", "+25%"),
    )
    assert apart is not None
    assert [row[-1] for row in apart.rows] == ["–", "–"]
    assert half is not None
    assert half.rows[0][2:] == ("unknown", "–")
    wording(apart.note)
    wording(half.note)
    assert costs(unknown, unknown) is None


TOKENS = Prices(prompt_per_million=2.5, completion_per_million=10.0)
HOURS = Prices(per_hour=36.0)


def priced(of: RunEvidence, prices: Prices) -> RunEvidence:
    return replace(of, spec=of.spec.model_copy(update={"prices": prices}))


def costs_of(baseline: RunEvidence, other: RunEvidence) -> Table:
    return table_of(compare(samples(baseline), samples(other)), "costs")


def changes_of(table: Table) -> dict[object, object]:
    return {row[0]: row[-1] for row in table.rows}


ALIKE = {"per answer": "+0%", "per million tokens": "+0%", "total": "+0%"}
NOTHING = dict.fromkeys(ALIKE, "–")
BUSIER = run_spec(metrics=(ExactMatch(), Cer()), on_invalid="zero", scenario=ScenarioSpec(in_flight=8))


@pytest.mark.parametrize(
    "other",
    [
        run("elsewhere", ["yes"] * 6, manifest_id="8" * 64),
        run("busier", ["yes"] * 6, spec=BUSIER),
        BASELINE,  # its speeds are INVALID
    ],
)
def test_a_total_or_hourly_cost_is_compared_only_where_speeds_are(other: RunEvidence) -> None:
    for prices in (TOKENS, HOURS):
        assert changes_of(costs_of(priced(GOOD, prices), priced(GOOD, prices))) == ALIKE
    by_token = costs_of(priced(GOOD, TOKENS), priced(other, TOKENS))
    assert changes_of(by_token) == {**ALIKE, "total": "–"}
    by_hour = costs_of(priced(GOOD, HOURS), priced(other, HOURS))
    assert changes_of(by_hour) == NOTHING
    mixed = costs_of(priced(GOOD, TOKENS), priced(other, HOURS))
    assert changes_of(mixed) == NOTHING
    assert by_token.note
    assert by_hour.note


def test_a_cost_by_the_hour_is_invalid_in_a_comparison_where_the_speeds_are() -> None:
    by_hour, by_token = (costs_of(priced(BASELINE, prices), priced(GOOD, prices)) for prices in (HOURS, TOKENS))
    assert by_hour.title == "Cost: INVALID"
    assert BASELINE.name in by_hour.note
    assert GOOD.name not in by_hour.note
    assert by_token.title == "Cost"
