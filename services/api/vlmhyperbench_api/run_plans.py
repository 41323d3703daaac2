"""`/runs/plan` and `/runs/{run_id}/entry`: a dry run, and the entry with which a run can be submitted again."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter

from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.writing_out import entry_of
from vlmhyperbench.wire.plans import RunPlan
from vlmhyperbench.wire.registry import ParsedEntry
from vlmhyperbench.wire.runs import RunCreate
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, RuntimeOf
from vlmhyperbench_api.dry_runs import dry_run
from vlmhyperbench_api.ids import RunId
from vlmhyperbench_api.reading import read_run
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.submission.request import Submission

router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]


@router.post("/plan")
async def plan_run(body: RunCreate, principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> RunPlan:
    """Say what a run would be, ask, need and take, or everything that is wrong with it; nothing is created."""
    catalogue = await registries.catalogue(principal.project_id)
    return await dry_run(Submission(body=body, principal=principal, key=None, catalogue=catalogue, runtime=runtime))


@router.get("/{run_id}/entry")
async def get_entry(run_id: RunId, principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> ParsedEntry:
    """Return the shortest entry that submits such a run again, to change it.

    Raises:
        NotFound: there is no such run.
        InvalidInput: its answers were imported.
    """
    async with runtime.database.transaction() as session:
        run = await read_run(session, run_id, project_id=principal.project_id)
    plugins = InstalledPlugins(adapters=runtime.settings.engine_environment.adapters)
    entry = await asyncio.to_thread(
        entry_of, await registries.catalogue(principal.project_id), run.spec, plugins=plugins
    )
    return ParsedEntry(kind="runs", entry=entry)
