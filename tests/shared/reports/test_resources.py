"""What the engine took: summed over claims, per answer and per token, and silent where it is nobody's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shared.reports.builders import MS, claim, document_of, evidence, fact, performance_of
from tests.shared.reports.timed import cells_of, chapter_of, table_of
from vlmhyperbench.reports.sections.speed import compared_speeds
from vlmhyperbench.summaries.summarising import summarise_run

SAMPLED = {
    "samples": 600,
    "coverage": 0.98,
    "cpu_util_percent_mean": 20.0,
    "engine_rss_bytes_peak": 3 * 2**30,
    "accelerator_memory_used_bytes_peak": 8 * 2**30,
    "accelerator_util_percent_mean": 75.0,
    "energy_accelerator_j": 300.0,
}
FIRST = claim(resources=SAMPLED, started_at="2026-01-01T00:00:00Z", ended_at="2026-01-01T00:01:00Z")
NEXT = replace(FIRST, id="next", job_id="next", started_at="2026-01-01T00:01:00Z", ended_at="2026-01-01T00:02:00Z")
ROWS = [
    fact(0, "a", "a", latency_ns=1000 * MS, stream_end_ns=1000 * MS, completion_tokens=50),
    fact(1, "a", "a", latency_ns=1000 * MS, stream_end_ns=1000 * MS, completion_tokens=50, claim_id="next"),
]


def test_energy_is_that_of_all_claims_by_what_they_brought() -> None:
    run = evidence(ROWS, claims=[FIRST, NEXT])
    performance = performance_of(run)
    taken = performance.resources
    assert taken is not None
    assert (taken.energy_j, taken.energy_j_per_answer, taken.energy_j_per_1k_tokens) == (600.0, 300.0, 6000.0)
    assert taken.power_w == pytest.approx(600.0 / (performance.window_s or 0))
    assert performance.peak_memory_bytes == 8 * 2**30
    assert ("energy per answer", "300 J") in cells_of(table_of(chapter_of(document_of(run)), "resources"))


def test_two_claims_on_one_machine_at_a_time_have_no_energy_of_their_own() -> None:
    for beside, energy_j in ((FIRST.started_at, None), (NEXT.started_at, 600.0)):
        found = performance_of(evidence(ROWS, claims=[FIRST, replace(NEXT, started_at=beside)])).resources
        assert found is not None
        assert found.energy_j == energy_j
    apart = performance_of(evidence(ROWS, claims=[FIRST, replace(NEXT, started_at=FIRST.started_at, host="other")]))
    assert apart.resources is not None
    assert apart.resources.energy_j == 600.0


def test_a_long_claim_counts_more_than_a_short_one() -> None:
    short = replace(NEXT, resources=SAMPLED | {"samples": 60, "accelerator_util_percent_mean": 9.0})
    found = performance_of(evidence(ROWS, claims=[FIRST, short])).resources
    assert found is not None
    assert found.accelerator_share == pytest.approx((600 * 0.75 + 60 * 0.09) / 660)


def test_of_a_claim_that_left_nothing_no_sample_exists() -> None:
    found = performance_of(evidence(ROWS, claims=[FIRST, replace(NEXT, resources=None)])).resources
    assert found is not None
    assert found.coverage == 0.0


def test_energy_that_one_claim_did_not_sample_is_not_known() -> None:
    blind = replace(NEXT, resources={"engine_rss_bytes_peak": 2**30})
    found = performance_of(evidence(ROWS, claims=[FIRST, blind])).resources
    assert found is not None
    assert (found.energy_j, found.power_w, found.engine_memory_bytes) == (None, None, 3 * 2**30)


def test_runs_stand_side_by_side_and_who_knows_nothing_has_no_cell() -> None:
    one, two = (evidence([fact(0, "a", "a")], claims=[held], name=held.id) for held in (FIRST, claim(resources={})))
    section = compared_speeds([summarise_run(run) for run in (one, two)], drawn=[], cut="")
    rows = {row[0]: row[1:] for row in table_of(section, "resources").rows}
    assert rows["energy of the accelerators"] == ("300\u00a0J", None)
    nothing = evidence([fact(0, "a", "a")], claims=[claim(resources=None)])
    chapter = chapter_of(document_of(nothing))
    assert not [block for block in chapter.blocks if getattr(block, "name", "") == "resources"]
