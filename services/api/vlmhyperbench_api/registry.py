"""`/registry`: the registry entries that runs and experiments may name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.registry import RegistryEntry, RegistrySummary
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, any_case
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
