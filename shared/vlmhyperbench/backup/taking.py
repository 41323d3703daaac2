"""Take a backup while runs go on: the database as of one instant first, then the files that it refers to.

Stored files never change, so those that a row of the snapshot names are the same whenever they are copied.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from vlmhyperbench.backup import contents
from vlmhyperbench.backup.contents import File, Manifest
from vlmhyperbench.backup.programs import dump
from vlmhyperbench.data import manifest as sample_manifests
from vlmhyperbench.db import backup, migrations
from vlmhyperbench.errors import Conflict, NotReady
from vlmhyperbench.exchange.answers import answers_key
from vlmhyperbench.files import write_whole
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.storage import Storage

Tell = Callable[[str], None]


async def take(folder: Path, *, home: Home, database_url: str, storage: Storage, tell: Tell) -> Manifest:
    """Write a backup into a new folder, which appears only once it is whole.

    Raises:
        Conflict: the folder exists and is not empty, or a stored file is damaged.
        NotReady: the database has no tables.
        Unavailable: the database or the storage does not answer, or the disk is full.
    """
    partial = await asyncio.to_thread(_begin, folder)
    revision = await asyncio.to_thread(migrations.current, database_url)
    if revision is None:
        raise NotReady("The database has no tables.", cure="Start the stack once.")
    async with backup.snapshot(database_url) as held:
        tell("database")
        taken_at = datetime.now(UTC).isoformat(timespec="seconds")
        target = partial / contents.DATABASE
        await asyncio.to_thread(dump, database_url, target, snapshot_id=held.id)
        tell("stored files")
        files = [await _copy(storage, *reference, partial) for reference in held.references]
        files += [await _copy(storage, *reference, partial) for reference in held.manifests]
        images = await asyncio.to_thread(_images, [partial / contents.STORAGE / row.key for row in held.manifests])
        others = [(answers_key(row.project_id, row.sha256), row.sha256) for row in held.imported]
        files += [await _copy(storage, key, sha256, partial) for key, sha256 in sorted({*images, *others})]
    objects = partial / contents.OBJECTS
    contents.write_objects(objects, files)
    written = Manifest(
        format=contents.FORMAT,
        product=version("vlmhyperbench"),
        revision=revision,
        server_version=held.server_version,
        taken_at=taken_at,
        database_sha256=await asyncio.to_thread(file_sha256, target),
        objects_sha256=file_sha256(objects),
        objects=len(files),
        objects_bytes=sum(file.size_bytes for file in files),
        home=tuple(_copy_home(home, partial / contents.HOME)),
    )
    await asyncio.to_thread(_finish, partial, folder, written)
    return written


def _begin(folder: Path) -> Path:
    """Return the new folder that gets the name of the backup once it is whole."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} is not empty.", cure="Give a new folder.", code="not_empty")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    return partial


def _finish(partial: Path, folder: Path, manifest: Manifest) -> None:
    text = manifest.model_dump_json(indent=1) + "\n"
    write_whole(partial / contents.MANIFEST, text.encode(), is_durable=True)
    if folder.exists():
        folder.rmdir()
    partial.rename(folder)


async def _copy(storage: Storage, key: str, sha256: str, partial: Path) -> File:
    source = await storage.open(key, sha256)
    target = partial / contents.STORAGE / key
    await asyncio.to_thread(_copy_file, source, target)
    return File(key, sha256, target.stat().st_size)


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _images(manifests: Iterable[Path]) -> set[tuple[str, str]]:
    return {
        (image.storage_key, image.sha256)
        for path in manifests
        for sample in sample_manifests.samples_of(sample_manifests.read(path))
        for image in sample.images
    }


def _copy_home(home: Home, target: Path) -> Iterable[tuple[str, str, int]]:
    for name in contents.HOME_FOLDERS:
        for path in sorted((home.root / name).rglob("*")):
            if path.is_file() and not path.is_symlink():
                relative = path.relative_to(home.root)
                _copy_file(path, target / relative)
                yield relative.as_posix(), file_sha256(target / relative), path.stat().st_size
