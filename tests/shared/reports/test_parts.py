"""Speeds of runs that were measured in parts: by several claims or on several machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shared.reports.builders import MS, claim, document_of, evidence, fact, performance_of
from tests.shared.reports.reading import limits_of
from tests.support.wording import Wording
from vlmhyperbench.domain.specs import EndpointTarget

IDLE = claim(id="idle", job_id="d", host="elsewhere")
ENDPOINT = EndpointTarget(endpoint="http://engine.example/v1", model_name="m")


def test_rates_of_claims_that_ran_at_the_same_time_are_over_their_summed_times(wording: Wording) -> None:
    rows = [
        fact(0, "a", "a", scheduled_ns=0, latency_ns=100 * MS, stream_end_ns=100 * MS),
        fact(1, "a", "a", scheduled_ns=1050 * MS, latency_ns=100 * MS, stream_end_ns=1150 * MS, claim_id="other"),
        fact(2, "a", "a", scheduled_ns=1060 * MS, latency_ns=10 * MS, stream_end_ns=1070 * MS, claim_id="third"),
    ]
    later = {"anchor_monotonic_ns": 1000 * MS}
    run = evidence(
        rows, claims=[claim(), claim(id="other", job_id="b", **later), claim(id="third", job_id="c", **later)]
    )
    performance = performance_of(run)
    assert performance.window_s == pytest.approx(0.210)
    assert performance.samples_per_s == pytest.approx(3 / 0.210)
    assert (performance.parts, performance.is_interrupted) == (3, False)
    wording(limits_of(document_of(run)))
    assert limits_of(document_of(replace(run, claims=[*run.claims, IDLE]))) == limits_of(document_of(run))
    elsewhere = replace(run, claims=[replace(held, host=held.id) for held in run.claims])
    wording(limits_of(document_of(elsewhere)))
    # An endpoint is a single engine for all claims.
    remote = replace(elsewhere, spec=run.spec.model_copy(update={"target": ENDPOINT}))
    assert performance_of(remote).window_s == pytest.approx(0.150)
    wording(limits_of(document_of(remote)))


def test_a_job_that_was_claimed_again_marks_the_run_as_interrupted(wording: Wording) -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]
    run = evidence(rows, claims=[claim(), claim(id="other")])
    document = document_of(run)
    assert performance_of(run).is_interrupted
    assert document.headline[0]["validity"] == "interrupted"
    wording(limits_of(document))
    wording(document.verdict[1])


def test_a_run_whose_requests_in_flight_were_changed_has_no_speeds_that_compare(wording: Wording) -> None:
    change = {"in_flight": 32, "before": 4, "by": "ann", "at": "2026-01-01T00:00:00+00:00"}
    run = replace(evidence([fact(0, "a", "a"), fact(1, "a", "a")], claims=[claim()]), retunes=[change])
    document = document_of(run)
    assert performance_of(run).is_no_measure
    assert document.headline[0]["validity"] == "retuned"
    wording(limits_of(document))
