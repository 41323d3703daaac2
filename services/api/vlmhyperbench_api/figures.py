"""`…/figures`: the figures of runs, experiments and comparisons as Plotly JSON, with alternative text and numbers.

Those of runs and experiments are read from the report that a worker wrote; those of comparisons are made when asked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import JsonValue
from starlette.requests import HTTPConnection

from vlmhyperbench.db import artifacts
from vlmhyperbench.db.views import ArtifactView
from vlmhyperbench.errors import NotFound, NotReady
from vlmhyperbench.extras import needed_for
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.comparisons import RunsComparison
from vlmhyperbench.wire.figures import Figure, FigureNumbers, Figures, FigureSummary
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.comparisons import compare_given
from vlmhyperbench_api.dependencies import RuntimeOf
from vlmhyperbench_api.ids import ExperimentId, RunId
from vlmhyperbench_api.reading import read_experiment, read_run
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_sdk.suggestions import did_you_mean

router = APIRouter(tags=["figures"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
FigureName = Annotated[str, Path(max_length=150)]
ComparedRuns = Annotated[
    str, Query(max_length=2000, description="Ids of runs separated by commas, the baseline first.")
]

_DOCUMENT = "report.json"
_BLOCK = "figure"


@router.get("/runs/{run_id}/figures")
async def list_run_figures(run_id: RunId, principal: Reader, runtime: RuntimeOf) -> Figures:
    """List the figures of a run's report."""
    return _listed(await _of_run(runtime, principal, run_id))


@router.get("/runs/{run_id}/figures/{name}")
async def get_run_figure(run_id: RunId, name: FigureName, principal: Reader, runtime: RuntimeOf) -> Figure:
    """Return a figure of a run's report."""
    return _named(await _of_run(runtime, principal, run_id), name)


@router.get("/experiments/{experiment_id}/figures")
async def list_experiment_figures(experiment_id: ExperimentId, principal: Reader, runtime: RuntimeOf) -> Figures:
    """List the figures of an experiment's comparison."""
    return _listed(await _of_experiment(runtime, principal, experiment_id))


@router.get("/experiments/{experiment_id}/figures/{name}")
async def get_experiment_figure(
    experiment_id: ExperimentId, name: FigureName, principal: Reader, runtime: RuntimeOf
) -> Figure:
    """Return a figure of an experiment's comparison."""
    return _named(await _of_experiment(runtime, principal, experiment_id), name)


@router.get("/comparisons/figures")
async def list_comparison_figures(
    principal: Reader, connection: HTTPConnection, runtime: RuntimeOf, runs: ComparedRuns
) -> Figures:
    """List the figures of a comparison of any runs."""
    return _listed(await _of_comparison(connection, runtime, principal, runs))


@router.get("/comparisons/figures/{name}")
async def get_comparison_figure(
    name: FigureName, principal: Reader, connection: HTTPConnection, runtime: RuntimeOf, runs: ComparedRuns
) -> Figure:
    """Return a figure of a comparison of any runs."""
    return _named(await _of_comparison(connection, runtime, principal, runs), name)


async def _of_run(runtime: Runtime, principal: Principal, run_id: UUID) -> list[Figure]:
    async with runtime.database.transaction() as session:
        run = await read_run(session, run_id, project_id=principal.project_id)
        files = await artifacts.of_run(session, run_id)
    return await _of_report(runtime, f"The run {run_id}", files, has_ended=run.finished_at is not None)


async def _of_experiment(runtime: Runtime, principal: Principal, experiment_id: UUID) -> list[Figure]:
    async with runtime.database.transaction() as session:
        experiment = await read_experiment(session, experiment_id, project_id=principal.project_id)
        files = await artifacts.of_experiment(session, experiment_id)
    return await _of_report(
        runtime, f"The experiment {experiment_id}", files, has_ended=experiment.finished_at is not None
    )


async def _of_report(runtime: Runtime, what: str, files: Sequence[ArtifactView], *, has_ended: bool) -> list[Figure]:
    document = next((file for file in files if file.kind == "report" and file.name == _DOCUMENT), None)
    if document is not None:
        path = await runtime.storage.open(document.storage_key, document.sha256)
        return await asyncio.to_thread(_read, path)
    if not has_ended:
        raise NotReady(f"{what} has no report yet.", cure="Wait until it has ended.", code="no_report")
    message = f"{what} ended without a report in JSON, from which figures are read."
    raise NotFound(message, cure="Add json to the reports of its task.", code="no_figures")


def _read(path: FilePath) -> list[Figure]:
    """Return the figures of a report: each is in it as a block with its numbers, and as Plotly JSON."""
    report = json.loads(path.read_bytes())
    drawn: dict[str, JsonValue] = report["figures"]
    blocks = [block for section in report["sections"] for block in section["blocks"] if block.get("name") in drawn]
    return [
        Figure(
            name=block["name"],
            kind=block["kind"],
            title=block["title"],
            alt=block["alt"],
            note=block["note"],
            table=FigureNumbers.model_validate(block["table"]),
            plotly=drawn[block["name"]],
        )
        for block in blocks
        if block["type"] == _BLOCK
    ]


async def _of_comparison(connection: HTTPConnection, runtime: Runtime, principal: Principal, runs: str) -> list[Figure]:
    return await asyncio.to_thread(_draw, await compare_given(connection, runtime, principal, runs))


def _draw(comparison: RunsComparison) -> list[Figure]:
    with needed_for("A figure of a comparison", extra="reports"):
        from vlmhyperbench.reports.writers.plots import to_plotly
        from vlmhyperbench_api.comparison_figures import figures_of
    return [
        Figure(
            name=spec.name,
            kind=spec.kind,
            title=spec.title,
            alt=spec.alt,
            note=spec.note,
            table=FigureNumbers.model_validate(asdict(spec.table)),
            plotly=to_plotly(spec),
        )
        for spec in figures_of(comparison)
    ]


def _listed(figures: Sequence[Figure]) -> Figures:
    names = set(FigureSummary.model_fields)
    return Figures(items=[FigureSummary(**figure.model_dump(include=names)) for figure in figures])


def _named(figures: Sequence[Figure], name: str) -> Figure:
    known = {figure.name: figure for figure in figures}
    if name not in known:
        raise NotFound(f"There is no figure {name[:100]!r}.", cure=did_you_mean(name, known))
    return known[name]
