"""How the comparison writes memory and costs."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from tests.shared.reports.test_comparing import GOOD, run, samples
from vlmhyperbench.reports.comparing import compare, rows, tables
from vlmhyperbench.reports.document import Table


def test_memory_is_written_in_mib_and_what_did_not_change_has_no_minus() -> None:
    before, after = samples(GOOD), samples(run("alike", ["yes"] * 6))
    most, less = ({"peak_memory_bytes": peak, "peak_memory_of": "engine"} for peak in (2**20 * 60, 2**20 * 60 - 1000))
    compared = compare(
        replace(before, side=replace(before.side, headline=most)),
        replace(after, side=replace(after.side, headline=less)),
    )
    speeds = next(one for one in tables(compared) if one.name == "speeds")
    assert speeds.rows[-1] == ("peak memory, MiB", "60.0", "60.0", "+0%")


def test_costs_are_compared_where_both_are_known_in_one_currency() -> None:
    before, after = samples(GOOD), samples(run("alike", ["yes"] * 6))
    euros, dearer, dollars, unknown = (
        {"cost_total": total, "cost_per_answer": each, "cost_currency": currency, "cost_unknown": why}
        for total, each, currency, why in (
            (1.2, 0.2, "EUR", None),
            (1.5, 0.25, "EUR", None),
            (1.5, 0.25, "USD", None),
            (None, None, None, "nobody wrote prices"),
        )
    )

    def costs(first: dict[str, JsonValue], second: dict[str, JsonValue]) -> Table | None:
        compared = compare(
            replace(before, side=replace(before.side, headline=first)),
            replace(after, side=replace(after.side, headline=second)),
        )
        assert (rows(compared)["costs_not_compared"] is None) == (first is euros and second is dearer)
        return next((one for one in tables(compared) if one.name == "costs"), None)

    known, apart, half = costs(euros, dearer), costs(euros, dollars), costs(euros, unknown)
    assert known is not None
    assert known.rows == (
        ("per answer", "0.2000\u00a0EUR", "0.2500\u00a0EUR", "+25%"),
        ("in all", "1.200\u00a0EUR", "1.500\u00a0EUR", "+25%"),
    )
    assert apart is not None
    assert [row[-1] for row in apart.rows] == ["–", "–"]
    assert half is not None
    assert half.rows[0][2:] == ("unknown", "–")
    assert "nobody wrote prices" in half.note
    assert costs(unknown, unknown) is None
