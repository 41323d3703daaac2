"""`/pipelines`: the registered pipelines and whether they can start; drafts are checked and planned, not saved."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.pipelines import PipelineCheck, PipelineDraft, PipelinePlan, PipelineStatus
from vlmhyperbench_api import pipeline_drafts as drafts
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, RuntimeOf
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/pipelines", tags=["pipelines"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("registry:read")]
Planner = Annotated[Principal, requires("run:read")]


@router.get("")
async def list_pipelines(principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> Page[PipelineStatus]:
    """List the registered pipelines, the base pipeline first, with every reason why one cannot start."""
    catalogue = await registries.catalogue(principal.project_id)
    return Page[PipelineStatus](items=await drafts.listed(runtime, catalogue), next=None)


@router.post("/check")
async def check_pipeline(
    body: PipelineDraft, principal: Reader, runtime: RuntimeOf, registries: RegistriesOf
) -> PipelineCheck:
    """Check a pipeline that is not saved: all problems at once, each with its stage."""
    return await drafts.check(runtime, await registries.catalogue(principal.project_id), body)


@router.post("/plan")
async def plan_pipeline(
    body: PipelineDraft, principal: Planner, runtime: RuntimeOf, registries: RegistriesOf
) -> PipelinePlan:
    """Plan one question to a pipeline that need not be saved: steps, time and memory.

    Raises:
        InvalidInput: the pipeline cannot be asked; lists every error.
    """
    catalogue = await registries.catalogue(principal.project_id)
    return await drafts.plan(runtime, catalogue, body, project_id=principal.project_id)
