"""What lists read of a summary, and the final state of its run."""

from __future__ import annotations

from tests.shared.reports.builders import claim, evidence, run_spec
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.summaries.columns import MAX_TEXT_CHARACTERS, columns_of
from vlmhyperbench.summaries.headline import headline_row, scores_of
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_sdk.types import JsonObject


def test_the_stored_headline_has_metrics_in_the_tasks_order_and_every_other_number_of_the_row() -> None:
    summary = summarise_run(evidence())
    row, stored = headline_row(summary), scores_of(summary)
    scores = stored["scores"]
    assert isinstance(scores, list)
    assert [score["metric"] for score in scores] == ["exact_match", "anls", "cer"]
    assert {score["metric"]: {name: score[name] for name in score if name != "metric"} for score in scores} == row.pop(
        "metrics"
    )
    assert {name: value for name, value in stored.items() if name != "scores"} == row


def test_a_summary_takes_the_final_state_of_its_run() -> None:
    summary = summarise_run(evidence())
    assert summary.state == "PARTIAL"
    assert summary.ended(RunState.RUNNING, reason=None, finished_at="") == summary
    failed = summary.ended(RunState.FAILED, reason="no model", finished_at="2026-01-02T00:00:00Z")
    assert (failed.state, failed.reason, failed.finished_at) == ("FAILED", "no model", "2026-01-02T00:00:00Z")
    assert failed.counts == summary.counts
    assert summary.ended(RunState.FAILED, reason="x", finished_at="").finished_at == summary.finished_at


def test_the_columns_of_a_summary_are_plain_values_with_the_primary_metric_and_what_was_used() -> None:
    summary = summarise_run(evidence())
    columns = columns_of(summary)
    score = summary.metrics[0]
    assert (columns["metric"], columns["metrics.exact_match"]) == ("exact_match", score.value)
    assert (columns["metrics.exact_match.low"], columns["metrics.exact_match.high"]) == (score.low, score.high)
    assert columns["latency_ms.p99"] == summary.performance.times["latency_ms"].p99
    assert columns["manifest.host"] == summary.generating[0].host
    assert "name" not in columns
    assert all(isinstance(value, str | int | float | bool) for value in columns.values())
    assert all(len(value) <= MAX_TEXT_CHARACTERS for value in columns.values() if isinstance(value, str))


def test_a_summary_of_an_endpoint_without_metrics_and_claims_has_no_columns_of_them() -> None:
    remote = EndpointTarget(endpoint="http://host/v1", model_name="remote")
    columns = columns_of(summarise_run(evidence(metrics=(), spec=run_spec(target=remote), claims=[])))
    assert columns["requests_missing"] == 0
    assert not [name for name in columns if name.startswith(("metric", "manifest.", "vram", "engine_rss"))]


def test_a_run_is_degraded_only_by_a_step_that_costs_quality_of_a_claim_that_answers_for_it() -> None:
    lossless: JsonObject = {"rung": "smaller ubatch", "before": "ubatch=512", "after": "ubatch=64", "is_lossy": False}
    lossy: JsonObject = {"rung": "smaller quantisation", "before": "F16", "after": "Q4_0", "is_lossy": True}
    for job, given, is_degraded in (
        ("GENERATE", [], False),
        ("GENERATE", [lossless], False),
        ("GENERATE", [lossless, lossy], True),
        ("SCORE", [lossy], False),
    ):
        claims = [claim(id=name, job=job, environment={"fallbacks": given}) for name in ("first", "second")]
        summary = summarise_run(evidence(claims=claims))
        assert summary.is_degraded is is_degraded
        assert summary.fallbacks == (() if job == "SCORE" else tuple(given))
