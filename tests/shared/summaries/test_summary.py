"""What is read of a summary: the headline of lists, the state of a run that ended since, gates of several claims."""

from __future__ import annotations

from tests.shared.reports.builders import MS, claim, evidence, fact, performance_of
from tests.shared.reports.timed import scenario
from vlmhyperbench.domain.scenarios import ArrivalSpec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.summaries.headline import headline_row, scores_of
from vlmhyperbench.summaries.summarising import summarise_run


def test_lists_have_the_metrics_in_the_tasks_order_and_all_else_of_the_row() -> None:
    summary = summarise_run(evidence())
    row, kept = headline_row(summary), scores_of(summary)
    scores = kept["scores"]
    assert isinstance(scores, list)
    assert [score["metric"] for score in scores] == ["exact_match", "anls", "cer"]
    assert {score["metric"]: {name: score[name] for name in score if name != "metric"} for score in scores} == row.pop(
        "metrics"
    )
    assert {name: value for name, value in kept.items() if name != "scores"} == row


def test_a_summary_says_how_its_run_ended_since() -> None:
    summary = summarise_run(evidence())
    assert summary.state == "PARTIAL"
    assert summary.ended(RunState.RUNNING, reason=None, finished_at="") == summary
    failed = summary.ended(RunState.FAILED, reason="no model", finished_at="2026-01-02T00:00:00Z")
    assert (failed.state, failed.reason, failed.finished_at) == ("FAILED", "no model", "2026-01-02T00:00:00Z")
    assert failed.counts == summary.counts
    assert summary.ended(RunState.FAILED, reason="x", finished_at="").finished_at == summary.finished_at


def test_sends_of_two_claims_are_not_held_against_one_schedule() -> None:
    spec = scenario(kind="server", arrivals=ArrivalSpec(rate_per_s=10), requests=40)
    rows = [
        fact(i, "a", "a", scheduled_ns=i * 100 * MS, sent_ns=i * 100 * MS, claim_id="other" if i % 2 else "first")
        for i in range(40)
    ]
    claims = [claim(id="first"), claim(id="other", job_id="another")]
    speeds = performance_of(evidence(rows, spec=spec, metrics=(), claims=claims))
    assert "send_lag_p99_ms" in [gate.name for gate in speeds.gates]
    assert "rate_error_share" not in [gate.name for gate in speeds.gates]


def test_nothing_is_judged_of_a_run_that_asked_nothing() -> None:
    assert performance_of(evidence([fact(0, "a", "a", is_kept=True)])).validity is None
    lost = performance_of(evidence([], total=3))
    assert lost.is_invalid
    assert lost.state is None
