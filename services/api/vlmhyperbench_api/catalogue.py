"""Cached catalogues: registry files and, for each project, the entries that were made through the API.

A catalogue is read again only when a file or the number of stored versions has changed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vlmhyperbench.db import registry_entries
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import RegistryEntryView
from vlmhyperbench.registry.loading import Catalogue, read_catalogue
from vlmhyperbench.registry.stored import StoredEntry

Fingerprint = tuple[tuple[str, int, int], ...]

_MAX_CATALOGUES: Final = 16
"""Projects whose catalogues a process keeps."""


class Registries:
    """Reads folders of registry files and stored entries; see `read_catalogue` for which of one name is used."""

    def __init__(self, roots: Sequence[Path], *, run_mode: str, database: Database) -> None:
        self._roots = roots
        self._run_mode = run_mode
        self._database = database
        self._lock = asyncio.Lock()
        self._loaded: OrderedDict[str, tuple[int, Fingerprint, Catalogue]] = OrderedDict()

    async def catalogue(self, project_id: str) -> Catalogue:
        """Return the catalogue of the current files and entries, including the problems of invalid ones."""
        async with self._lock:
            async with self._database.transaction() as session:
                versions = await registry_entries.count(session, project_id)
            fingerprint = await asyncio.to_thread(self._fingerprint)
            known = self._loaded.get(project_id)
            if known is None or known[:2] != (versions, fingerprint):
                catalogue = await self.with_entry(project_id)
                self._loaded[project_id] = known = (versions, fingerprint, catalogue)
            self._loaded.move_to_end(project_id)
            while len(self._loaded) > _MAX_CATALOGUES:
                self._loaded.popitem(last=False)
            return known[2]

    async def with_entry(self, project_id: str, candidate: StoredEntry | None = None) -> Catalogue:
        """Read everything anew, with an entry in the place of the stored one of its name."""
        async with self._database.transaction() as session:
            rows = await registry_entries.current(session, project_id)
        stored = [stored_of(row) for row in rows if candidate is None or (row.kind, row.name) != candidate.key]
        given = [*stored, *([candidate] if candidate is not None else [])]
        return await asyncio.to_thread(read_catalogue, self._roots, run_mode=self._run_mode, stored=given)

    def _fingerprint(self) -> Fingerprint:
        files = []
        for path in sorted(path for root in self._roots for path in root.glob("*/*.yaml")):
            stat = path.stat()
            files.append((str(path), stat.st_mtime_ns, stat.st_size))
        return tuple(files)


def stored_of(row: RegistryEntryView) -> StoredEntry:
    """Return the row of an entry as the value that the registry reads."""
    return StoredEntry(kind=row.kind, name=row.name, revision=row.revision, text=row.text, is_archived=row.is_archived)
