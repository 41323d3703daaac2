"""Details of a claim: nothing is kept or sent while nobody listens, and what is sent is bounded and masked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from tests.inference_worker.test_drive import claimed, runtime  # noqa: F401 - a fixture
from tests.support.builders import new_fact
from tests.support.processes import PATIENCE_S
from vlmhyperbench.bus import Bus, Detail, DetailKind, LinesLogged, ResourcesSampled, SamplesDone, detail_channel
from vlmhyperbench.logs import configure_logging, get_logger, hide, unhide
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.details import Details
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_sdk.gateway import SECRET_MASK

pytestmark = pytest.mark.anyio

SECRET = "a-very-secret-key-of-someone"


@pytest.fixture
async def listening(redis_url: str) -> AsyncIterator[Bus]:
    bus = Bus(redis_url)
    yield bus
    await bus.close()


@asynccontextmanager
async def _details(job: ClaimedJob) -> AsyncIterator[Details]:
    async with Watch([], interval_s=0.01) as watch, Details(job, watch, lambda ordinal: f"page-{ordinal}") as details:
        yield details


async def _heard(bus: Bus, job: ClaimedJob, *kinds: DetailKind) -> AsyncIterator[Detail]:
    channels = frozenset(detail_channel(job.run_id, kind) for kind in kinds)
    async with asyncio.timeout(PATIENCE_S):
        async for message in bus.subscribe(lambda: channels):
            if isinstance(message, SamplesDone | ResourcesSampled | LinesLogged):
                yield message


async def test_a_listener_gets_the_lines_that_were_written_before_and_after(
    runtime: Runtime,  # noqa: F811
    listening: Bus,
    tmp_path: Path,
) -> None:
    job, log = await claimed(runtime, 10), tmp_path / "engine.log"
    log.write_text(f"loading\nthe key is {SECRET}\nhalf a li")
    hide([SECRET])
    async with _details(job) as details:
        details.follow_log("engine", log, since=0)
        heard = _heard(listening, job, "logs")
        first = await anext(heard)
        assert isinstance(first, LinesLogged)
        assert [line.text for line in first.lines] == ["loading", f"the key is {SECRET_MASK}"]
        with log.open("a") as file:
            file.write("ne\n")
        second = await anext(heard)
        assert isinstance(second, LinesLogged)
        assert [(line.no, line.source, line.text) for line in second.lines] == [(2, "engine", "half a line")]
    unhide([SECRET])


async def test_lines_that_are_written_too_fast_are_left_out_and_counted(
    runtime: Runtime,  # noqa: F811
    listening: Bus,
    tmp_path: Path,
) -> None:
    job, log = await claimed(runtime, 10), tmp_path / "gateway.log"
    log.write_text("".join(f"line {no} {'x' * 3000}\n" for no in range(50)) + "".join(f"{no}\n" for no in range(500)))
    async with _details(job) as details:
        details.follow_log("gateway", log, since=0)
        message = await anext(_heard(listening, job, "logs"))
    assert isinstance(message, LinesLogged)
    assert (len(message.lines), message.left_out) == (200, 350)
    assert [line.text for line in message.lines] == [str(no) for no in range(300, 500)]


async def test_the_workers_own_lines_about_the_run_are_sent_and_those_of_others_not(
    runtime: Runtime,  # noqa: F811
    listening: Bus,
) -> None:
    job = await claimed(runtime, 10)
    configure_logging("test", form="json")
    async with _details(job):
        with structlog.contextvars.bound_contextvars(run_id="another"):
            get_logger("w").info("not.mine")
        with structlog.contextvars.bound_contextvars(run_id=str(job.run_id)):
            get_logger("w").info("mine")
        message = await anext(_heard(listening, job, "logs"))
    assert isinstance(message, LinesLogged)
    [line] = message.lines
    assert line.source == "worker"
    assert '"mine"' in line.text


async def test_requests_that_ended_are_named_only_while_somebody_listens(
    runtime: Runtime,  # noqa: F811
    listening: Bus,
) -> None:
    job = await claimed(runtime, 500)
    async with _details(job) as details:
        details.add([new_fact(ordinal) for ordinal in range(5)], phase=1)
        heard = _heard(listening, job, "samples", "resources")
        assert isinstance(await anext(heard), ResourcesSampled)  # so the worker knows that somebody listens
        details.add([new_fact(ordinal) for ordinal in range(100, 180)], phase=1)
        message = await anext(heard)
        while not isinstance(message, SamplesDone):
            message = await anext(heard)
    assert message.left_out == 30
    assert [sample.ordinal for sample in message.samples] == list(range(130, 180))
    assert (message.samples[0].key, message.samples[0].latency_ms) == ("page-130", 20)


async def test_without_redis_a_claim_goes_on(runtime: Runtime) -> None:  # noqa: F811
    job = await claimed(runtime, 10)
    nobody = Bus("redis://127.0.0.1:9/0")
    job.runtime = replace(runtime, bus=nobody)
    async with _details(job) as details:
        details.add([new_fact(0)], phase=1)
    await nobody.close()
