"""The memory that a plan of a pipeline names, with a worker that has a device."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest

from tests.api.conftest import Served
from tests.support.builders import add_worker
from vlmhyperbench.db import memory
from vlmhyperbench.domain.needs import MEASURED_MARGIN
from vlmhyperbench.domain.specs import RunSpec

pytestmark = pytest.mark.anyio

PARAMS = {"ttft_ms": 3}


async def _target_digest(api: Served, **target: Any) -> str:
    run = {"target": {"model": "simulated-instant", **target}, "task": "document-qa", "limit": 1}
    answer = await api.http.post("/runs/plan", json={"run": run})
    assert answer.status_code == 200, answer.text
    return RunSpec.model_validate(answer.json()["spec"]).target_digest


async def test_two_loads_of_one_model_need_the_memory_of_both(api: Served) -> None:
    peaks = {await _target_digest(api): 2**30, await _target_digest(api, engine_params=PARAMS): 2**31}
    async with api.database.transaction() as session:
        await add_worker(session)
        for digest, size in peaks.items():
            await memory.write_peak(session, digest, "CPU", size)
    stages = [
        {"id": "read", "type": "single", "model": "simulated-instant"},
        {
            "id": "answer",
            "type": "single",
            "model": {"model": "simulated-instant", "engine_params": PARAMS},
            "input_from": "read",
        },
    ]
    answer = await api.http.post("/pipelines/plan", json={"entry": {"stages": stages}})
    assert answer.status_code == 200, answer.text
    plan, needs = answer.json(), [ceil(size * MEASURED_MARGIN) for size in peaks.values()]
    assert (plan["largest_bytes"], plan["together_bytes"]) == (max(needs), sum(needs))
