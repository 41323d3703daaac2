"""Only runs that have a row for each request take part in the trade-offs; the others are named with a reason."""

from __future__ import annotations

from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import MS, claim, comparison_of, evidence, fact, run_spec
from tests.shared.reports.reading import figures_of
from tests.support.wording import Wording
from vlmhyperbench.domain.specs import StopRule
from vlmhyperbench.reports.document import Section
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_sdk.protocols import Metric, MetricDescription
from vlmhyperbench_text_metrics.exact_match import ExactMatch

TEXTS = {"1": "yes", "0": "no"}
FAILED = {
    "-": {"failure": "infrastructure", "error_code": "connection_lost"},
    "m": {"failure": "model", "error_code": "timeout"},
    "u": {"failure": "infrastructure", "error_code": "unreadable_sample", "sent_ns": None, "scheduled_ns": None},
}


def _run(
    name: str,
    answers: str,
    *,
    memory: int = 2**20,
    latency_ms: int = 20,
    metric: Metric | None = None,
    **changes: object,
) -> RunEvidence:
    """A run whose requests are right (1), wrong (0), lost (-), failed by the model (m) or of no readable sample (u)."""
    rows = [
        fact(no, TEXTS.get(letter), "yes", latency_ns=latency_ms * MS, **FAILED.get(letter, {}))
        for no, letter in enumerate(answers)
    ]
    claims = [claim(resources={"engine_rss_bytes_peak": memory})]
    return evidence(rows, name=name, id=name, claims=claims, metrics=(metric or ExactMatch(),), **changes)


def _stopped(name: str, answers: str, *, of: int, **changes: int) -> RunEvidence:
    """A run that its rule stopped after these answers."""
    rule = StopRule(metric="exact_match@v1", rule="not_worse", margin=0.1)
    outcome = {
        "state": "shown",
        "baseline_name": "base",
        "samples": 2,
        "of": of,
        "unscored": 0,
        "low": 0.2,
        "high": 1.0,
    }
    spec = run_spec(metrics=(ExactMatch(),), stop=rule)
    return _run(name, answers, total=of, spec=spec, stopping=outcome, **changes)


def _section(*runs: RunEvidence) -> Section | None:
    sections = comparison_of("e", "demo", "DONE", runs).sections
    return next((section for section in sections if section.name == "trade-offs"), None)


def _drawn(section: Section) -> dict[str, list[str]]:
    """Return the runs of each figure, from left to right."""
    return {name: [str(row[0]) for row in figure.table.rows] for name, figure in figures_of(section).items()}


def test_a_run_that_crashed_after_a_few_answers_is_left_out(wording: Wording) -> None:
    whole, slow = _run("whole", "11111110"), _run("slow", "11111100", latency_ms=30, memory=2**21)
    section = _section(whole, slow, _run("crashed", "111", total=8, memory=2**19))
    assert section is not None
    assert _drawn(section) == {"quality-and-latency": ["whole", "slow"], "quality-and-memory": ["whole", "slow"]}
    wording(section.lead)
    for figure in figures_of(section).values():
        wording(figure.note)


@pytest.mark.parametrize(
    "partial",
    [
        _run("partial", "111-", memory=2**19),
        _run("partial", "11-", total=4, memory=2**19),
        _stopped("partial", "11", of=4, memory=2**19),
    ],
    ids=["lost", "lost and without a row", "stopped"],
)
def test_the_reason_why_a_run_is_left_out_is_named(partial: RunEvidence, wording: Wording) -> None:
    section = _section(_run("whole", "1110"), _run("other", "1100", memory=2**21), partial)
    assert section is not None
    assert _drawn(section)["quality-and-memory"] == ["whole", "other"]
    wording(section.lead)


def test_a_baseline_that_crashed_is_left_out_too(wording: Wording) -> None:
    section = _section(_run("base", "11", total=4, memory=2**19), _run("a", "1110"), _run("b", "1100", memory=2**21))
    assert section is not None
    assert _drawn(section)["quality-and-memory"] == ["a", "b"]
    wording(section.lead)


def test_failures_of_the_model_unreadable_samples_and_unscored_answers_leave_no_run_out(wording: Wording) -> None:
    unscored = _run("unscored", "1111")
    [exact] = unscored.scored
    nothing = polars.col("ordinal") == 3
    measures = exact.measures.with_columns(
        value=polars.when(nothing).then(None).otherwise("value"),
        outcome=polars.when(nothing).then(polars.lit("unscored")).otherwise("outcome"),
    )
    unscored = replace(unscored, scored=[replace(exact, measures=measures)])
    section = _section(_run("whole", "1110"), _run("failed", "111m"), _run("unreadable", "110u"), unscored)
    assert section is not None
    assert sorted(_drawn(section)["quality-and-memory"]) == ["failed", "unreadable", "unscored", "whole"]
    wording(section.lead)


def test_with_fewer_than_two_complete_runs_nothing_is_drawn_and_the_reason_is_named(wording: Wording) -> None:
    section = _section(_run("whole", "1110"), _run("crashed", "11", total=4))
    assert section is not None
    assert section.blocks == ()
    wording(section.lead)


def test_a_run_without_both_numbers_is_not_named_as_left_out() -> None:
    nothing_answered = _run("lost", "----")
    assert _section(_run("whole", "1110"), nothing_answered) is None
    section = _section(_run("whole", "1110"), _run("other", "1100"), nothing_answered)
    assert section is not None
    assert "lost" not in section.lead


def test_latency_of_another_machine_is_not_compared(wording: Wording) -> None:
    elsewhere = _run("elsewhere", "1111", latency_ms=10)
    machine = {"cpu_model": "another", "cpu_threads": 64, "memory_total_bytes": 2**31, "devices": []}
    elsewhere = replace(elsewhere, claims=[replace(held, machine=machine) for held in elsewhere.claims])
    section = _section(_run("whole", "1110"), _run("other", "1100"), elsewhere)
    assert section is not None
    assert {name: set(runs) for name, runs in _drawn(section).items()} == {
        "quality-and-latency": {"whole", "other"},
        "quality-and-memory": {"whole", "other", "elsewhere"},
    }
    wording(section.lead)


def test_a_metric_without_a_direction_has_no_front() -> None:
    class Undirected(ExactMatch):
        @property
        def description(self) -> MetricDescription:
            return replace(super().description, direction=None)

    def run(name: str, answers: str) -> RunEvidence:
        return _run(name, answers, metric=Undirected())

    assert _section(run("whole", "1110"), run("other", "1100")) is None
