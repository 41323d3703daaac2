"""A job of which no sample can be read: each gets its error row, and nothing is asked.

The fixtures and helpers are those of `test_keys`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.inference_worker.test_keys import SAMPLE, Ask, ask, fleet, run_of, runtime
from tests.refusals.server import refusing
from vlmhyperbench.domain.outcomes import Complete
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.runtime import Runtime

__all__ = ["ask", "fleet", "runtime"]

pytestmark = pytest.mark.anyio

UNREADABLE = replace(SAMPLE, error="image 0 is no image")


@pytest.mark.parametrize(
    "scenario",
    [ScenarioSpec(), ScenarioSpec(name="one", kind="single_stream")],
    ids=["shared-phase", "phase-of-its-own"],
)
async def test_a_sample_that_cannot_be_read_has_its_error_row_in_a_phase_that_is_complete(
    ask: Ask, runtime: Runtime, scenario: ScenarioSpec
) -> None:
    async with refusing() as served:
        spec = run_of(EndpointTarget(endpoint=served.url, model_name="m")).model_copy(update={"scenario": scenario})
        [outcome] = await ask(spec, sample=UNREADABLE)
    assert isinstance(outcome, Complete)
    assert served.bodies == []
    async with runtime.database.transaction() as session:
        [row] = await session.execute(text("SELECT phase, error_code FROM fact"))
        [phase] = await session.execute(text("SELECT no, kind, count, state FROM phase WHERE state <> 'VOID'"))
    assert (row.phase, row.error_code) == (phase.no, "unreadable_sample")
    # The scheduler closes a phase that shards share, once all of them are done.
    expected = ("single_stream", "COMPLETE") if scenario.is_timed else ("accuracy", "OPEN")
    assert (phase.kind, phase.state, phase.count) == (*expected, 1)
