"""A summary as JSON: reading returns the value that was written, and refuses anything else."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.shared.reports.builders import evidence, fact, run_spec
from tests.shared.reports.timed import CLIENT, timed
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.summaries.codec import from_json, to_json
from vlmhyperbench.summaries.records import Disturber, JudgeUse
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.errors import InvalidInput

JUDGE = JudgeUse(metric="judged@v1", requests=8, kept=2, failed=1, busy_s=1.5, answers=5, completion_tokens=12)
PRICES = Prices(prompt_per_million=2.5, completion_per_million=10.0, source="a list", date=datetime.date(2026, 11, 1))


def full() -> RunSummary:
    """Summarise a run with groups, failures, times, a judge, a disturber and prices."""
    run = evidence(judges=(JUDGE,), stopping={"state": "shown", "of": 9, "low": [0.1, None]})
    disturber = Disturber(claim_id="other", run_id=None, run_name=None, is_stranger=True)
    claims = [replace(run.claims[0], client=CLIENT, disturbed_by=(disturber,))]
    return summarise_run(replace(run, claims=claims, spec=run.spec.model_copy(update={"prices": PRICES})))


@pytest.mark.parametrize("make", [full, lambda: summarise_run(timed()), lambda: summarise_run(evidence([]))])
def test_reading_returns_the_summary_that_was_written(make: Callable[[], RunSummary]) -> None:
    summary = make()
    content = to_json(summary)
    assert to_json(from_json(content)) == content
    again = from_json(content)
    assert (again.counts, again.metrics, again.groups) == (summary.counts, summary.metrics, summary.groups)
    assert (again.performance.times, again.performance.validity) == (
        summary.performance.times,
        summary.performance.validity,
    )
    assert again.spec == summary.spec


def test_a_summary_contains_no_part_of_an_address_that_could_be_secret() -> None:
    target = EndpointTarget(endpoint="https://user:password@engine.example/v1?key=secret", model_name="m")
    content = to_json(summarise_run(evidence([fact(0, "a", "a")], spec=run_spec(target=target), metrics=())))
    assert b"engine.example/v1" in content
    assert b"password" not in content
    assert b"key=secret" not in content


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Write a summary whose JSON was changed."""
    stored = json.loads(to_json(full()))
    change(stored)
    return json.dumps(stored).encode()


@pytest.mark.parametrize(
    ("change", "location"),
    [
        (lambda stored: stored.update(schema="vlmhb/summary/v0"), "schema"),
        (lambda stored: stored.pop("counts"), "summary lacks 'counts'"),
        (lambda stored: stored.update(novelty=1), "'novelty'"),
        (lambda stored: stored["counts"].update(answered="5"), "summary.counts.answered"),
        (lambda stored: stored["counts"].update(answered=True), "summary.counts.answered"),
        (lambda stored: stored["metrics"][0]["interval"].update(method="guess"), "summary.metrics[0].interval.method"),
        (lambda stored: stored.update(groups=[]), "summary.groups"),
        (lambda stored: stored["performance"]["times"].update(latency_ms=3), "summary.performance.times.latency_ms"),
        (lambda stored: stored["spec"].update(task=None), "summary.spec.task"),
    ],
)
def test_anything_but_a_summary_is_refused_with_the_location(
    change: Callable[[dict[str, Any]], object], location: str
) -> None:
    with pytest.raises(InvalidInput, match=location.replace("[", r"\[").replace("]", r"\]")):
        from_json(changed(change))
