"""`/registry`: the entries that runs and experiments may name, of files and of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from pydantic import JsonValue

from vlmhyperbench.db import registry_entries
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.registry import ParsedEntry, ParseRequest, RegistryEntry, RegistrySummary, RegistryVersion
from vlmhyperbench_api import stored_entries as entries
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, RuntimeOf, any_case
from vlmhyperbench_api.entries import parsed, schema_of
from vlmhyperbench_api.entry_bodies import ENTRY_BODY, PATCH_BODY, EntryBodyOf, Writer
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.stored_entries import Place

router = APIRouter(prefix="/registry", tags=["registry"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("registry:read")]

KindName = Annotated[str, Path(max_length=50), any_case(*KINDS)]
EntryName = Annotated[str, Path(max_length=200)]
Revision = Annotated[int, Path(ge=1, le=2**31 - 1)]
IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", max_length=200, description="ETag of the version that is changed; another one: 412."),
]
Words = Annotated[str | None, Query(alias="q", max_length=200, description="Words in the name or description.")]
WithArchived = Annotated[bool, Query(alias="archived", description="Also list what is archived.")]


def reading(kind: KindName, name: EntryName, principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> Place:
    """Return the entry that a request reads."""
    return Place(kind=kind, name=name, principal=principal, runtime=runtime, registries=registries)


def writing(kind: KindName, name: EntryName, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf) -> Place:
    """Return the entry that a request changes."""
    return Place(kind=kind, name=name, principal=principal, runtime=runtime, registries=registries)


Read = Annotated[Place, Depends(reading)]
Changing = Annotated[Place, Depends(writing)]


@router.get("")
async def list_registry(
    principal: Reader,
    registries: RegistriesOf,
    kind: Annotated[str | None, Query(max_length=50), any_case(*KINDS)] = None,
    q: Words = None,
    archived: WithArchived = False,
) -> Page[RegistrySummary]:
    """List the entries of one kind, or of all kinds; unusable entries come last, with their problem."""
    catalogue = await registries.catalogue(principal.project_id)
    kinds = list(KINDS) if kind is None else [kind]
    items = [*_usable(catalogue, kinds), *_unusable(catalogue, kinds)]
    return Page[RegistrySummary](items=[item for item in items if is_wanted(item, q, archived=archived)])


@router.post("/{kind}", status_code=201, openapi_extra=ENTRY_BODY)
async def make_registry_entry(
    kind: KindName,
    body: EntryBodyOf,
    principal: Writer,
    runtime: RuntimeOf,
    registries: RegistriesOf,
    response: Response,
) -> RegistryEntry:
    """Make an entry in the database; the same body sent again answers the same entry."""
    place = writing(kind, entries.name_of(body), principal, runtime, registries)
    return tagged(await entries.make(place, body), response)


@router.get("/schemas/{kind}")
async def get_schema(kind: KindName, _: Reader) -> dict[str, JsonValue]:
    """Return the JSON Schema of the entries of a kind, with a description of each field."""
    return await asyncio.to_thread(schema_of, kind)


@router.post("/{kind}/parse")
async def parse_entry(kind: KindName, body: ParseRequest, _: Reader) -> ParsedEntry:
    """Read the YAML of an entry and check its form; nothing is kept, and names of other entries are not looked up.

    Raises:
        InvalidInput: it is not the YAML of such an entry; lists every error with line and field.
    """
    return await asyncio.to_thread(parsed, kind, body.yaml)


@router.get("/{kind}/{name}")
async def get_registry_entry(place: Read, response: Response) -> RegistryEntry:
    """Return one entry with the location of its file, or with its version in the database."""
    return tagged(await entries.show(place), response)


@router.put("/{kind}/{name}", openapi_extra=ENTRY_BODY)
async def replace_registry_entry(
    place: Changing, body: EntryBodyOf, response: Response, match: IfMatch = None
) -> RegistryEntry:
    """Add a version of an entry of the database; an archived one is in use again."""
    return tagged(await entries.replace(place, body, match=match), response)


@router.patch("/{kind}/{name}", openapi_extra=PATCH_BODY)
async def patch_registry_entry(
    place: Changing, body: EntryBodyOf, response: Response, match: IfMatch = None
) -> RegistryEntry:
    """Add a version with some values changed (JSON merge patch); comments of the YAML are lost."""
    return tagged(await entries.patch(place, body.value, match=match), response)


@router.delete("/{kind}/{name}")
async def archive_registry_entry(place: Changing, response: Response, match: IfMatch = None) -> RegistryEntry:
    """Archive an entry of the database: it and its versions can still be read, and new runs cannot use it."""
    return tagged(await entries.archive(place, match=match), response)


@router.get("/{kind}/{name}/versions")
async def list_registry_versions(place: Read) -> Page[RegistryVersion]:
    """List the versions of an entry of the database, newest first; an entry of a file has none."""
    return await versions_of(place)


@router.get("/{kind}/{name}/versions/{revision}")
async def get_registry_version(place: Read, revision: Revision) -> RegistryEntry:
    """Return one version of an entry of the database."""
    return await entries.show_version(place, revision)


async def versions_of(place: Place) -> Page[RegistryVersion]:
    """Return the versions of an entry."""
    await entries.show(place)
    async with place.runtime.database.transaction() as session:
        rows = await registry_entries.versions(session, place.principal.project_id, place.kind, place.name)
    return Page[RegistryVersion](
        items=[
            RegistryVersion(
                revision=row.revision,
                version=row.version,
                digest=row.digest,
                is_archived=row.is_archived,
                created_by=row.created_by,
                created_at=row.created_at,
            )
            for row in rows
        ]
    )


def tagged(entry: RegistryEntry, response: Response) -> RegistryEntry:
    """Give the response the ETag by which an entry of the database is changed."""
    if entry.revision is not None:
        response.headers["ETag"] = entries.tag_of(entry)
    return entry


def is_wanted(item: RegistrySummary, words: str | None, *, archived: bool) -> bool:
    """Return whether a list has an entry."""
    text = f"{item.name} {item.description}".casefold()
    return (archived or not item.is_archived) and all(word in text for word in (words or "").casefold().split())


def _usable(catalogue: Catalogue, kinds: list[str]) -> Iterator[RegistrySummary]:
    for kind in kinds:
        for name, entry in sorted(catalogue.of(kind).items()):
            stored = catalogue.stored.get((kind, name))
            yield RegistrySummary(
                kind=kind,
                name=name,
                version=entry.version,
                description=entry.description,
                origin="file" if stored is None else "database",
                revision=None if stored is None else stored.revision,
            )


def _unusable(catalogue: Catalogue, kinds: list[str]) -> Iterator[RegistrySummary]:
    for (kind, name), errors in sorted(catalogue.broken.items()):
        if kind in kinds:
            stored = catalogue.stored.get((kind, name))
            yield RegistrySummary(
                kind=kind,
                name=name,
                version="",
                problem="\n".join(map(str, errors)),
                origin="file" if stored is None else "database",
                revision=None if stored is None else stored.revision,
                is_archived=stored is not None and stored.is_archived,
            )
