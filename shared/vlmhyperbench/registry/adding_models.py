"""Add models to the user's own root, pinned by hashes: GGUF files, folders, and what was fetched or made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.cached_files import S3
from vlmhyperbench.domain.recipes import MMPROJ
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.registry.loading import SUFFIX
from vlmhyperbench.registry.shelf import Added, Shelf, existing, read_entry, slug_of, write_entry
from vlmhyperbench_sdk.gguf import read_weights

GGUF_SUFFIX: Final = ".gguf"


def add_model(
    shelf: Shelf,
    weights: Path,
    mmproj: Path | None,
    *,
    name: str | None = None,
    backend: str = "llamacpp",
    sha256: str | None = None,
) -> Added:
    """Add GGUF weights with their hash, which must be `sha256` where that is known, and their image projector.

    Raises:
        NotFound: a file does not exist.
        InvalidInput: a file is no whole GGUF, or not what its role says, or the weights are others than those of
            `sha256`.
        Conflict: the name is taken by another entry.
    """
    files = {"weights": weights, **({"mmproj": mmproj} if mmproj is not None else {})}
    paths = {role: existing(path) for role, path in files.items()}
    folder = Path(os.path.commonpath([path.parent for path in paths.values()]))
    check_gguf(paths)  # before gigabytes are hashed
    hashes = {role: file_sha256(path) for role, path in paths.items()}
    if sha256 is not None and sha256 != hashes["weights"]:
        message = f"The file {weights} has SHA-256 {hashes['weights']}, not {sha256}."
        raise InvalidInput(message, cure="Download it again, or correct its sha256.")
    values: dict[str, JsonValue] = {
        "backends": [backend],
        "path": str(folder),
        "files": {role: str(path.relative_to(folder)) for role, path in paths.items()},
        "sha256": {**hashes},
    }
    return shelf.add("models", name or slug_of(weights.stem), values, same=("path", "files"))


def check_gguf(paths: Mapping[str, Path]) -> None:
    """Read the headers of files by their roles, which must be those of whole weights and of a projector.

    Raises:
        InvalidInput: a file is no whole GGUF, or not what its role says (code `wrong_role`).
        Unavailable: a file cannot be read.
    """
    for role, path in paths.items():
        try:
            is_projector = read_weights(path).is_projector
        except OSError as error:
            message = f"{path} cannot be read: {error.strerror or error}."
            raise Unavailable(message, cure="Correct the rights of the file.", code="cannot_read") from error
        if is_projector != (role == MMPROJ):
            message = f"{path} is {'an image projector' if is_projector else 'no image projector'}."
            cure = "Give a projector as mmproj, and its model as weights."
            raise InvalidInput(message, cure=cure, code="wrong_role")


def add_folder(
    shelf: Shelf,
    folder: Path,
    sha256: Mapping[str, str],
    *,
    license: str | None = None,  # noqa: A002 - the entry's own word
    backend: str,
    name: str | None = None,
) -> Added:
    """Add a folder in the format of transformers, whose files have been checked and hashed.

    Raises:
        NotFound: there is no such backend.
        InvalidInput: no name can be made of the folder's.
        Conflict: the name is taken by another entry.
    """
    values: dict[str, JsonValue] = {"path": str(folder.absolute()), **_licence(license), **_own_names(sha256)}
    return _add_model(shelf, name or slug_of(folder.absolute().name), values, backend, same=("path",))


def add_fetched(
    shelf: Shelf,
    repo: str,
    commit: str,
    sha256: Mapping[str, str],
    *,
    files: Mapping[str, str] | None = None,
    license: str | None,  # noqa: A002 - the entry's own word
    backend: str,
    name: str,
) -> Added:
    """Add a model that was fetched, pinned by its version and its files' hashes.

    Args:
        shelf: Where it is added.
        repo: Its repository, or its prefix in S3.
        commit: The version that was fetched.
        sha256: File name → hash.
        files: Role → file name; by default each file's name is its role.
        license: Licence that its source states.
        backend: Backend that runs the model.
        name: Name of the entry.

    Raises:
        NotFound: there is no such backend.
        Conflict: the name is taken by another entry.
    """
    remote = _remote(repo, commit)
    values: dict[str, JsonValue] = {
        **remote,
        **_licence(license),
        **_roles(files, sha256),
    }
    return _add_model(shelf, name, values, backend, same=tuple(remote))


def pin_model(
    shelf: Shelf,
    name: str,
    commit: str,
    sha256: Mapping[str, str],
    license: str | None,  # noqa: A002 - the entry's own word
) -> Added:
    """Copy a registered model that is fetched into the user's own root, pinned by version and hashes.

    Raises:
        NotFound: there is no such model.
    """
    entry = shelf.catalogue.look_up(shelf.catalogue.models, "models", name)
    repo = entry.remote[0] if entry.remote is not None else ""
    pinned = {**_remote(repo, commit), **_roles(entry.files or None, sha256)}
    return _pin(shelf, name, {"license": entry.license or license, **pinned})


def pin_made(shelf: Shelf, name: str, sha256: Mapping[str, str]) -> Added:
    """Copy a registered model that a recipe makes into the user's own root, pinned by the hashes of the result.

    What is made has the licence of its source, unless its entry states one.

    Args:
        shelf: Where it is added.
        name: Name of the entry.
        sha256: Role → hash.

    Raises:
        NotFound: there is no such model.
    """
    models = shelf.catalogue.models
    entry = shelf.catalogue.look_up(models, "models", name)
    source = models.get(entry.recipe.source) if entry.recipe is not None else None
    licence = entry.license or (source.license if source is not None else None)
    files: dict[str, JsonValue] = {role: f"{role}.gguf" for role in sha256}
    return _pin(shelf, name, {**_licence(licence), "files": files, "sha256": dict(sha256)})


def _pin(shelf: Shelf, name: str, pinned: Mapping[str, JsonValue]) -> Added:
    values = {**shelf.catalogue.documents["models", name].value, **pinned}
    file, merged = shelf.root / "models" / f"{name}{SUFFIX}", {key: value for key, value in values.items() if value}
    is_new = not file.exists() or read_entry(file) != merged
    if is_new:
        write_entry(file, merged)
    return Added(kind="models", name=name, file=file, is_new=is_new)


def _add_model(shelf: Shelf, name: str, values: Mapping[str, JsonValue], backend: str, *, same: Sequence[str]) -> Added:
    """Add a model that several backends may run: a later one is added to those that the entry has."""
    shelf.catalogue.look_up(shelf.catalogue.backends, "backends", backend)
    file = shelf.root / "models" / f"{name}{SUFFIX}"
    known = read_entry(file).get("backends") if file.exists() else None
    earlier = [each for each in known if each != backend] if isinstance(known, list) else []
    return shelf.add("models", name, {"backends": [*earlier, backend], **values}, same=same)


def _licence(name: str | None) -> dict[str, JsonValue]:
    return {"license": name} if name is not None else {}


def _own_names(sha256: Mapping[str, str]) -> dict[str, JsonValue]:
    return {"files": {name: name for name in sorted(sha256)}, "sha256": dict(sorted(sha256.items()))}


def _remote(repo: str, version: str) -> dict[str, JsonValue]:
    """Return the field of an entry that says what is fetched."""
    return (
        {"s3": {"prefix": repo, "version": version}}
        if repo.startswith(S3)
        else {"hub": {"repo": repo, "revision": version}}
    )


def _roles(files: Mapping[str, str] | None, sha256: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return the fields `files` and `sha256` of an entry, by roles."""
    if files is None:
        return _own_names(sha256)
    return {"files": dict(files), "sha256": {role: sha256[name] for role, name in files.items()}}
