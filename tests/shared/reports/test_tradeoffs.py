"""Only of runs that answered for all their requests is it said that nothing beats them; the others are named."""

from __future__ import annotations

from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import MS, claim, comparison_of, evidence, fact, run_spec
from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.domain.specs import StopRule
from vlmhyperbench.reports.document import Section
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_sdk.protocols import Metric, MetricDescription
from vlmhyperbench_text_metrics import ExactMatch

SAID = {"1": "yes", "0": "no"}
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
        fact(no, SAID.get(one), "yes", latency_ns=latency_ms * MS, **FAILED.get(one, {}))
        for no, one in enumerate(answers)
    ]
    claims = [claim(resources={"engine_rss_bytes_peak": memory})]
    return evidence(rows, name=name, id=name, claims=claims, metrics=(metric or ExactMatch(),), **changes)


def _stopped(name: str, answers: str, *, of: int, **changes: int) -> RunEvidence:
    """A run that its rule stopped after these answers."""
    rule = StopRule(metric="exact_match@v1", rule="not_worse", margin=0.1)
    told = {"state": "shown", "baseline_name": "whole", "samples": 2, "of": of, "unscored": 0, "low": 0.2, "high": 1.0}
    spec = run_spec(metrics=(ExactMatch(),), stop=rule)
    return _run(name, answers, total=of, spec=spec, stopping=told, **changes)


def _section(*runs: RunEvidence) -> Section | None:
    sections = comparison_of("e", "demo", "DONE", runs).sections
    return next((section for section in sections if section.name == "trade-offs"), None)


def _drawn(section: Section) -> dict[str, list[str]]:
    """Figure → the runs in it, from left to right."""
    found = [block for block in section.blocks if isinstance(block, FigureSpec)]
    return {figure.name: [str(row[0]) for row in figure.table.rows] for figure in found}


def test_a_run_that_crashed_after_a_few_answers_beats_nothing() -> None:
    whole, slow = _run("whole", "11111110"), _run("slow", "11111100", latency_ms=30, memory=2**21)
    section = _section(whole, slow, _run("crashed", "111", total=8, memory=2**19))
    assert section is not None
    left_out = " Left out for values over a part of the requests: crashed (5 of 8 requests without a row)."
    assert section.lead == (
        "By exact match and median latency, nothing beats whole. By exact match and peak memory, nothing beats whole."
        + left_out
    )
    assert _drawn(section) == {"quality-and-latency": ["whole", "slow"], "quality-and-memory": ["whole", "slow"]}
    assert all(block.note.endswith(left_out) for block in section.blocks if isinstance(block, FigureSpec))


@pytest.mark.parametrize(
    ("partial", "why"),
    [
        (_run("partial", "111-", memory=2**19), "1 of 4 requests lost to the infrastructure"),
        (
            _run("partial", "11-", total=4, memory=2**19),
            "1 of 4 requests without a row and 1 of 4 requests lost to the infrastructure",
        ),
        (_stopped("partial", "11", of=4, memory=2**19), "stopped early by its rule"),
    ],
)
def test_whatever_leaves_a_part_of_the_requests_unanswered_is_named(partial: RunEvidence, why: str) -> None:
    section = _section(_run("whole", "1110"), _run("other", "1100", memory=2**21), partial)
    assert section is not None
    assert section.lead.endswith(
        "By exact match and peak memory, nothing beats whole. "
        f"Left out for values over a part of the requests: partial ({why})."
    )
    assert _drawn(section)["quality-and-memory"] == ["whole", "other"]


def test_the_baseline_too_is_left_out_where_it_crashed() -> None:
    section = _section(_run("base", "11", total=4, memory=2**19), _run("a", "1110"), _run("b", "1100", memory=2**21))
    assert section is not None
    assert _drawn(section)["quality-and-memory"] == ["a", "b"]
    assert "nothing beats a. Left out" in section.lead


def test_what_the_model_failed_and_what_nobody_could_ask_or_score_leave_a_run_in_its_place() -> None:
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
    assert "Left out" not in section.lead


def test_where_too_few_runs_are_whole_that_is_said_instead_of_drawn() -> None:
    section = _section(_run("whole", "1110"), _run("crashed", "11", total=4))
    assert section is not None
    assert section.blocks == ()
    assert section.lead == (
        "By exact match and median latency, fewer than two runs are left to compare. "
        "By exact match and peak memory, fewer than two runs are left to compare. "
        "Left out for values over a part of the requests: crashed (2 of 4 requests without a row)."
    )


def test_a_run_without_both_numbers_is_not_said_to_be_left_out() -> None:
    nothing_answered = _run("lost", "----")
    assert _section(_run("whole", "1110"), nothing_answered) is None
    section = _section(_run("whole", "1110"), _run("other", "1100"), nothing_answered)
    assert section is not None
    assert "lost" not in section.lead


def test_latency_of_another_machine_is_not_laid_beside() -> None:
    elsewhere = _run("elsewhere", "1111", latency_ms=10)
    machine = {"cpu_model": "another", "cpu_threads": 64, "memory_total_bytes": 2**31, "devices": []}
    elsewhere = replace(elsewhere, claims=[replace(one, machine=machine) for one in elsewhere.claims])
    section = _section(_run("whole", "1110"), _run("other", "1100"), elsewhere)
    assert section is not None
    assert {name: set(runs) for name, runs in _drawn(section).items()} == {
        "quality-and-latency": {"whole", "other"},
        "quality-and-memory": {"whole", "other", "elsewhere"},
    }
    assert "Left out" not in section.lead


def test_a_metric_of_which_nobody_says_which_end_is_good_has_no_front() -> None:
    class Undirected(ExactMatch):
        @property
        def description(self) -> MetricDescription:
            return replace(super().description, direction=None)

    def run(name: str, answers: str) -> RunEvidence:
        return _run(name, answers, metric=Undirected())

    assert _section(run("whole", "1110"), run("other", "1100")) is None
