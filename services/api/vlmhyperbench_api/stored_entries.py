"""Entries of the registry in the database: make, change and archive them as immutable versions, and read them.

Two people may edit one entry: each version has a number, which is the entry's ETag and which two writers cannot take.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.db import registry_entries
from vlmhyperbench.db.views import RegistryEntryView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.registry.catalogue import SINGULAR, Catalogue
from vlmhyperbench.registry.documents import parse_document
from vlmhyperbench.registry.effective import effective_values
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import SUFFIX, check_name
from vlmhyperbench.registry.schemas import Entry
from vlmhyperbench.registry.stored import StoredEntry
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.registry import EntryName, EntryValue, RegistryEntry
from vlmhyperbench_api.catalogue import Registries
from vlmhyperbench_api.entry_bodies import EntryBody, body_of
from vlmhyperbench_api.errors import Changed
from vlmhyperbench_api.security import Principal

_TAG: Final = re.compile(r'"([0-9]+)-[0-9a-f]*"')
"""The ETag of an entry; proxies may put `W/` before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An entry's address, who asks for it, and what it is read from."""

    kind: str
    name: str
    principal: Principal
    runtime: Runtime
    registries: Registries

    @property
    def shown(self) -> str:
        return f"The {SINGULAR[self.kind]} {self.name!r}"

    async def newest(self) -> RegistryEntryView | None:
        """Read the newest version; None if the database has no such entry."""
        async with self.runtime.database.transaction() as session:
            return await registry_entries.newest(session, self.principal.project_id, self.kind, self.name)


async def show(place: Place) -> RegistryEntry:
    """Return the entry in use, or the one of the database where none can be used.

    Raises:
        NotFound: there is no such kind or entry.
        RegistryErrors: its file is invalid.
    """
    catalogue = await place.registries.catalogue(place.principal.project_id)
    catalogue.of(place.kind)
    row = await place.newest()
    key = (place.kind, place.name)
    is_of_file = key in catalogue.origins and key not in catalogue.stored
    if row is not None and not (is_of_file and row.is_archived):
        return _of_row(catalogue, row, is_newest=True)
    entry = catalogue.get(*key)
    location = catalogue.location_of(*key)
    file = catalogue.folder_of(*key) / place.kind / f"{place.name}{SUFFIX}"
    return RegistryEntry(
        kind=place.kind,
        name=place.name,
        version=entry.version,
        description=entry.description,
        entry=entry.model_dump(mode="json"),
        file=location.file if location else None,
        text=await asyncio.to_thread(_text, file),
        values=_values(catalogue, key),
        used_by=_users(catalogue, key),
    )


async def show_version(place: Place, revision: int) -> RegistryEntry:
    """Return one version of an entry of the database.

    Raises:
        NotFound: there is no such version.
    """
    catalogue = await place.registries.catalogue(place.principal.project_id)
    async with place.runtime.database.transaction() as session:
        row = await registry_entries.at(session, place.principal.project_id, place.kind, place.name, revision=revision)
    if row is None:
        raise NotFound(f"{place.shown} has no version {revision}.", cure="List its versions.")
    return _of_row(catalogue, row, is_newest=False)


async def make(place: Place, body: EntryBody) -> RegistryEntry:
    """Make an entry; the same body again answers the same entry.

    Raises:
        RegistryErrors: it is invalid; lists all errors.
        Conflict: the name is taken, by another entry or by a file.
    """
    check_name(place.name)
    row = await place.newest()
    if row is None:
        await _refuse_files(place)
        return await _add(place, body, revision=1)
    if row.digest == digest_of(body.value) and not row.is_archived:
        return await show(place)
    state = ", and is archived" if row.is_archived else ""
    raise Conflict(f"{place.shown} exists{state}.", cure="Send it with PUT, as a new version.", code="name_taken")


async def replace(place: Place, body: EntryBody, *, match: str | None) -> RegistryEntry:
    """Add a version; content that the newest version has already adds none. An archived entry is in use again.

    Raises:
        NotFound: there is no such entry in the database.
        RegistryErrors: it is invalid; lists all errors.
        Changed: `match` names another version than the newest, or another writer came first.
    """
    return await _replace(place, await _to_change(place, match), body)


async def patch(place: Place, change: JsonValue, *, match: str | None) -> RegistryEntry:
    """Add a version with some values changed, as RFC 7396 describes: null removes a value.

    Raises:
        NotFound, RegistryErrors, Changed: as in `replace`.
    """
    if not isinstance(change, dict):
        raise InvalidInput("The body is no object.", cure="Send an object with the values that change.")
    row = await _to_change(place, match)
    document, errors = parse_document(row.text, place.name)
    if document is None:
        raise RegistryErrors(errors)
    return await _replace(place, row, body_of(_merged(document.value, change)))


async def archive(place: Place, *, match: str | None) -> RegistryEntry:
    """Archive an entry: it can be read, and no new run can use it.

    Raises:
        NotFound: there is no such entry in the database.
        Changed: as in `replace`.
    """
    row = await _to_change(place, match)
    if not row.is_archived:
        await _write(place, row.text, row.digest, row.version, revision=row.revision + 1, is_archived=True)
    return await show(place)


def tag_of(entry: RegistryEntry) -> str:
    """Return the ETag of an entry of the database: its revision, and a hash because problems and defaults change."""
    return f'"{entry.revision}-{hashlib.sha256(entry.model_dump_json().encode()).hexdigest()[:16]}"'


async def _to_change(place: Place, match: str | None) -> RegistryEntryView:
    row = await place.newest()
    if row is None:
        await _refuse_files(place)
        raise NotFound(f"{place.shown} is not in the database.", cure="Make it with POST.")
    if match is not None and match.strip() != "*" and str(row.revision) not in _TAG.findall(match):
        raise _changed(place, row.revision)
    return row


async def _replace(place: Place, row: RegistryEntryView, body: EntryBody) -> RegistryEntry:
    if row.digest == digest_of(body.value) and not row.is_archived:
        return await show(place)
    return await _add(place, body, revision=row.revision + 1)


async def _refuse_files(place: Place) -> None:
    catalogue = await place.registries.catalogue(place.principal.project_id)
    catalogue.of(place.kind)
    roots = catalogue.origins.get((place.kind, place.name))
    if roots:
        raise Conflict(
            f"{place.shown} is a file in {roots[-1]}.",
            cure="Choose another name, or change that file.",
            code="entry_of_file",
        )


async def _add(place: Place, body: EntryBody, *, revision: int) -> RegistryEntry:
    """Check an entry against all others, then write it."""
    candidate = StoredEntry(kind=place.kind, name=place.name, revision=revision, text=body.text)
    catalogue = await place.registries.with_entry(place.principal.project_id, candidate)
    errors = catalogue.broken.get(candidate.key)
    if errors:
        raise body.refused(RegistryErrors(errors))
    entry = catalogue.get(*candidate.key)
    await _write(place, body.text, digest_of(body.value), entry.version, revision=revision)
    return await show(place)


async def _write(
    place: Place, text: str, digest: str, version: str, *, revision: int, is_archived: bool = False
) -> None:
    async with place.runtime.database.transaction() as session:
        written = await registry_entries.add(
            session,
            project_id=place.principal.project_id,
            kind=place.kind,
            name=place.name,
            revision=revision,
            version=version,
            digest=digest,
            text=text,
            created_by=place.principal.name,
            is_archived=is_archived,
        )
    if written is None:
        raise _changed(place, revision)


def _changed(place: Place, revision: int) -> Changed:
    return Changed(
        f"{place.shown} was changed by somebody else: its newest version is {revision}.",
        cure="Read it again, and send your change with its new ETag.",
    )


def _of_row(catalogue: Catalogue, row: RegistryEntryView, *, is_newest: bool) -> RegistryEntry:
    key = (row.kind, row.name)
    broken = catalogue.broken.get(key, ()) if is_newest and key in catalogue.stored else ()
    document, _ = parse_document(row.text, row.name)
    written = document.value if document is not None else {}
    entry: Entry | None = catalogue.of(row.kind).get(row.name) if is_newest and key in catalogue.stored else None
    roots = catalogue.origins.get(key, ()) if key not in catalogue.stored and is_newest else ()
    problem = "\n".join(map(str, broken)) or None
    return RegistryEntry(
        kind=row.kind,
        name=row.name,
        version=row.version,
        description=str(written.get("description", "")),
        problem="It is archived: new runs cannot use it." if row.is_archived else problem,
        origin="database",
        revision=row.revision,
        is_archived=row.is_archived,
        entry=entry.model_dump(mode="json") if entry is not None else dict(written),
        text=row.text,
        values=_values(catalogue, key) if entry is not None else [],
        used_by=_users(catalogue, key) if is_newest and key in catalogue.stored else [],
        digest=row.digest,
        created_by=row.created_by,
        created_at=row.created_at,
        overridden_by=str(roots[-1] / row.kind / f"{row.name}.yaml") if roots else None,
    )


def _text(file: Path) -> str | None:
    """Read the file of an entry; None if it was removed since the catalogue was read."""
    try:
        return file.read_text("utf-8-sig")
    except FileNotFoundError:
        return None


def _values(catalogue: Catalogue, key: tuple[str, str]) -> list[EntryValue]:
    return [
        EntryValue(path=each.path, value=each.value, origin=each.origin) for each in effective_values(catalogue, *key)
    ]


def _users(catalogue: Catalogue, key: tuple[str, str]) -> list[EntryName]:
    return [EntryName(kind=kind, name=name) for kind, name in catalogue.users_of(*key)]


def _merged(value: Mapping[str, JsonValue], change: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    merged = dict(value)
    for key, item in change.items():
        below = merged.get(key)
        if item is None:
            merged.pop(key, None)
        elif isinstance(item, dict):
            merged[key] = _merged(below if isinstance(below, dict) else {}, item)
        else:
            merged[key] = item
    return merged


def name_of(body: EntryBody) -> str:
    """Return the name that a body gives its entry.

    Raises:
        InvalidInput: it gives none.
    """
    name = body.value.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInput("The body has no name.", cure="Add name: the name of the entry.", code="no_name")
    return name
