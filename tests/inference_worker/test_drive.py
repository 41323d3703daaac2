"""What a claim commits of a real load: each answer once, a broken one as it is, nothing of an engine that is gone."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text

from tests.loadgen.driving import chat_body, respond, serving, write
from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from tests.support.processes import PATIENCE_S, eventually
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.db import runs
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.drive import Driven, EngineLost, drive
from vlmhyperbench_inference_worker.plan import Load, Phases
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_inference_worker.sink import Sink
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.load import LoadLimits, PhaseKind, PhasePlan
from vlmhyperbench_sdk.net import UrlPolicy
from vlmhyperbench_sdk.types import JsonValue, Prompt
from vlmhyperbench_simulated.server import SimulatedServer, start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = pytest.mark.anyio

Start = Callable[[ModelTarget | EndpointTarget], Awaitable[Serving]]
SOON_S = 30.0
"""Far above what ends at once takes on a busy machine, far below what the answers of these tests take."""


@pytest.fixture
async def runtime(tmp_path: Path, fresh_database_url: str, redis_url: str) -> AsyncIterator[Runtime]:
    values = {"home": tmp_path, "database_url": fresh_database_url, "redis_url": redis_url}
    async with open_runtime(Settings.model_validate(values)) as runtime:
        yield runtime


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    started = []

    cache = ModelCache(tmp_path / "models", max_bytes=2**30)

    async def start_serving(target: ModelTarget | EndpointTarget) -> Serving:
        options = GatewayOptions(
            environment=EngineEnvironment(), log=tmp_path / "gateway.log", policy=UrlPolicy(allow_loopback=True)
        )
        served = await Serving.start(
            WantedTarget(digest="d", target=target, load_timeout_s=PATIENCE_S, cache=cache), options
        )
        started.append(served)
        return served

    yield start_serving
    for served in started:
        await served.close()


def managed(**params: JsonValue) -> ModelTarget:
    return ModelTarget(
        model="simulated", version="1.0.0", backend="simulated", backend_class="simulated", engine_params=params
    )


def remote(url: str) -> EndpointTarget:
    return EndpointTarget(endpoint=url, model_name="simulated")


async def claimed(runtime: Runtime, requests: int, *, shard: int = 1000) -> ClaimedJob:
    room = EngineRoom(runtime.database)
    _, [first] = await room.shards(run_spec(metrics=(), reports=(), samples_per_shard=shard), samples=requests)
    worker_id = await room.add_worker()
    held = await room.take(first.id, worker_id)
    context = WorkerContext(
        worker_id=worker_id, boot_id=uuid4(), name="w", runtime=runtime, settings=runtime.settings, label={}
    )
    return ClaimedJob(held.job, claim_id=held.claim_id, context=context, cpu=CpuChildren())


def planned(ordinal: int) -> PlannedRequest:
    return PlannedRequest(
        phase=1,
        ordinal=ordinal,
        sample=ordinal,
        repeat=0,
        prompt=Prompt(user="?"),
        images=(),
        request={},
        request_sha256="0" * 64,
    )


async def ask(
    job: ClaimedJob,
    served: Serving,
    folder: Path,
    *,
    requests: int,
    kind: PhaseKind = "accuracy",
    in_flight: int = 1,
    timeout_s: float = 300.0,
) -> Driven:
    limits = LoadLimits(request_timeout_s=timeout_s)
    bodies = [chat_body(number) for number in range(requests)]
    write(folder / "plan", served.measured.url, bodies=bodies, kind=kind, in_flight=in_flight, limits=limits)
    sink = Sink(job.runtime.storage, run_id=job.run_id, claim_id=job.claim_id, folder=folder)
    async with (
        Watch([]) as watch,
        await LoadProcess.start(folder / "plan", folder / "record") as process,
    ):
        phases = Phases(
            plans=[PhasePlan(no=1, kind=kind, count=requests, params={})],
            requests=[planned(ordinal) for ordinal in range(requests)],
            schedules={},
        )
        return await drive(job, Load(process=process, phases=phases, serving=served), sink, watch)


async def rows_of(job: ClaimedJob) -> list[tuple[int, str]]:
    """Ordinal and error of every row, `ok` where there is none."""
    statement = text("SELECT ordinal, COALESCE(error_code, status) FROM fact WHERE run_id = :run ORDER BY ordinal")
    async with job.runtime.database.transaction() as session:
        rows = await session.execute(statement, {"run": job.run_id})
        return [(row[0], row[1]) for row in rows]


async def until_answered(job: ClaimedJob) -> None:
    async def has_rows() -> bool:
        return bool(await rows_of(job))

    await eventually(has_rows, "rows are committed")


@asynccontextmanager
async def stopping(
    job: ClaimedJob, server: SimulatedServer, then: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Stop the job as soon as two requests have come; `then` happens at once."""

    async def is_asked() -> bool:
        return server.requests >= 2

    async def stop() -> None:
        await eventually(is_asked, "two requests have come")
        job.stopping.set()
        then()

    async with asyncio.TaskGroup() as group:
        group.create_task(stop())
        yield


async def test_a_single_broken_answer_of_an_engine_that_is_alive_is_an_error_row(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    # Slower than a segment lasts: each has one row.
    job, served = await claimed(runtime, 2), await start(managed(fail_every=2, failure="cut", ttft_ms=2500))
    driven = await ask(job, served, tmp_path, requests=2, kind="single_stream")
    assert driven.end is not None
    assert driven.end.outcome == "complete"
    assert await rows_of(job) == [(0, "ok"), (1, "connection_lost")]


async def test_an_endpoint_that_breaks_every_answer_from_the_first_on_counts_as_lost(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    async with await start_server(Simulation(fail_every=1, failure="reset")) as server:
        job, served = await claimed(runtime, 3), await start(remote(server.url))
        with pytest.raises(EngineLost):
            await ask(job, served, tmp_path, requests=3)
    assert await rows_of(job) == []


async def test_requests_that_a_killed_engine_did_not_answer_have_no_row(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    job, served = await claimed(runtime, 1000), await start(managed(ttft_ms=40))
    assert served.engine is not None
    assert served.engine.pid is not None

    async def kill(pid: int) -> None:
        await until_answered(job)
        os.kill(pid, signal.SIGKILL)

    async with asyncio.TaskGroup() as group:
        group.create_task(kill(served.engine.pid))
        with pytest.raises(EngineLost, match=re.escape(served.measured.url)) as lost:
            await ask(job, served, tmp_path, requests=1000, in_flight=4)
    assert lost.value.code == "engine_exited"
    assert "SIGKILL" in lost.value.message
    rows = await rows_of(job)
    assert 0 < len(rows) < 1000
    assert {error for _, error in rows} == {"ok"}


async def test_the_remaining_requests_of_a_lost_endpoint_have_no_error_rows(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    async with await start_server(Simulation(ttft_ms=40)) as server:
        job, served = await claimed(runtime, 1000), await start(remote(server.url))

        async def go_away() -> None:
            await until_answered(job)
            server.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(go_away())
            with pytest.raises(EngineLost) as lost:
                await ask(job, served, tmp_path, requests=1000, in_flight=4)
    assert lost.value.code == "engine_lost"
    rows = await rows_of(job)
    assert 0 < len(rows) < 1000
    assert {error for _, error in rows} == {"ok"}


async def test_an_endpoint_that_accepts_connections_and_closes_them_counts_as_lost(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    """A forwarded port accepts connections when what it forwards to is gone."""
    is_gone = asyncio.Event()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        if not is_gone.is_set():
            await reader.readuntil(b"\r\n\r\n")
            writer.write(respond(b'{"data": []}'))

    async with serving(forward) as url:
        job, endpoint = await claimed(runtime, 3), await start(remote(url.removesuffix("/v1/chat/completions")))
        assert await endpoint.is_alive()
        is_gone.set()
        with pytest.raises(EngineLost):
            await ask(job, endpoint, tmp_path, requests=3)
    assert await rows_of(job) == []


async def test_a_proxy_without_its_engine_counts_as_lost(start: Start) -> None:
    is_gone = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(respond(b"{}", status="502 Bad Gateway" if is_gone.is_set() else "404 Not Found"))

    async with serving(answer) as url:
        endpoint = await start(remote(url.removesuffix("/v1/chat/completions")))
        assert await endpoint.is_alive()
        is_gone.set()
        assert not await endpoint.is_alive()


async def test_an_endpoint_that_serves_one_request_at_a_time_is_not_lost_while_it_is_busy(start: Start) -> None:
    is_busy, has_ended = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if is_busy.is_set():
            await has_ended.wait()
        writer.write(respond(b'{"data": []}'))

    async with serving(answer) as url:
        endpoint = await start(remote(url.removesuffix("/v1/chat/completions")))
        is_busy.set()
        assert await endpoint.is_alive()
        has_ended.set()


async def test_requests_in_flight_when_a_job_stops_are_answered_however_slow(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    async with await start_server(Simulation(ttft_ms=5500)) as server:
        job, served = await claimed(runtime, 9), await start(remote(server.url))

        async with stopping(job, server):
            await ask(job, served, tmp_path, requests=9, in_flight=2)
        assert server.requests == 2
    assert await rows_of(job) == [(0, "ok"), (1, "ok")]


async def test_a_request_that_hangs_when_a_job_stops_times_out_and_has_its_row(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    async with await start_server(Simulation(ttft_ms=600_000)) as server:
        job, served = await claimed(runtime, 9), await start(remote(server.url))

        async with stopping(job, server):
            await ask(job, served, tmp_path, requests=9, in_flight=2, timeout_s=5.0)
    assert await rows_of(job) == [(0, "timeout"), (1, "timeout")]


@pytest.mark.parametrize("how", ["cancelled", "draining"])
async def test_a_stopping_job_that_is_cancelled_or_drained_ends_at_once(
    runtime: Runtime, start: Start, tmp_path: Path, how: str
) -> None:
    async with await start_server(Simulation(ttft_ms=600_000)) as server:
        job, served = await claimed(runtime, 9), await start(remote(server.url))

        async with stopping(job, server, getattr(job, how).set), asyncio.timeout(SOON_S):
            driven = await ask(job, served, tmp_path, requests=9, in_flight=2)
    assert driven.end is not None
    assert driven.end.outcome == "cancelled"
    assert await rows_of(job) == []


async def test_requests_in_flight_to_an_engine_that_is_lost_while_the_job_stops_have_rows(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    """There is no next attempt that would ask again."""
    async with await start_server(Simulation(ttft_ms=600_000)) as server:
        job, served = await claimed(runtime, 2), await start(remote(server.url))

        async with stopping(job, server, server.close):
            await ask(job, served, tmp_path, requests=2, in_flight=2)
    assert await rows_of(job) == [(0, "connection_lost"), (1, "connection_lost")]


async def test_a_retune_of_the_run_reaches_the_load_while_it_runs(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    async with await start_server(Simulation(ttft_ms=100)) as server:
        job, served = await claimed(runtime, 200), await start(remote(server.url))

        async def retune() -> None:
            await until_answered(job)
            async with runtime.database.transaction() as session:
                await runs.retune(session, job.run_id, in_flight=24, by="ann")

        async with asyncio.TaskGroup() as group:
            group.create_task(retune())
            driven = await ask(job, served, tmp_path, requests=200, in_flight=2)
    assert driven.end is not None
    assert driven.end.outcome == "complete"
    assert await rows_of(job) == [(ordinal, "ok") for ordinal in range(200)]
    statement = text("SELECT count(DISTINCT stream) FROM fact WHERE run_id = :run")
    async with runtime.database.transaction() as session:
        assert (await session.execute(statement, {"run": job.run_id})).scalar_one() == 24
