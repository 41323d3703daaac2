"""A cached catalogue of the registry files, which are read again only when a file has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from vlmhyperbench.registry.loading import Catalogue, read_catalogue

Fingerprint = tuple[tuple[str, int, int], ...]


class Registries:
    """Reads folders of registry files; entries of later folders replace those of earlier ones."""

    def __init__(self, roots: Sequence[Path], *, run_mode: str) -> None:
        self._roots = roots
        self._run_mode = run_mode
        self._lock = asyncio.Lock()
        self._loaded: tuple[Fingerprint, Catalogue] | None = None

    async def catalogue(self) -> Catalogue:
        """Return the catalogue of the current files, including the problems of invalid ones."""
        async with self._lock:
            fingerprint = await asyncio.to_thread(self._fingerprint)
            if self._loaded is None or self._loaded[0] != fingerprint:
                loaded = await asyncio.to_thread(read_catalogue, self._roots, run_mode=self._run_mode)
                self._loaded = (fingerprint, loaded)
            return self._loaded[1]

    def _fingerprint(self) -> Fingerprint:
        files = []
        for path in sorted(path for root in self._roots for path in root.glob("*/*.yaml")):
            stat = path.stat()
            files.append((str(path), stat.st_mtime_ns, stat.st_size))
        return tuple(files)
