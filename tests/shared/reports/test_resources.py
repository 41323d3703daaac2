"""Memory and energy of the engine: summed over claims, per answer and per token, unknown where not sampled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shared.reports.builders import MS, claim, document_of, evidence, fact, performance_of
from tests.shared.reports.reading import tables_of, values_of, words_of
from tests.support.wording import Wording
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


def test_energy_is_the_sum_over_claims_and_is_divided_by_their_answers(wording: Wording) -> None:
    run = evidence(ROWS, claims=[FIRST, NEXT])
    performance = performance_of(run)
    taken = performance.resources
    assert taken is not None
    assert (taken.energy_j, taken.energy_j_per_answer, taken.energy_j_per_1k_tokens) == (600.0, 300.0, 6000.0)
    assert taken.power_w == pytest.approx(600.0 / (performance.window_s or 0))
    assert performance.peak_memory_bytes == 8 * 2**30
    table = tables_of(document_of(run))["resources"]
    assert ("300 J",) in values_of(table)
    wording(words_of(table))


def test_memory_before_the_load_and_its_rise_are_shown(wording: Wording) -> None:
    loaded = SAMPLED | {"accelerator_memory_before_load_bytes": 2 * 2**30}
    rows = [fact(0, "a", "a", vram_before_bytes=7 * 2**30, vram_peak_bytes=8 * 2**30), fact(1, "a", "a")]
    run = evidence(rows, claims=[replace(FIRST, resources=loaded)])
    taken = performance_of(run).resources
    assert taken is not None
    assert (taken.accelerator_before_bytes, taken.accelerator_delta_bytes) == (2 * 2**30, 6 * 2**30)
    assert taken.request_delta_bytes == 2**30
    wording(words_of(tables_of(document_of(run))["resources"]))
    unknown = performance_of(evidence([fact(0, "a", "a")], claims=[FIRST])).resources
    assert unknown is not None
    assert (unknown.accelerator_before_bytes, unknown.accelerator_delta_bytes) == (None, None)
    assert unknown.request_delta_bytes is None


def test_runs_stand_side_by_side_and_an_unknown_value_has_no_cell() -> None:
    first, second = (
        evidence([fact(0, "a", "a")], claims=[held], name=held.id) for held in (FIRST, claim(resources={}))
    )
    section = compared_speeds([summarise_run(run) for run in (first, second)], drawn=[], cut="")
    assert ("300 J", "–") in values_of(tables_of(section)["resources"])
    nothing = evidence([fact(0, "a", "a")], claims=[claim(resources=None)])
    assert "resources" not in tables_of(document_of(nothing))
