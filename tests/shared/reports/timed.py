"""Timed runs for tests."""

from __future__ import annotations

from typing import Any

from tests.shared.reports.builders import MS, claim, evidence, fact, run_spec
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.summaries.evidence import RunEvidence

CLIENT = {
    "cpu_s": 2.0,
    "peak_rss_bytes": 3 * 2**20,
    "startup_s": 0.5,
    "processes": 2,
    "loop_busy_share": 0.25,
}


def timed(count: int = 10, *, client: object = CLIENT, spec: RunSpec | None = None, **changes: object) -> RunEvidence:
    """Make a run whose answers come every 100 ms, each after 50 ms, with the first token after 10 ms."""
    changes = {"latency_ns": 50 * MS, "ttft_user_ns": 10 * MS, **changes}
    rows = [fact(i, "yes", "yes", **{"stream_end_ns": (100 * i + 50) * MS, **changes}) for i in range(count)]
    return evidence(rows, spec=spec, metrics=(), claims=[claim(client=client)])


def scenario(**fields: Any) -> RunSpec:
    """Make the spec of a run whose scenario has these fields."""
    return run_spec(scenario=ScenarioSpec(**fields))
