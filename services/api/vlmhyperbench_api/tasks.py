"""`/tasks`: what models are asked to do; the registry's kind `tasks` under an address of its own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.registry import RegistryEntry, RegistrySummary, RegistryVersion, TaskSummary
from vlmhyperbench_api import registry
from vlmhyperbench_api import stored_entries as entries
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, RuntimeOf
from vlmhyperbench_api.entry_bodies import ENTRY_BODY, PATCH_BODY, EntryBodyOf, Writer
from vlmhyperbench_api.registry import EntryName, IfMatch, Reader, Revision, WithArchived, Words, tagged
from vlmhyperbench_api.stored_entries import Place

router = APIRouter(prefix="/tasks", tags=["tasks"], route_class=StrictRoute)

_KIND = "tasks"
Value = Annotated[str | None, Query(max_length=200)]


def _reading(name: EntryName, principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> Place:
    return registry.reading(_KIND, name, principal, runtime, registries)


def _writing(name: EntryName, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf) -> Place:
    return registry.writing(_KIND, name, principal, runtime, registries)


Read = Annotated[Place, Depends(_reading)]
Changing = Annotated[Place, Depends(_writing)]


@router.get("")
async def list_tasks(
    principal: Reader,
    registries: RegistriesOf,
    q: Words = None,
    category: Value = None,
    dataset: Value = None,
    metric: Value = None,
    archived: WithArchived = False,
) -> Page[TaskSummary]:
    """List tasks that have all of the given values; unusable ones come last, with their problem."""
    catalogue = await registries.catalogue(principal.project_id)
    listed = await registry.list_registry(principal, registries, _KIND, q, archived)
    rows = [_row(catalogue, item) for item in listed.items]
    return Page[TaskSummary](
        items=[
            row
            for row in rows
            if category in (None, row.category)
            and dataset in (None, row.dataset)
            and (metric is None or any(metric in (name, name.partition(":")[0]) for name in row.metrics))
        ]
    )


@router.post("", status_code=201, openapi_extra=ENTRY_BODY)
async def make_task(
    body: EntryBodyOf, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf, response: Response
) -> RegistryEntry:
    """Make a task; the same body sent again answers the same task."""
    return await registry.make_registry_entry(_KIND, body, principal, runtime, registries, response)


@router.get("/{name}")
async def get_task(place: Read, response: Response) -> RegistryEntry:
    """Return a task."""
    return tagged(await entries.show(place), response)


@router.put("/{name}", openapi_extra=ENTRY_BODY)
async def replace_task(place: Changing, body: EntryBodyOf, response: Response, match: IfMatch = None) -> RegistryEntry:
    """Add a version of a task; an archived one is in use again."""
    return tagged(await entries.replace(place, body, match=match), response)


@router.patch("/{name}", openapi_extra=PATCH_BODY)
async def patch_task(place: Changing, body: EntryBodyOf, response: Response, match: IfMatch = None) -> RegistryEntry:
    """Add a version with some values changed (JSON merge patch)."""
    return tagged(await entries.patch(place, body.value, match=match), response)


@router.delete("/{name}")
async def archive_task(place: Changing, response: Response, match: IfMatch = None) -> RegistryEntry:
    """Archive a task: it and its versions can still be read, and new runs cannot use it."""
    return tagged(await entries.archive(place, match=match), response)


@router.get("/{name}/versions")
async def list_task_versions(place: Read) -> Page[RegistryVersion]:
    """List the versions of a task, newest first."""
    return await registry.versions_of(place)


@router.get("/{name}/versions/{revision}")
async def get_task_version(place: Read, revision: Revision) -> RegistryEntry:
    """Return one version of a task."""
    return await entries.show_version(place, revision)


def _row(catalogue: Catalogue, item: RegistrySummary) -> TaskSummary:
    task = catalogue.tasks.get(item.name)
    values = {} if task is None else task.model_dump(include={"category", "dataset", "prompt", "metrics"})
    return TaskSummary.model_validate({**item.model_dump(), **values})
