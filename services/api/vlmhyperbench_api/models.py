"""`/models`: registered GGUF models with their status and estimate; a worker loads and unloads them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path

from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.models import ModelEstimate, ModelLoad, ModelStatus
from vlmhyperbench_api import model_states as states
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, RuntimeOf
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("worker:read")]
Writer = Annotated[Principal, requires("worker:write")]
ModelName = Annotated[str, Path(max_length=200)]


@router.get("")
async def list_models(principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> Page[ModelStatus]:
    """List the registered GGUF models by name, whether they can be used and whether they are loaded; then files beside
    them that no entry uses.
    """
    catalogue = await registries.catalogue(principal.project_id)
    return Page[ModelStatus](items=await states.listed(runtime, catalogue, principal.project_id), next=None)


@router.get("/{name}")
async def get_model(name: ModelName, principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> ModelStatus:
    """Read the status of a registered GGUF model."""
    catalogue = await registries.catalogue(principal.project_id)
    return await states.one(runtime, catalogue, principal.project_id, name)


@router.get("/{name}/estimate")
async def estimate_model(
    name: ModelName, principal: Reader, runtime: RuntimeOf, registries: RegistriesOf
) -> ModelEstimate:
    """Estimate the memory of a model with the parameters of its entry, beside what was measured."""
    return await states.estimate(runtime, await registries.catalogue(principal.project_id), name)


@router.post("/{name}/load", status_code=202)
async def load_model(
    name: ModelName,
    principal: Writer,
    runtime: RuntimeOf,
    registries: RegistriesOf,
    body: Annotated[ModelLoad, Body()] = ModelLoad(),  # noqa: B008 - it is frozen
) -> ModelStatus:
    """Ask a worker to load a model when it has no job; `GET /models/{name}` says when it is loaded, or why not."""
    catalogue = await registries.catalogue(principal.project_id)
    return await states.load(runtime, catalogue, principal, name, is_pinned=body.pin)


@router.post("/{name}/unload", status_code=202)
async def unload_model(name: ModelName, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf) -> ModelStatus:
    """Ask the worker that has loaded a model to unload it when it has no job."""
    catalogue = await registries.catalogue(principal.project_id)
    return await states.unload(runtime, catalogue, principal, name)
