"""An endpoint with invalid answers: their rows are failures of the infrastructure, not empty answers of a model.

The fixtures and helpers are those of `test_drive`.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.inference_worker.test_drive import Start, ask, claimed, remote, rows_of, runtime, start
from tests.loadgen.driving import respond, serving, whole
from tests.support.poison import STREAMS, WHOLE
from vlmhyperbench.runtime import Runtime

__all__ = ["runtime", "start"]

pytestmark = pytest.mark.anyio

BAD = {
    name: poison.data
    for name, poison in WHOLE.items()
    if poison.outcome.error == "bad_answer" and name in {"message null", "content a list of parts", "choices an object"}
}
DONE_ALONE = STREAMS["[DONE] alone"].data
OTHER = WHOLE["another choice beside"].data


async def test_an_invalid_answer_is_a_row_with_a_failure_of_the_infrastructure(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    stream = respond(DONE_ALONE, media_type="text/event-stream")
    answers = [whole(), *map(respond, BAD.values()), stream, respond(OTHER)]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            asked = re.search(rb"question (\d+)", await reader.readexactly(int(length[1])) if length else b"")
            writer.write(answers[int(asked[1])] if asked else whole())

    async with serving(answer) as url:
        job, endpoint = (
            await claimed(runtime, len(answers)),
            await start(remote(url.removesuffix("/v1/chat/completions"))),
        )
        await ask(job, endpoint, tmp_path, requests=len(answers))
    assert len(BAD) == 3
    assert [code for _, code in await rows_of(job)] == ["ok", *["bad_answer"] * 4, "ok"]
    async with runtime.database.transaction() as session:
        statement = text("SELECT DISTINCT failure FROM fact WHERE run_id = :run AND error_code = 'bad_answer'")
        assert list((await session.execute(statement, {"run": job.run_id})).scalars()) == ["infrastructure"]
