"""`/loads`: measure any endpoint. A load is a run of the task `load`, so it has jobs, leases and checks of URLs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body

from vlmhyperbench.db import listings, tallies
from vlmhyperbench.db import runs as rows
from vlmhyperbench.db.listings import Position
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.domain.filters import Condition
from vlmhyperbench.domain.specs import EndpointTarget, RunSpec
from vlmhyperbench.errors import NotFound
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.loads import (
    LOAD_TASK,
    Load,
    LoadCreate,
    LoadDetail,
    LoadMeans,
    LoadMeasured,
    LoadRepeats,
    LoadRequests,
    LoadSweep,
)
from vlmhyperbench.wire.runs import ExperimentCreate, ExperimentDetail, Run, RunCreate, RunDetail
from vlmhyperbench_api import experiments, runs
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import (
    After,
    CursorText,
    PageLimit,
    RegistriesOf,
    RuntimeOf,
    Session,
    read_cursor,
    write_cursor,
)
from vlmhyperbench_api.ids import ExperimentId, RunId
from vlmhyperbench_api.load_entries import entry_of, repeats_of, sweep_of, workload_of
from vlmhyperbench_api.load_means import means_of
from vlmhyperbench_api.presenting import run_of
from vlmhyperbench_api.runs import IdempotencyKey
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/loads", tags=["loads"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Writer = Annotated[Principal, requires("run:write")]
LoadBody = Annotated[
    LoadCreate,
    Body(
        openapi_examples={
            "rate": {
                "summary": "Two requests a second for a minute",
                "value": {
                    "url": "http://127.0.0.1:8000/v1",
                    "model": "my-model",
                    "rate_per_s": 2,
                    "duration_s": 60,
                    "slo": {"limits_ms": {"ttft_p99": 500}},
                },
            },
            "concurrency": {
                "summary": "Eight requests in flight, each with an image",
                "value": {
                    "url": "http://127.0.0.1:8000/v1",
                    "model": "my-model",
                    "scenario": "multi_stream",
                    "concurrency": 8,
                    "requests": 200,
                    "images": 1,
                },
            },
            "preset": {
                "summary": "By MLPerf's rules of server",
                "value": {
                    "url": "http://127.0.0.1:8000/v1",
                    "model": "my-model",
                    "preset": "official",
                    "rate_per_s": 4,
                    "slo": {"limits_ms": {"ttft_p99": 2000, "tpot_p99": 100}},
                },
            },
        }
    ),
]


@router.post("", status_code=201)
async def start_load(
    body: LoadBody, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf, key: IdempotencyKey = None
) -> LoadDetail:
    """Start a load. A worker sends it when nothing else disturbs the measurement on its machine."""
    name = body.name or f"load of {body.model}"
    run = RunCreate(run=entry_of(body), name=name)
    return _detail(await runs.create_run(run, principal, runtime, registries, key))


@router.post("/sweeps", status_code=201)
async def start_sweep(
    body: LoadSweep, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf, key: IdempotencyKey = None
) -> ExperimentDetail:
    """Start the same load at several rates or concurrencies, one after the other, as the runs of an experiment."""
    name = body.load.name or f"{body.axis} of {body.load.model}"
    sweep = ExperimentCreate(experiment=sweep_of(body), name=name)
    return await experiments.create_experiment(sweep, principal, runtime, registries, key)


@router.post("/repeats", status_code=201)
async def start_repeats(
    body: LoadRepeats, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf, key: IdempotencyKey = None
) -> ExperimentDetail:
    """Start the same load several times, one after the other, as the runs of an experiment."""
    name = body.load.name or f"{body.repeats} times the load of {body.load.model}"
    repeats = ExperimentCreate(experiment=repeats_of(body), name=name)
    return await experiments.create_experiment(repeats, principal, runtime, registries, key)


@router.get("/repeats/{experiment_id}")
async def get_means(experiment_id: ExperimentId, principal: Reader, runtime: RuntimeOf) -> LoadMeans:
    """Return the means over the ended loads of an experiment that differ in their seed alone."""
    return await means_of(runtime, experiment_id, project_id=principal.project_id)


@router.get("")
async def list_loads(
    principal: Reader, session: Session, limit: PageLimit = 50, cursor: CursorText = None
) -> Page[Load]:
    """List loads, newest first."""
    of_task = Condition(column="task", operator="=", values=(LOAD_TASK,))
    query = listings.Query(project_id=principal.project_id, conditions=(of_task,))
    after = read_cursor(cursor, After)
    position = Position(value=after.at, id=after.id) if after else None
    page = await listings.page(session, query, after=position, limit=limit)
    counts = await tallies.of_runs(session, [listed.run.id for listed in page])
    last = page[-1] if len(page) == limit else None
    return Page[Load](
        items=[
            _load(run_of(listed.run, counts.get(listed.run.id, Tally()), None), listed.run.pinned_spec())
            for listed in page
        ],
        next=write_cursor(After(at=last.run.created_at, id=last.run.id)) if last else None,
    )


@router.get("/{run_id}")
async def get_load(run_id: RunId, principal: Reader, runtime: RuntimeOf) -> LoadDetail:
    """Return a load with its progress, and with its result once its report exists."""
    return _detail(await runs.get_run(run_id, principal, runtime))


@router.post("/{run_id}/cancel")
async def cancel_load(run_id: RunId, principal: Writer, runtime: RuntimeOf) -> LoadDetail:
    """Cancel a load; what was measured so far is kept."""
    async with runtime.database.transaction() as session:
        run = await rows.get(session, run_id, project_id=principal.project_id)
    if run is None or run.pinned_spec().task != LOAD_TASK:
        raise _no_load(run_id)
    return _detail(await runs.cancel_run(run_id, principal, runtime))


def _load(run: Run, spec: RunSpec) -> Load:
    target = spec.target
    return Load(
        id=run.id,
        name=run.name,
        state=run.state,
        reason=run.reason,
        url=target.endpoint if isinstance(target, EndpointTarget) else "",
        model=target.served_name,
        in_words=spec.scenario.in_words,
        total=run.total,
        done=run.done,
        failed=run.failed,
        waits_for=run.waits_for,
        created_by=run.created_by,
        created_at=run.created_at,
        finished_at=run.finished_at,
    )


def _detail(run: RunDetail) -> LoadDetail:
    spec = run.spec
    if spec.task != LOAD_TASK:
        raise _no_load(run.id)
    return LoadDetail(
        **_load(run, spec).model_dump(),
        workload=workload_of(spec),
        slo_ms=spec.scenario.slo.limits_ms,
        progress=run.progress,
        result=_measured(run),
        warnings=run.warnings,
    )


def _measured(run: RunDetail) -> LoadMeasured | None:
    speeds = run.performance
    if speeds is None:
        return None
    return LoadMeasured(
        valid={"valid": True, "not known": None}.get(speeds.validity or "not known", False),
        gates=speeds.gates,
        requests=LoadRequests(scheduled=run.total or run.done, ok=run.done - run.failed, error=run.failed),
        duration_s=speeds.window_s,
        metrics=speeds.times,
        requests_per_s=speeds.samples_per_s,
        output_tokens_per_s=speeds.output_tokens_per_s,
        output_tokens=speeds.output_tokens,
        goodput_per_s=speeds.goodput_per_s,
        goodput_share=speeds.goodput_share,
    )


def _no_load(run_id: object) -> NotFound:
    return NotFound(f"There is no load {run_id}.", cure="List the loads, or look at the runs.")
