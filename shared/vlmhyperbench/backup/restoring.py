"""Restore a backup wholly or not at all: it is verified first, and a marker keeps stacks away until it is finished."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from vlmhyperbench.backup import contents
from vlmhyperbench.backup.contents import Manifest
from vlmhyperbench.backup.database import hold, is_external, own_database
from vlmhyperbench.backup.programs import load
from vlmhyperbench.db import backup, migrations
from vlmhyperbench.errors import Conflict
from vlmhyperbench.files import write_whole
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.runtime import storage_location
from vlmhyperbench.settings import Settings
from vlmhyperbench.storage import Storage, open_storage

Tell = Callable[[str], None]

_MOVING, _WRITING = "moving", "writing"
"""Content of the marker: what was there is moved aside; the backup is written."""
_PARTS = ("postgres", "valkey", "storage", "evidence")


def restore(folder: Path, *, home: Home, settings: Settings, replaces: bool, tell: Tell) -> Manifest:
    """Restore a backup into an empty home, or with VLMHB_DATABASE_URL into that database, which has to be empty.

    `replaces` moves what the home has aside; it never deletes, and never empties a database of another server.

    Raises:
        InvalidInput: the folder is not a backup.
        Conflict: the backup is damaged or newer than the product, or there is something already.
        NotReady: a stack runs in the home.
        Unavailable: the database or the storage does not answer, or the disk is full.
    """
    manifest = contents.read_manifest(folder, known_revisions=migrations.known())
    tell("verify")
    contents.verify(folder, manifest)
    with hold(home):
        if is_external():
            _restore_external(folder, settings, tell)
        else:
            _restore_own(folder, home, replaces=replaces, tell=tell)
        _copy_home(folder, home)
        home.restoring_file.unlink(missing_ok=True)
    return manifest


def _restore_own(folder: Path, home: Home, *, replaces: bool, tell: Tell) -> None:
    present = [name for name in _PARTS if (home.root / name).exists() and any((home.root / name).iterdir())]
    stage = home.restoring_file.read_text() if home.restoring_file.exists() else None
    if stage == _WRITING:  # what is there was written by a try that was cut off, in a home that was empty for it
        for name in present:
            shutil.rmtree(home.root / name)
    elif present and not replaces:
        raise Conflict(
            f"{home.root} is not empty: it has {', '.join(present)}.",
            cure="Set VLMHB_HOME to a new folder, or add --replace, which moves them aside.",
            code="not_empty",
        )
    elif present:
        _mark(home, _MOVING)
        aside = home.root / f"replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        aside.mkdir(mode=0o700, exist_ok=True)
        for name in present:
            (home.root / name).rename(aside / name)
    _mark(home, _WRITING)
    tell("stored files")
    _put_objects(folder, open_storage(str(home.storage)))
    tell("database")
    with own_database(home) as url:
        _load(folder, url)


def _mark(home: Home, stage: str) -> None:
    write_whole(home.restoring_file, stage.encode(), mode=0o600, is_durable=True)


def _restore_external(folder: Path, settings: Settings, tell: Tell) -> None:
    url = settings.database_url.get_secret_value()
    if not backup.is_empty(url):
        cure = "Create an empty database and set VLMHB_DATABASE_URL to it."
        raise Conflict("The database that VLMHB_DATABASE_URL names is not empty.", cure=cure, code="not_empty")
    tell("stored files")  # before the rows that name them; a try that ends here has changed nothing that is read
    _put_objects(folder, open_storage(storage_location(settings)))
    tell("database")
    _load(folder, url)


def _load(folder: Path, url: str) -> None:
    load(url, folder / contents.DATABASE)
    migrations.upgrade(url)
    backup.forget_workers(url)


def _put_objects(folder: Path, storage: Storage) -> None:
    for file in contents.read_objects(folder):
        storage.put(file.name, folder / contents.STORAGE / file.name)


def _copy_home(folder: Path, home: Home) -> None:
    """Copy the registries and certificates; what the home has of the same name stays."""
    source = folder / contents.HOME
    for path in sorted(source.rglob("*")):
        target = home.root / path.relative_to(source)
        if path.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
