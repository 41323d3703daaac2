"""The folder of a backup: its manifest, the lists of its files with hashes, and the check that it is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from vlmhyperbench.errors import Conflict, InvalidInput
from vlmhyperbench.folders import file_sha256

FORMAT: Final = 1
"""Version of the layout of the folder."""
MANIFEST: Final = "manifest.json"
DATABASE: Final = "database.dump"
OBJECTS: Final = "objects.jsonl"
STORAGE: Final = "storage"
HOME: Final = "home"
HOME_FOLDERS: Final = ("registries", "certificates")
"""Folders of VLMHB_HOME that no other place has."""
EXCLUDED: Final = (
    "secrets (VLMHB_HOME/secrets), passwords and the pepper of API keys (VLMHB_HOME/run)",
    "models, environments and caches, which are made again",
    "logs and messages of the broker",
)


@dataclass(frozen=True, slots=True)
class File:
    """A file of a backup: its path below a folder, or its key in storage."""

    name: str
    sha256: str
    size_bytes: int


class Manifest(BaseModel):
    """What a backup says of itself; `objects` is the hash of the list of stored files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    product: str
    revision: str
    """Revision of the database's schema."""
    server_version: str
    taken_at: str
    database_sha256: str
    objects_sha256: str
    objects: int
    objects_bytes: int
    home: tuple[tuple[str, str, int], ...] = ()
    """Path, hash and size of each file of the home."""
    excluded: tuple[str, ...] = EXCLUDED


def read_manifest(folder: Path, *, known_revisions: frozenset[str]) -> Manifest:
    """Read the manifest of a backup.

    Raises:
        InvalidInput: the folder has none, or it is not one.
        Conflict: a newer version of the product made the backup.
    """
    path = folder / MANIFEST
    cure = "Give the folder that `vlmhyperbench backup` wrote."
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{folder} is not a backup: {path} cannot be read.", cure=cure, code="no_backup") from error
    if isinstance(given, dict) and isinstance(given.get("format"), int) and given["format"] > FORMAT:
        raise _newer(folder, str(given.get("product")))
    try:
        manifest = Manifest.model_validate(given)
    except ValidationError as error:
        raise InvalidInput(f"{path} is not a manifest of a backup.", cure=cure, code="no_backup") from error
    if manifest.revision not in known_revisions:
        raise _newer(folder, manifest.product)
    return manifest


def write_objects(path: Path, files: Sequence[File]) -> None:
    """Write the list of stored files, a line for each."""
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(asdict(file)) + "\n" for file in files)


def read_objects(folder: Path) -> Iterator[File]:
    """Yield the stored files of a backup."""
    with (folder / OBJECTS).open(encoding="utf-8") as lines:
        for line in lines:
            yield File(**json.loads(line))


def verify(folder: Path, manifest: Manifest) -> None:
    """Check every file of a backup against its hash.

    Raises:
        Conflict: a file is missing or has other content; the message names it.
    """
    _check(folder / DATABASE, manifest.database_sha256)
    _check(folder / OBJECTS, manifest.objects_sha256)
    for name, sha256, _ in manifest.home:
        _check(folder / HOME / name, sha256)
    for file in read_objects(folder):
        _check(folder / STORAGE / file.name, file.sha256)


def _check(path: Path, sha256: str) -> None:
    try:
        is_right = file_sha256(path) == sha256
    except OSError as error:
        raise _damaged(path, "is missing or cannot be read") from error
    if not is_right:
        raise _damaged(path, "has other content than when the backup was made")


def _damaged(path: Path, what: str) -> Conflict:
    message = f"The backup is damaged: {path} {what}. Nothing was restored."
    return Conflict(message, cure="Take another backup.", code="backup_damaged")


def _newer(folder: Path, product: str) -> Conflict:
    message = f"The backup {folder} was made by a newer version of the product ({product})."
    return Conflict(message, cure="Restore it with that version, or a later one.", code="backup_newer")
