"""`/registry`: the registry entries that runs and experiments may name."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import JsonValue

from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.registry import ParsedEntry, ParseRequest, RegistryEntry, RegistrySummary
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, any_case
from vlmhyperbench_api.entries import parsed, schema_of
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/registry", tags=["registry"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("registry:read")]
KindName = Annotated[str, Path(max_length=50), any_case(*KINDS)]
EntryName = Annotated[str, Path(max_length=200)]


@router.get("")
async def list_registry(
    _: Reader, registries: RegistriesOf, kind: Annotated[str | None, Query(max_length=50), any_case(*KINDS)] = None
) -> Page[RegistrySummary]:
    """List the entries of one kind, or of all kinds; unusable entries come last, with their problem."""
    catalogue = await registries.catalogue()
    kinds = list(KINDS) if kind is None else [kind]
    items = [
        RegistrySummary(kind=kind, name=name, version=entry.version, description=entry.description)
        for kind in kinds
        for name, entry in sorted(catalogue.of(kind).items())
    ]
    items += [
        RegistrySummary(kind=kind, name=name, version="", problem="\n".join(map(str, errors)))
        for (kind, name), errors in sorted(catalogue.broken.items())
        if kind in kinds
    ]
    return Page[RegistrySummary](items=items)


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
async def get_registry_entry(kind: KindName, name: EntryName, _: Reader, registries: RegistriesOf) -> RegistryEntry:
    """Return one entry with the location of its file."""
    catalogue = await registries.catalogue()
    entry = catalogue.get(kind, name)
    location = catalogue.location_of(kind, name)
    return RegistryEntry(
        kind=kind,
        name=name,
        version=entry.version,
        description=entry.description,
        entry=entry.model_dump(mode="json"),
        file=location.file if location else None,
    )
