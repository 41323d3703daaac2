"""The content of a folder or a file as one hash, and a copy of exactly what was hashed.

What tools leave behind (`.git`, caches, virtual environments, results of builds) does not count and is not copied.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from vlmhyperbench.errors import InvalidInput, NotFound

MAX_FILES: Final = 10_000
MAX_BYTES: Final = 500 * 1024**2
_LEFT_BEHIND: Final = (".git", ".hg", ".svn", ".venv", ".tox", ".nox", "__pycache__", ".*_cache", "*.pyc", ".DS_Store")
_LEFT_AT_THE_TOP: Final = ("build", "dist", "venv", "*.egg-info")
"""Left behind only there, because a package may have modules of these names."""


def content_sha256(path: Path) -> str:
    """Return the hash of a file's content, or of the names and contents of all files of a folder.

    Raises:
        NotFound: there is no such file or folder.
        InvalidInput: the folder has more than `MAX_FILES` files or `MAX_BYTES`, or a link to another folder.
    """
    if path.is_file():
        return file_sha256(path)
    lines = "".join(f"{name}\0{file_sha256(path / name)}\n" for name in files_of(path))
    return hashlib.sha256(lines.encode()).hexdigest()


def copy_content(path: Path, target: Path) -> None:
    """Copy the files of a folder that `content_sha256` hashes into a new folder.

    Raises:
        NotFound: there is no such folder.
        InvalidInput: see `content_sha256`.
    """
    for name in files_of(path):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path / name, target / name)


def files_of(folder: Path) -> list[str]:
    """Return the files of a folder that count, relative to it, in the order of their names.

    Raises:
        NotFound: there is no such folder.
        InvalidInput: see `content_sha256`.
    """
    if not folder.is_dir():
        raise NotFound(f"There is no folder or file {folder}.", cure="Correct the path.", code="no_file")
    names: list[str] = []
    size_bytes = 0
    for path in _walk(folder):
        names.append(path.relative_to(folder).as_posix())
        size_bytes += path.stat().st_size
        if len(names) > MAX_FILES or size_bytes > MAX_BYTES:
            raise InvalidInput(
                f"The folder {folder} has more than {MAX_FILES:,} files or {MAX_BYTES // 1024**2} MiB.",
                cure="Name the folder of the package alone, or build a wheel and name that.",
                code="folder_too_large",
            )
    return sorted(names)


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        patterns = _LEFT_BEHIND + (_LEFT_AT_THE_TOP if Path(parent) == folder else ())
        folders[:] = [name for name in folders if not _matches(name, patterns)]
        for name in folders:
            if (link := Path(parent, name)).is_symlink():
                cure = "Copy its files into the package, or remove the link."
                raise InvalidInput(f"{link} is a link to another folder.", cure=cure, code="linked_folder")
        yield from (
            Path(parent, name) for name in files if not _matches(name, _LEFT_BEHIND) and Path(parent, name).is_file()
        )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def file_sha256(path: Path) -> str:
    """Return the hash of a file's content.

    Raises:
        OSError: the file is missing or cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
