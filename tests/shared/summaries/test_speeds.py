"""Speeds of a run: which requests count, over which time, and when the speeds are no measurement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shared.reports.builders import CLAIM, MS, claim, evidence, fact, performance_of
from tests.shared.reports.test_parts import ENDPOINT
from tests.shared.reports.timed import CLIENT, timed


def test_reused_and_cached_rows_never_count_as_speed() -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", is_reused=True), fact(2, "a", "a", origin="cached")]
    assert performance_of(evidence(rows)).times["latency_ms"].n == 1


def test_speeds_of_a_run_with_reused_answers_are_partial_unless_they_are_invalid() -> None:
    reused = evidence([fact(0, "a", "a"), fact(1, "a", "a", is_reused=True)])
    assert performance_of(reused).state == "partial"
    failed = evidence([fact(0, "a", "a"), fact(1, None, "a", status="error"), fact(2, "a", "a", is_reused=True)])
    assert performance_of(failed).state == "invalid"
    stopped = evidence([fact(0, "a", "a")], stopping={"state": "shown", "of": 10})
    assert performance_of(stopped).state == "partial"


def test_answers_without_a_token_are_no_throughput() -> None:
    rows = [
        fact(0, "a", "a", scheduled_ns=0, latency_ns=500 * MS, stream_end_ns=500 * MS),
        fact(1, "", "a", scheduled_ns=500 * MS, latency_ns=None, ttft_user_ns=None, stream_end_ns=1000 * MS),
    ]
    assert performance_of(evidence(rows)).samples_per_s == pytest.approx(1.0)


def test_the_resources_of_an_endpoint_are_unknown() -> None:
    run = evidence([fact(0, "a", "a")])
    assert performance_of(run).peak_memory_bytes == 1024
    assert performance_of(replace(run, spec=run.spec.model_copy(update={"target": ENDPOINT}))).peak_memory_bytes is None


def test_memory_of_requests_is_unknown_where_it_was_not_read() -> None:
    run = evidence([fact(0, "a", "a", vram_before_bytes=100, vram_peak_bytes=130)])
    unread = replace(run, facts=run.facts.drop("vram_before_bytes", "vram_peak_bytes"))
    rises = [resources.request_delta_bytes for each in (run, unread) if (resources := performance_of(each).resources)]
    assert rises == [30, None]


def test_claims_without_a_shared_clock_add_their_times() -> None:
    rows = [
        fact(0, "a", "a", scheduled_ns=0, latency_ns=100 * MS, stream_end_ns=100 * MS),
        fact(1, "a", "a", scheduled_ns=50 * MS, latency_ns=100 * MS, stream_end_ns=150 * MS, claim_id="other"),
    ]
    run = evidence(rows, claims=[claim(), claim(id="other", anchor_wall_ns=None)])
    assert performance_of(run).window_s == pytest.approx(0.2)


def test_rates_count_from_the_first_request_to_the_last_stream_end() -> None:
    performance = performance_of(evidence())
    assert performance.window_s == pytest.approx(0.525)
    assert performance.samples_per_s == pytest.approx(5 / 0.525)
    assert performance.output_tokens_per_s == pytest.approx(55 / 0.525)
    assert performance.peak_memory_bytes == 1024


def test_an_answer_without_a_token_count_leaves_the_sum_of_tokens_unknown() -> None:
    performance = performance_of(evidence([fact(0, "a", "a"), fact(1, "a", "a", completion_tokens=None)]))
    assert (performance.output_tokens, performance.output_tokens_per_s) == (None, None)


def test_answers_of_unknown_length_have_no_measuring_cost_by_tokens() -> None:
    harness = performance_of(timed(completion_tokens=None)).harness
    assert harness is not None
    assert (harness.cpu_s_per_100k_tokens, harness.cpu_s_per_1k_requests) == (None, 200.0)


def test_only_claims_that_asked_the_run_count_as_its_measuring_cost() -> None:
    claims = [claim(client=CLIENT), claim(id="scored", job="SCORE", client=CLIENT | {"cpu_s": 100.0})]
    harness = performance_of(replace(timed(), claims=claims)).harness
    assert harness is not None
    assert (harness.cpu_s, harness.claims) == (2.0, 1)
    assert claims[0].id == CLAIM
