"""Locate a model's files on this machine and verify that they are the pinned files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from vlmhyperbench.domain.specs import ModelFile
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.storage.hashing import content_hash

PACKAGE = "package:"


def locate(location: str) -> Path:
    """Return the path of a `ModelFile.location`: an absolute path, or `package:<distribution>/<path inside it>`.

    Nothing is imported.

    Raises:
        InvalidInput: the location is neither, or is outside of its package.
        NotFound: the package is not installed, or the file does not exist.
    """
    if location.startswith(PACKAGE):
        distribution, _, inside = location.removeprefix(PACKAGE).partition("/")
        path = _package_folder(distribution) / inside
        if not path.resolve().is_relative_to(_package_folder(distribution).resolve()):
            raise InvalidInput(f"The model file {location!r} is outside of its package.")
    else:
        path = Path(location)
        if not path.is_absolute():
            raise InvalidInput(f"The model file {location!r} is no absolute path.", cure=f"Or write {PACKAGE}<name>/….")
    if not path.is_file():
        raise NotFound(
            f"The model file {location!r} does not exist ({path}).", cure="Put it there, or correct the path."
        )
    return path


def verify(file: ModelFile) -> Path:
    """Return the path of a model's file after its hash was compared with the pinned one.

    Raises:
        InvalidInput: see `locate`.
        NotFound: see `locate`.
        Conflict: the file has another hash.
    """
    path = locate(file.location)
    actual = content_hash(path)
    if actual != file.sha256:
        raise Conflict(
            f"The model file {file.location!r} ({file.role}) has the SHA-256 {actual}, not {file.sha256}.",
            cure="Fetch the file again, or correct the hash in the registry.",
            code="wrong_hash",
        )
    return path


def _package_folder(distribution: str) -> Path:
    name = distribution.replace("-", "_")
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(f"The package {distribution!r} is not installed.", cure=f"Install {distribution}.")
    return Path(next(iter(spec.submodule_search_locations)))
