"""Validity gates of a run: what they count, and what they cannot know."""

from __future__ import annotations

from dataclasses import replace

import numpy
import polars

from tests.shared.reports.builders import MS, claim, evidence, fact, performance_of
from tests.shared.reports.timed import CLIENT, scenario, timed
from vlmhyperbench.domain.scenarios import ArrivalSpec, Slo
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.records import Disturber

TWO_CLAIMS = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]


def test_a_closed_loop_whose_answers_have_no_first_token_is_checked_by_its_mean_lag_only() -> None:
    run = timed()
    whole = replace(run, facts=run.facts.with_columns(ttft_user_ns=polars.lit(None, polars.Int64)))
    assert [gate.name for gate in performance_of(whole).gates[5:]] == ["send_lag_mean_ms"]


def test_a_claim_that_did_not_record_its_busy_share_leaves_the_gate_unknown() -> None:
    claims = [claim(client=CLIENT), claim(id="other", job_id="b")]
    performance = performance_of(evidence(TWO_CLAIMS, claims=claims, metrics=()))
    assert [gate.name for gate in performance.gates if gate.value is None] == ["client_busy_share"]
    assert performance.harness is not None
    assert (performance.harness.recorded, performance.harness.claims, performance.harness.core_share) == (1, 2, None)


def test_one_inference_that_disturbed_two_shards_is_counted_once() -> None:
    disturber = Disturber(claim_id="c1a1m000-1", run_id="r2222222-2", run_name="quiet")
    claims = [claim(client=CLIENT, disturbed_by=(disturber,)), claim(id="other", job_id="b", disturbed_by=(disturber,))]
    gates = {gate.name: gate.value for gate in performance_of(evidence(TWO_CLAIMS, claims=claims)).gates}
    assert gates["disturbers"] == 1


def test_a_claim_that_did_not_record_its_machine_leaves_disturbers_unknown() -> None:
    claims = [claim(client=CLIENT), claim(id="other", job_id="b", client=CLIENT, disturbed_by=None)]
    performance = performance_of(evidence(TWO_CLAIMS, claims=claims, metrics=()))
    assert [gate.name for gate in performance.gates if gate.value is None] == ["disturbers"]
    assert performance.state == "not known"


def test_samples_that_could_not_be_read_are_no_failures_of_the_target() -> None:
    rows = [fact(0, "a", "a"), fact(1, None, "a", error_code="unreadable_sample", sent_ns=None, scheduled_ns=None)]
    performance = performance_of(evidence(rows, metrics=(), claims=[claim(client=CLIENT)]))
    assert (performance.state, performance.failed) == ("valid", 0)


def open_loop() -> RunEvidence:
    """Make a run whose Poisson arrivals were all sent on time."""
    instants = numpy.cumsum(numpy.random.default_rng(1).exponential(0.05e9, 200)).astype(int).tolist()
    spec = scenario(kind="server", arrivals=ArrivalSpec(rate_per_s=20), requests=200)
    rows = [fact(i, "a", "a", scheduled_ns=at, sent_ns=at, stream_end_ns=at + 20 * MS) for i, at in enumerate(instants)]
    return evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)])


def bunched(run: RunEvidence) -> RunEvidence:
    """Make a run whose requests were sent every half a second only."""
    return replace(run, facts=run.facts.with_columns(sent_ns=polars.col("scheduled_ns") // (500 * MS) * (500 * MS)))


def test_the_sends_of_an_open_loop_are_compared_with_its_schedule() -> None:
    good, bad = performance_of(open_loop()), performance_of(bunched(open_loop()))
    assert [gate.name for gate in good.gates[5:]] == [
        *("send_lag_p99_ms", "rate_error_share", "dispersion_error", "sends_like_process_p"),
    ]
    assert good.state == "valid"
    assert (bad.state, {gate.name for gate in bad.gates if not gate.ok}) == (
        "invalid",
        {"rate_error_share", "dispersion_error", "sends_like_process_p"},
    )


def test_sends_of_two_claims_are_not_compared_with_one_schedule() -> None:
    spec = scenario(kind="server", arrivals=ArrivalSpec(rate_per_s=10), requests=40)
    rows = [
        fact(i, "a", "a", scheduled_ns=i * 100 * MS, sent_ns=i * 100 * MS, claim_id="other" if i % 2 else "first")
        for i in range(40)
    ]
    claims = [claim(id="first"), claim(id="other", job_id="another")]
    speeds = performance_of(evidence(rows, spec=spec, metrics=(), claims=claims))
    assert "send_lag_p99_ms" in [gate.name for gate in speeds.gates]
    assert "rate_error_share" not in [gate.name for gate in speeds.gates]


def test_a_run_without_requests_of_its_own_has_no_validity() -> None:
    assert performance_of(evidence([fact(0, "a", "a", is_reused=True)])).validity is None
    lost = performance_of(evidence([], total=3))
    assert lost.is_invalid
    assert lost.state is None


def _rules(run: RunEvidence) -> dict[str, tuple[bool, float | None]]:
    return {gate.name: (gate.ok, gate.value) for gate in performance_of(run).gates[5:]}


def test_a_run_by_a_preset_is_valid_only_if_it_keeps_its_rules() -> None:
    limits = Slo(limits_ms={"ttft_p99": 100.0})
    arrivals = ArrivalSpec(rate_per_s=20)
    spec = scenario(kind="server", arrivals=arrivals, requests=200, preset="official", slo=limits)
    run = open_loop()
    rules = _rules(replace(run, spec=spec))
    assert (rules["duration_s"][0], rules["min_requests"], rules["ttft_p99_over"][0]) == (False, (False, 200.0), False)
    quick = scenario(kind="server", arrivals=arrivals, requests=200, preset="quick")
    assert _rules(replace(run, spec=quick)) == _rules(run)


def test_one_request_at_a_time_has_a_certified_p90_by_a_preset() -> None:
    rules = _rules(timed(64, spec=scenario(kind="single_stream", preset="official")))
    assert (rules["min_requests"], rules["certified_latency_p90_ms"]) == ((True, 64.0), (True, 50.0))
    few = _rules(timed(10, spec=scenario(kind="single_stream", preset="official")))
    assert (few["min_requests"], few["certified_latency_p90_ms"]) == ((False, 10.0), (False, None))


def test_eight_streams_have_certified_queries_by_a_preset() -> None:
    spec = scenario(kind="multi_stream", in_flight=8, preset="official")
    rules = _rules(timed(8 * 662, spec=spec))
    assert (rules["min_requests"], rules["certified_query_latency_p99_ms"]) == ((True, 5296.0), (True, 50.0))
    few = _rules(timed(8 * 600, spec=spec))
    assert (few["min_requests"], few["certified_query_latency_p99_ms"]) == ((False, 4800.0), (False, None))
