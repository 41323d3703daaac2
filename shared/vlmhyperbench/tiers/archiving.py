"""Pack the rows and payloads of a warm run into one compressed archive, and bring them back, every file verified."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Final
from uuid import UUID, uuid4

from vlmhyperbench.db import tiers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.tiers import StoredFile
from vlmhyperbench.db.views import RunTierView
from vlmhyperbench.domain.tiers import Tier
from vlmhyperbench.errors import Conflict, Damaged
from vlmhyperbench.storage import Storage, Stored
from vlmhyperbench.tiers.moving import Moved, check_tier, lock_run, record, scratch

MANIFEST: Final = "MANIFEST.json"
_FORMAT: Final = 1
_PRESET: Final = 1
"""Level of xz: payloads are compressed already, and a higher one gains little."""


async def to_cold(database: Database, storage: Storage, run_id: UUID, *, folder: Path) -> Moved:
    """Pack a warm run; its files stay until `remove_loose_files`, and a move that is cut off leaves it warm.

    Raises:
        NotFound: there is no such run.
        Conflict: it is not warm, another run that is not archived reads it, or its files have changed.
        Damaged: a file is missing or has other content, or the archive differs from what was packed.
        Unavailable: database or storage do not respond, or a disk is full.
    """
    async with database.snapshot() as session:
        tier = await check_tier(session, run_id, Tier.WARM)
        files = await tiers.files(session, run_id)
    paths = await storage.open_all([(file.key, file.sha256) for file in files])
    with scratch(folder) as scratched:
        stored = await asyncio.to_thread(_pack, storage, run_id, files, paths, scratched)
    archive = await storage.open(stored.key, stored.sha256)
    await asyncio.to_thread(_unpack, archive, stored.key, files, None)
    async with database.transaction() as session:
        await lock_run(session, run_id)
        tier = await check_tier(session, run_id, Tier.WARM)
        if await tiers.files(session, run_id) != files:
            raise Conflict(f"The files of the run {run_id} have changed.", cure="Try again.", code="tier_differs")
        [run] = await tiers.listed(session, run_ids=[run_id])
        if run.readers:
            message = f"The run {run_id} is not archived: {run.readers} run(s) read its answers."
            raise Conflict(message, cure="Archive those first.", code="run_referenced")
        rows = tier.rows if tier is not None else 0
        moved = Moved(run_id=run_id, tier=Tier.COLD, rows=rows, size_bytes=stored.size_bytes)
        values: dict[str, object] = {
            "tier": Tier.COLD.value,
            "archive_key": stored.key,
            "archive_sha256": stored.sha256,
            "archive_bytes": stored.size_bytes,
            "has_loose_files": True,
        }
        await record(session, moved, before=Tier.WARM, values=values)
    return moved


async def from_cold(database: Database, storage: Storage, run_id: UUID, *, folder: Path) -> Moved:
    """Unpack a cold run, which is warm then; a move that is cut off leaves it cold.

    Raises:
        NotFound: there is no such run.
        Conflict: it is not cold.
        Damaged: the archive is missing or differs from what was packed; the message names it.
        Unavailable: database or storage do not respond, or a disk is full.
    """
    async with database.snapshot() as session:
        tier = await check_tier(session, run_id, Tier.COLD)
        files = await tiers.files(session, run_id)
    key, sha256, size_bytes = _archive(tier)
    archive = await storage.open(key, sha256)
    with scratch(folder) as scratched:
        await asyncio.to_thread(_unpack, archive, key, files, scratched)
        for no, file in enumerate(files):
            await asyncio.to_thread(storage.put, file.key, scratched / str(no))
    await storage.open_all([(file.key, file.sha256) for file in files])
    async with database.transaction() as session:
        await lock_run(session, run_id)
        tier = await check_tier(session, run_id, Tier.COLD)
        rows = tier.rows if tier is not None else 0
        moved = Moved(run_id=run_id, tier=Tier.WARM, rows=rows, size_bytes=size_bytes)
        values: dict[str, object] = {
            "tier": Tier.WARM.value,
            "archive_key": None,
            "archive_sha256": None,
            "archive_bytes": None,
            "has_loose_files": False,
        }
        await record(session, moved, before=Tier.COLD, values=values)
    return moved


async def remove_loose_files(database: Database, storage: Storage, run_id: UUID) -> int:
    """Delete the files of a cold run that its archive has; return their number.

    The archive is verified once more before. The caller is the only process that moves runs.
    """
    async with database.snapshot() as session:
        tier = await check_tier(session, run_id, Tier.COLD)
        files = await tiers.files(session, run_id)
    key, sha256, _ = _archive(tier)
    await storage.open(key, sha256)
    for file in files:
        await asyncio.to_thread(storage.delete, file.key)
    async with database.transaction() as session:
        await lock_run(session, run_id)
        await check_tier(session, run_id, Tier.COLD)
        await tiers.write(session, run_id, {"has_loose_files": False})
    return len(files)


def _archive(tier: RunTierView | None) -> tuple[str, str, int]:
    if tier is None or tier.archive_key is None or tier.archive_sha256 is None or tier.archive_bytes is None:
        raise Conflict("A cold run has no archive.", cure="Restore the database from a backup.", code="no_archive")
    return tier.archive_key, tier.archive_sha256, tier.archive_bytes


def _pack(storage: Storage, run_id: UUID, files: Sequence[StoredFile], paths: Sequence[Path], folder: Path) -> Stored:
    described = [{"key": file.key, "sha256": file.sha256, "size_bytes": file.size_bytes} for file in files]
    manifest = json.dumps({"format": _FORMAT, "run_id": str(run_id), "files": described}, indent=1).encode()
    path = folder / "archive.tar.xz"
    with tarfile.open(path, "w:xz", preset=_PRESET) as archive:
        head = tarfile.TarInfo(MANIFEST)
        head.size = len(manifest)
        archive.addfile(head, io.BytesIO(manifest))
        for file, source in zip(files, paths, strict=True):
            member = tarfile.TarInfo(file.key)
            member.size = source.stat().st_size
            with source.open("rb") as content:
                archive.addfile(member, content)
    return storage.put(f"archives/{run_id}/{uuid4()}.tar.xz", path, media_type="application/x-xz")


def _copy(content: IO[bytes], target: Path | None) -> str:
    """Return the SHA-256 of a stream, which is read once and written to a file, if one is given."""
    digest = hashlib.sha256()
    with nullcontext() if target is None else target.open("wb") as out:
        while block := content.read(1024**2):
            digest.update(block)
            if out is not None:
                out.write(block)
    return digest.hexdigest()


def _unpack(path: Path, key: str, files: Sequence[StoredFile], folder: Path | None) -> None:
    """Check every file of an archive against the rows that name it, and write them to a folder, if one is given.

    Raises:
        Damaged: a file is missing in the archive, or has other content.
    """
    expected = {file.key: (no, file.sha256) for no, file in enumerate(files)}
    seen: dict[str, str] = {}
    try:
        with tarfile.open(path, "r:xz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if member.name not in expected or content is None:
                    continue
                no, _ = expected[member.name]
                seen[member.name] = _copy(content, None if folder is None else folder / str(no))
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise Damaged(key, expected="of an archive of this run", found=None) from error
    for name, (_, sha256) in expected.items():
        if seen.get(name) != sha256:
            raise Damaged(f"{name} in {key}", expected=sha256, found=seen.get(name))
