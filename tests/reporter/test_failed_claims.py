"""The end of an engine's log stands beside the failure of its claim, also where only the artifact has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.shared.reports.builders import claim
from tests.support.builders import PROJECT, open_shard
from vlmhyperbench.db import artifacts
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_reporter.reading import OUTPUT_LINES, _with_outputs

pytestmark = pytest.mark.anyio

DIED = {"code": "worker_died", "message": "The worker that held the job died."}


async def test_a_failed_claim_has_the_end_of_its_engine_s_log(runtime: Runtime, tmp_path: Path) -> None:
    shard = await open_shard(runtime.database)
    content = "".join(f"line {number}\n" for number in range(1000)).encode()
    stored = runtime.storage.put("runs/log", content)
    async with runtime.database.transaction() as session:
        await artifacts.add(
            session,
            project_id=PROJECT,
            run_id=shard.run.id,
            claim_id=shard.claim_id,
            kind="log",
            name=f"engine-{shard.claim_id}.log",
            media_type="text/plain",
            storage_key=stored.key,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
        )
        files = await artifacts.of_run(session, shard.run.id)
    failed, other = claim(id=str(shard.claim_id), failure=DIED), claim(id="other", failure=DIED)
    ended, same = await _with_outputs(runtime.storage, files, [failed, other])
    assert ended.failure is not None
    lines = str(ended.failure["output"]).splitlines()
    assert (len(lines), lines[-1]) == (OUTPUT_LINES, "line 999")
    assert same == other
    fine = replace(failed, failure=None)
    assert await _with_outputs(runtime.storage, files, [fine]) == (fine,)
    (tmp_path / "storage" / stored.key).write_bytes(b"damaged")
    assert await _with_outputs(runtime.storage, files, [failed]) == (failed,)
