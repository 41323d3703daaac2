"""Compare the files of a dataset with the hashes that its entry states."""

from __future__ import annotations

from pathlib import Path

from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.storage.hashing import content_hash

WHOLE = "."
"""Name of the file itself, where the path of the dataset is one."""


def check_hashes(spec: DatasetSpec) -> None:
    """Compare every file whose hash is stated, before any of it is read.

    Raises:
        InvalidInput: a name leads out of the dataset.
        NotFound: a file does not exist.
        Conflict: a file has another hash.
    """
    for name, stated in spec.sha256.items():
        file = _located(spec, name)
        actual = content_hash(file)
        if actual != stated:
            raise Conflict(
                f"{file} of the dataset {spec.name!r} has the SHA-256 {actual}, but its entry states {stated}.",
                cure="Fetch the file again; if the change is wanted, correct sha256 in the entry.",
                code="wrong_hash",
            )


def _located(spec: DatasetSpec, name: str) -> Path:
    path = Path(spec.path or "")
    file = path if name == WHOLE else path / name
    if name != WHOLE and (not path.is_dir() or not file.resolve().is_relative_to(path.resolve())):
        message = f"sha256 of the dataset {spec.name!r} names {name!r}, which is no file of {path}."
        raise InvalidInput(message, cure="Name files inside of the folder; `.` is a path that is a file.")
    if not file.is_file():
        raise NotFound(f"{file} does not exist, whose hash the dataset {spec.name!r} states.", cure="Fetch it again.")
    return file
