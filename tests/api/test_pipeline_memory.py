"""The memory that a plan of a pipeline names, with a worker that has a device."""

from __future__ import annotations

from math import ceil
from typing import Any, Literal

import pytest

from tests.api.conftest import Served
from tests.support.builders import add_worker
from vlmhyperbench.db import memory
from vlmhyperbench.domain.needs import MEASURED_MARGIN
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.pipelines import PlannedStep
from vlmhyperbench_api.pipeline_drafts import time_of
from vlmhyperbench_sdk.protocols import MemoryEstimate

pytestmark = pytest.mark.anyio


async def _target_digest(api: Served, **target: Any) -> str:
    run = {"target": {"model": "simulated-instant", **target}, "task": "document-qa", "limit": 1}
    answer = await api.http.post("/runs/plan", json={"run": run})
    assert answer.status_code == 200, answer.text
    return RunSpec.model_validate(answer.json()["spec"]).target_digest


async def _plan(api: Served, *ttfts_ms: int) -> dict[str, Any]:
    """Plan loads of one model with these parameters, one after the other."""
    stages = [
        {
            "id": f"stage-{no}",
            "type": "single",
            "model": {"model": "simulated-instant", "engine_params": {"ttft_ms": ttft_ms}},
            **({"input_from": f"stage-{no - 1}"} if no else {}),
        }
        for no, ttft_ms in enumerate(ttfts_ms)
    ]
    answer = await api.http.post("/pipelines/plan", json={"entry": {"stages": stages}})
    assert answer.status_code == 200, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


async def test_two_loads_of_one_model_need_the_memory_of_both(api: Served) -> None:
    peaks = {await _target_digest(api, engine_params={"ttft_ms": no}): no * 2**30 for no in (3, 4)}
    async with api.database.transaction() as session:
        await add_worker(session)
        for digest, size in peaks.items():
            await memory.write_peak(session, digest, "CPU", size)
    plan, needs = await _plan(api, 3, 4), [ceil(size * MEASURED_MARGIN) for size in peaks.values()]
    assert (plan["largest_bytes"], plan["together_bytes"]) == (max(needs), sum(needs))


async def test_models_that_would_be_loaded_smaller_are_summed_as_they_are_asked(api: Served) -> None:
    digests = [await _target_digest(api, engine_params={"ttft_ms": no}) for no in (5, 6)]
    need = MemoryEstimate(device_bytes=2**30, host_bytes=0, source="static", min_device_bytes=0, min_host_bytes=0)
    async with api.database.transaction() as session:
        await add_worker(session)  # its device has one byte, which the smallest load fits
        await memory.write_estimates(session, dict.fromkeys(digests, need))
    plan, needed = await _plan(api, 5, 6), ceil(2**30 * Settings().memory_margin)
    assert (plan["largest_bytes"], plan["together_bytes"]) == (needed, 2 * needed)


def test_only_the_longest_time_of_a_question_has_repairs() -> None:
    roles: list[Literal["member", "repair"]] = ["member", "member", "repair"]
    steps = [PlannedStep(stage="s", role=role, model="m", expected_s=3, shortest_s=2, longest_s=5) for role in roles]
    time = time_of(steps)
    assert (time.expected_s, time.shortest_s, time.longest_s) == (6, 4, 15)
