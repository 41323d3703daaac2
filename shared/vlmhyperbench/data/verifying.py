"""Verify a model's files: a download against the hashes of its hub, a folder against its own index and headers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from vlmhyperbench.data.repositories import RepositoryFile
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.storage.hashing import content_hash

_INDEX: Final = "model.safetensors.index.json"
_MAX_HEADER_BYTES: Final = 100 * 1024**2
"""Bound of the header of a safetensors file, as its format sets it."""


def check_file(path: Path, listed: RepositoryFile) -> None:
    """Check that a downloaded file is the one that its source lists.

    Raises:
        Conflict: it has another size or another hash.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if size != listed.size_bytes:
        message = f"{path.name} has {size} bytes, but its source states {listed.size_bytes}."
        raise Conflict(message, cure="Repeat the command: the file is fetched again.", code="truncated")
    if listed.sha256 is None and listed.blob_id is None:
        return  # an object in S3 whose hash nobody states: its length is all that can be compared
    actual, stated = (
        (content_hash(path), listed.sha256)
        if listed.sha256 is not None
        else (_git_hash(path, size), listed.blob_id or "")
    )
    if actual != stated:
        message = f"{path.name} has the hash {actual}, but {stated} is stated."
        cure = "Repeat the command: the file is fetched again. If it stays so, the source has another file by now."
        raise Conflict(message, cure=cure, code="wrong_hash")


def check_folder(folder: Path, names: Collection[str]) -> None:
    """Check that the weights among the files of a folder, which `folder_files` chose, are whole.

    Raises:
        NotFound: a part of the weights is missing.
        InvalidInput: a file of weights is truncated, or is no safetensors file.
    """
    if _INDEX in names:
        parts = _parts(folder / _INDEX)
        if absent := sorted(parts - set(names)):
            message = f"{folder} lacks {len(absent)} of the {len(parts)} files of its weights: {', '.join(absent[:3])}."
            raise NotFound(message, cure="Fetch the model again.", code="weights_missing")
    for name in names:
        if name.endswith(".safetensors"):
            _check_safetensors(folder / name)


def _parts(index: Path) -> set[str]:
    try:
        document = json.loads(index.read_text(encoding="utf-8"))
        return set(map(str, document["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"{index} is no index of weights.", cure="Fetch it again.", code="weights_damaged"
        ) from error


def _check_safetensors(path: Path) -> None:
    """Compare the length of a file with what its header says, which is cheap: no tensor is read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= _MAX_HEADER_BYTES or size < 8 + length:
            raise _damaged(path, "its header is cut off or no header of this format")
        try:
            header = json.loads(file.read(length))
            end = max((int(tensor["data_offsets"][1]) for name, tensor in _tensors(header)), default=0)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise _damaged(path, "its header cannot be read") from error
    if size != 8 + length + end:
        raise _damaged(path, f"it has {size} bytes, but its header describes {8 + length + end}")


def _tensors(header: Mapping[str, Mapping[str, list[int]]]) -> list[tuple[str, Mapping[str, list[int]]]]:
    return [(name, tensor) for name, tensor in header.items() if name != "__metadata__"]


def _damaged(path: Path, reason: str) -> InvalidInput:
    cure = "Copy or fetch the file again; git-lfs may have left a pointer in its place."
    return InvalidInput(f"{path} is not a whole file of weights: {reason}.", cure=cure, code="weights_damaged")


def _git_hash(path: Path, size_bytes: int) -> str:
    """Return the id that git gives a file: SHA-1 of a header with its size, and its content."""
    return hashlib.sha1(b"blob %d\x00" % size_bytes + path.read_bytes(), usedforsecurity=False).hexdigest()
