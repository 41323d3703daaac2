"""Find a model's files and verify their hashes before anything loads them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from vlmhyperbench.domain.specs import ModelFile
from vlmhyperbench_sdk.errors import InvalidInput, NotFound

_PACKAGE = "package:"
_verified: dict[tuple[Path, int, int], str] = {}


def locate(files: Sequence[ModelFile]) -> dict[str, str]:
    """Return role → absolute path, every file verified against its pinned hash.

    A file whose size and time of change are unchanged since this process hashed it is not read again.

    Raises:
        NotFound: a file or the package that ships it is missing.
        InvalidInput: a file is not the one that was pinned.
    """
    return {file.role: str(_verify(file)) for file in files}


def _verify(file: ModelFile) -> Path:
    path = _path_of(file.location)
    if not path.is_file():
        cure = "Put the file there, or correct the model's registry entry."
        raise NotFound(f"The model file {file.role!r} is missing: {path}.", cure=cure)
    status = path.stat()
    key = (path, status.st_size, status.st_mtime_ns)
    if key not in _verified:
        with path.open("rb") as stream:
            _verified[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    if _verified[key] != file.sha256:
        raise InvalidInput(
            f"The model file {file.role!r} at {path} has SHA-256 {_verified[key][:16]}…, pinned is {file.sha256[:16]}….",
            cure="Restore the file, or pin its new hash in the registry.",
        )
    return path


def _path_of(location: str) -> Path:
    if not location.startswith(_PACKAGE):
        return Path(location)
    name, _, inside = location.removeprefix(_PACKAGE).partition("/")
    spec = find_spec(name.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(f"The package {name!r}, which ships the model, is not installed.", cure="Install it.")
    return Path(next(iter(spec.submodule_search_locations))) / inside
