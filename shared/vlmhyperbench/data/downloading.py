"""Download the files of a model in parallel, resumed where an earlier download ended, each verified."""

from __future__ import annotations

import stat
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from vlmhyperbench.data.fetched import Fetched
from vlmhyperbench.data.repositories import OnBytes, Repository, RepositoryFile, Source
from vlmhyperbench.data.verifying import check_file
from vlmhyperbench.errors import STORAGE_FULL, Conflict, Unavailable, is_disk_full

MAX_WORKERS: Final = 8
"""Files that are downloaded at the same time."""


def download_all(
    source: Source, repository: Repository, files: Collection[RepositoryFile], home: Path, on_bytes: OnBytes
) -> None:
    """Download and verify files of a repository.

    Raises:
        Conflict: a file is not the one that its source states.
        NotFound, Denied, Unavailable: see `Source.download`.
        Unavailable: the disk has become full (`storage_full`).
        OSError: a file cannot be written for another reason.
    """
    with ThreadPoolExecutor(MAX_WORKERS) as pool:
        tasks = [pool.submit(_download, source, repository, file, home, on_bytes) for file in files]
        try:
            for task in tasks:
                task.result()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, OSError) and is_disk_full(error):
                raise _full(home.parents[1]) from error  # the folder of all models
            raise


def _download(source: Source, repository: Repository, file: RepositoryFile, home: Path, on_bytes: OnBytes) -> None:
    (home / file.name).unlink(missing_ok=True)  # a damaged copy would be taken for the file
    source.download(repository, file.name, home, on_bytes)
    try:
        check_file(home / file.name, file)
    except Conflict:
        (home / file.name).unlink(missing_ok=True)
        raise


def _full(folder: Path) -> Unavailable:
    """Return the error of a disk that has become full."""
    return Unavailable(
        f"The disk of {folder} has become full while a model was fetched.",
        cure="Free some space, for example with `vlmhyperbench models remove`, or set VLMHB_MODELS_DIR to a folder of "
        "a larger disk, and repeat the command: what has arrived is kept.",
        code=STORAGE_FULL,
    )


def with_known_hash(file: RepositoryFile, known: Fetched | None) -> RepositoryFile:
    """Add the hash that was computed when the file was fetched, if its source states none."""
    if file.sha256 is not None or file.blob_id is not None or known is None:
        return file
    return replace(file, sha256=known.sha256.get(file.name))


def is_whole(home: Path, file: RepositoryFile) -> bool:
    """Return whether a file is there and the listed one."""
    try:
        check_file(home / file.name, file)
    except (Conflict, OSError):
        return False
    return True


def stored_bytes(path: Path) -> int:
    """Return the bytes that a file takes; one that is being fetched has its full length before its content."""
    try:
        status = path.lstat()
    except FileNotFoundError:  # another process has just renamed or evicted it
        return 0
    return min(status.st_size, 512 * status.st_blocks) if stat.S_ISREG(status.st_mode) else 0


def arrived_bytes(home: Path, listed: Collection[str]) -> int:
    """Return the bytes that an interrupted fetch of this model has left: they are already stored."""
    return sum(stored_bytes(path) for path in home.rglob("*") if path.relative_to(home).as_posix() not in listed)
