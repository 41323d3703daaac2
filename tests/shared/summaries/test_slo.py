"""Limits of a run's SLO: which requests meet them, and which limits can be checked."""

from __future__ import annotations

from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import MS, claim, evidence, fact, performance_of
from tests.shared.reports.timed import CLIENT, scenario, timed
from vlmhyperbench.domain.scenarios import Slo


def test_goodput_is_the_share_of_scheduled_requests_that_meet_every_limit() -> None:
    spec = scenario(slo=Slo(limits_ms={"latency_p99": 25.0, "ttft": 10.0}))
    rows = [*(fact(i, "a", "a") for i in range(8)), fact(8, None, "a"), fact(9, "a", "a", ttft_user_ns=11 * MS)]
    performance = performance_of(evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)]))
    assert performance.goodput is not None
    assert (performance.goodput.met, performance.goodput.scheduled) == (6, 10)
    assert performance.goodput.per_s == pytest.approx(6 / 0.929)
    assert [(limit.name, limit.n, limit.over, limit.is_kept) for limit in performance.slo] == [
        ("latency_p99", 10, 4, False),
        ("ttft", 10, 2, False),
    ]


def test_a_limit_on_gaps_is_checked_only_where_the_gaps_were_read() -> None:
    run = timed(spec=scenario(slo=Slo(limits_ms={"itl_p99": 5.0})))
    assert (performance_of(run).goodput, performance_of(run).slo) == (None, ())
    read = replace(run, facts=run.facts.with_columns(longest_gap_ns=polars.lit(4.0 * MS)))
    goodput = performance_of(read).goodput
    assert goodput is not None
    assert goodput.met == 10


@pytest.mark.parametrize("limit", ["tpot", "itl"])
def test_gaps_of_uncounted_tokens_meet_no_limit_and_an_answer_in_one_burst_meets_it(limit: str) -> None:
    rows = [
        fact(0, "a", "a"),
        fact(1, "a", "a", tpot_ns=None),
        fact(2, "a", "a", tpot_ns=None, ttft_user_ns=22 * MS),
    ]
    run = evidence(rows, spec=scenario(slo=Slo(limits_ms={limit: 400.0})), metrics=())
    run = replace(run, facts=run.facts.with_columns(longest_gap_ns=polars.col("tpot_ns")))
    performance = performance_of(run)
    assert performance.goodput is not None
    assert (performance.goodput.met, performance.goodput.scheduled) == (2, 3)
    assert [(verdict.n, verdict.over) for verdict in performance.slo] == [(2, 1)]
