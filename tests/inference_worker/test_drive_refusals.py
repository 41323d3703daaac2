"""An endpoint that refuses single samples, or the key: what is committed, and when the job ends.

The fixtures and helpers are those of `test_drive`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.inference_worker.test_drive import Start, ask, claimed, remote, rows_of, runtime, start
from tests.loadgen.driving import respond, serving, whole
from tests.support.processes import PATIENCE_S
from vlmhyperbench.errors import TargetRefused
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_sdk.load import SEGMENT_ROWS

__all__ = ["runtime", "start"]

pytestmark = pytest.mark.anyio

ASKED = re.compile(rb"question (\d+)")


@asynccontextmanager
async def refusing(status_of: Callable[[int], int], *, held: asyncio.Event | None = None) -> AsyncIterator[str]:
    """Serve an endpoint that answers question n with a status, by its number; yields its address.

    What it does not refuse waits until `held` is set.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            asked = ASKED.search(await reader.readexactly(int(length[1])) if length else b"")
            status = status_of(int(asked[1])) if asked else 200
            if asked and status == 200 and held is not None:
                await held.wait()
            writer.write(whole() if status == 200 else respond(b'{"error": "no"}', status=f"{status} No"))

    async with serving(answer) as url:
        yield url.removesuffix("/v1/chat/completions")


async def test_a_sample_that_an_endpoint_forbids_is_an_error_row_among_the_others(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    async with refusing(lambda number: 403 if number == 3 else 200) as url:
        job, served = await claimed(runtime, 6), await start(remote(url))
        driven = await ask(job, served, tmp_path, requests=6)
    assert driven.end is not None
    assert driven.end.outcome == "complete"
    assert await rows_of(job) == [(n, "http_403" if n == 3 else "ok") for n in range(6)]


async def test_consecutive_forbidden_samples_are_error_rows_if_others_were_answered(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    last = SEGMENT_ROWS + 40  # of which the last segment has nothing else
    async with refusing(lambda number: 403 if number else 200) as url:
        job, served = await claimed(runtime, last, shard=last), await start(remote(url))
        await ask(job, served, tmp_path, requests=last)
    rows = await rows_of(job)
    assert rows[0] == (0, "ok")
    assert rows[1:] == [(n, "http_403") for n in range(1, last)]


async def test_an_endpoint_that_refuses_the_key_ends_the_job_without_a_row(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    async with refusing(lambda _: 401) as url:
        job, served = await claimed(runtime, 6), await start(remote(url))
        with pytest.raises(TargetRefused) as caught:
            await ask(job, served, tmp_path, requests=6)
    assert caught.value.code == "endpoint_key_refused"
    assert await rows_of(job) == []


async def test_a_revoked_key_ends_the_job_after_its_answers_are_committed(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    good, asked = 40, 2 * SEGMENT_ROWS + 1
    async with refusing(lambda number: 200 if number < good else 401) as url:
        job, served = await claimed(runtime, asked, shard=asked), await start(remote(url))
        with pytest.raises(TargetRefused):
            await ask(job, served, tmp_path, requests=asked)
    rows = await rows_of(job)
    assert rows[:good] == [(n, "ok") for n in range(good)]
    assert {error for _, error in rows[good:]} <= {"http_401"}
    # Those of the one segment that has answers too.
    assert len(rows[good:]) < SEGMENT_ROWS


@pytest.mark.parametrize("number_of_403", [1, 2])
async def test_a_filter_that_responds_before_the_first_answer_does_not_count_as_a_refused_key(
    runtime: Runtime, start: Start, tmp_path: Path, number_of_403: int
) -> None:
    filtered = asyncio.Event()
    async with refusing(lambda number: 403 if number < number_of_403 else 200, held=filtered) as url:
        job, served = await claimed(runtime, 4), await start(remote(url))
        asking = asyncio.create_task(ask(job, served, tmp_path, requests=4))
        async with asyncio.timeout(PATIENCE_S):
            while len(rows := await rows_of(job)) < number_of_403:  # noqa: ASYNC110 - the database rings no bell
                await asyncio.sleep(0.05)
        filtered.set()
        await asking
    assert rows == [(n, "http_403") for n in range(number_of_403)]
    assert await rows_of(job) == [*rows, *((n, "ok") for n in range(number_of_403, 4))]
