"""Locate a model's files on this machine and verify that they are the pinned files."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path

from vlmhyperbench.data.linking import link_files
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.domain.cached_files import MADE, CachedFile, parse_cached_location
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.storage.hashing import content_hash

PACKAGE = "package:"
_IN_PACKAGE = f"{PACKAGE}NAME/PATH"


def locate(location: str, cache: ModelCache | None = None) -> Path:
    """Return the path of a `ModelFile.location`: an absolute path, a file of a package, or one of the cache of models.

    Nothing is imported and nothing is fetched.

    Args:
        location: An absolute path, `package:<distribution>/<path inside it>`, or the location of a `CachedFile`.
        cache: Where fetched and made files lie.

    Raises:
        InvalidInput: the location is none of these, or is outside of its package.
        NotFound: the package is not installed, or the file does not exist or is not fetched.
    """
    if (file := parse_cached_location(location)) is not None:
        if cache is None or not (path := cache.path_of(file)).is_file():
            message = f"{file.name} of {file.repo} is not fetched."
            if file.repo == MADE:
                message = f"{file.name}, which the recipe of the model makes, is not made."
            cure = "Run `vlmhyperbench models fetch` with the name of the model."
            raise NotFound(message, cure=cure, code="not_fetched")
        return path
    if location.startswith(PACKAGE):
        distribution, _, inside = location.removeprefix(PACKAGE).partition("/")
        path = _package_folder(distribution) / inside
        if not path.resolve().is_relative_to(_package_folder(distribution).resolve()):
            cure = "Write a path inside of the package, without '..'."
            raise InvalidInput(f"The model file {location!r} is outside of its package.", cure=cure)
    else:
        path = Path(location)
        if not path.is_absolute():
            cure = f"Write an absolute path, or {_IN_PACKAGE}."
            raise InvalidInput(f"The model file {location!r} is no absolute path.", cure=cure)
    if not path.is_file():
        at = f" at {path}" if location.startswith(PACKAGE) else ""
        raise NotFound(f"The model file {location!r} does not exist{at}.", cure="Put it there, or correct the path.")
    return path


def verify(file: ModelFile, cache: ModelCache | None = None) -> Path:
    """Return the path of a model's file after its hash was compared with the pinned one.

    Raises:
        InvalidInput: see `locate`.
        NotFound: see `locate`.
        Conflict: the file has another hash.
    """
    path = locate(file.location, cache)
    actual = content_hash(path)
    if actual != file.sha256:
        raise Conflict(
            f"The model file {file.location!r} (role {file.role}) has the SHA-256 {actual}, but the registry has "
            f"{file.sha256}.",
            cure="Fetch the file again, or correct its sha256 in the entry of the model.",
            code="wrong_hash",
        )
    return path


def files_for_engine(files: Collection[ModelFile], cache: ModelCache) -> dict[str, str]:
    """Return role → path of a model's files, as an engine is given them, after their hashes were compared.

    Files whose roles are their names are read as a folder: they are given as links in a folder that has no others, so
    that nothing that lies beside them reaches the engine.

    Raises:
        InvalidInput: see `locate`.
        NotFound: see `locate`.
        Conflict: a file has another hash.
    """
    paths = {file.role: verify(file, cache) for file in files}
    if paths and all(path.name == role for role, path in paths.items()):
        paths = link_files(cache.links, paths)
    return {role: str(path) for role, path in paths.items()}


def hashes_by_path(pinned: Collection[ModelFile], files: Mapping[str, str]) -> dict[str, str]:
    """Return path → SHA-256 of files as an engine is given them; `files` is what `files_for_engine` has returned."""
    hashes = {file.role: file.sha256 for file in pinned}
    return {path: hashes[role] for role, path in files.items()}


def cached_files(files: Collection[ModelFile]) -> list[CachedFile]:
    """Return the files that lie in the cache of models, fetched or made."""
    return [hub_file for file in files if (hub_file := parse_cached_location(file.location)) is not None]


def _package_folder(distribution: str) -> Path:
    name = distribution.replace("-", "_")
    if not name.isidentifier():
        raise NotFound(f"{distribution!r} is no name of a package.", cure=f"Write {_IN_PACKAGE}.")
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(f"The package {distribution!r} is not installed.", cure=f"Install {distribution}.")
    return Path(next(iter(spec.submodule_search_locations)))
