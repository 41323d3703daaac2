"""Turn what `--model` names into a registered model: `gguf:PATH`, `folder:PATH`, `hf:ORG/NAME`, `s3://BUCKET/PREFIX`,
or an entry's name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from vlmhyperbench.cli.adding import open_shelf
from vlmhyperbench.cli.fetching import fetch, look_up, open_cache
from vlmhyperbench.cli.making import make_entry
from vlmhyperbench.cli.output import note
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.data.choosing import folder_files, gguf_files
from vlmhyperbench.data.fetched import Fetched
from vlmhyperbench.data.licences import licence_in
from vlmhyperbench.data.verifying import check_folder
from vlmhyperbench.data.weights import cached_files
from vlmhyperbench.domain.cached_files import LATEST, PREFIX, REVISION, CachedFile
from vlmhyperbench.domain.recipes import MMPROJ, WEIGHTS
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.adding_models import (
    GGUF_SUFFIX,
    add_fetched,
    add_folder,
    add_model,
    check_gguf,
    pin_model,
)
from vlmhyperbench.registry.model_files import model_files
from vlmhyperbench.registry.schemas import ModelEntry
from vlmhyperbench.registry.shelf import Added, Shelf, slug_of
from vlmhyperbench.storage.hashing import content_hash

GGUF_SCHEME: Final = "gguf"
FOLDER_SCHEME: Final = "folder"
HUB_SCHEME: Final = "hf"
BUCKET_SCHEME: Final = "s3"
GGUF_BACKEND: Final = "llamacpp"
_COMMIT_DIGITS: Final = 8
"""Digits of a commit in the name of a model, so that two commits of a repository are two models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A model that is named without a registry entry."""

    scheme: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HubReference:
    """The parts of `hf:ORG/NAME[/FILE.gguf][@REVISION]`, or of `s3://BUCKET/PREFIX[/FILE.gguf]`."""

    repo: str
    file: str | None
    revision: str


def reference_of(model: str) -> Reference | None:
    """Return what a model without an entry names, or None for the name of an entry.

    Raises:
        InvalidInput: nothing follows the scheme.
    """
    scheme, colon, path = model.partition(":")
    if colon and scheme in {GGUF_SCHEME, FOLDER_SCHEME, HUB_SCHEME, BUCKET_SCHEME}:
        if not path:
            cure = "Write gguf:FILE, folder:FOLDER, hf:ORG/NAME or s3://BUCKET/PREFIX."
            raise InvalidInput(f"Nothing follows {scheme}: in --model.", cure=cure, code="usage")
        return Reference(scheme=scheme, path=path)
    return Reference(scheme=GGUF_SCHEME, path=model) if model.lower().endswith(GGUF_SUFFIX) else None


def bring_model(model: str, *, mmproj: str | None, backend: str | None, output: OutputFlags) -> Added | None:
    """Register a model's files with their hashes, fetching them from a hub if needed; None if nothing is to be done.

    Raises:
        InvalidInput: the reference is malformed, no backend is named, or a file is damaged.
        NotFound: a file, a folder, a repository or an entry does not exist, or weights are missing.
        Conflict: the name is taken, there is no room, or a file is not what the hub states.
        Denied: the hub refuses the model.
        Unavailable: the hub does not answer.
    """
    reference = reference_of(model)
    if mmproj is not None and (reference is None or reference.scheme == FOLDER_SCHEME):
        cure = "Give --model FILE.gguf or --model hf:ORG/NAME/FILE.gguf too."
        raise InvalidInput("--mmproj needs a GGUF file.", cure=cure, code="usage")
    if reference is None and os.environ.get("VLMHB_API_URL"):
        return None  # the stack's machine has the entry; its workers fetch what is missing
    shelf = open_shelf()
    if reference is None:
        return _fetch_entry(shelf, model, output)
    if reference.scheme == GGUF_SCHEME:
        note(f"Hashing {reference.path} …", output)
        projector = Path(mmproj) if mmproj is not None else None
        return add_model(shelf, Path(reference.path), projector, backend=backend or GGUF_BACKEND)
    if reference.scheme == FOLDER_SCHEME:
        return _add_folder(shelf, Path(reference.path), _chosen(backend, shelf), output)
    return _add_fetched(shelf, remote_reference(reference), mmproj, backend, output)


def remote_reference(reference: Reference) -> HubReference:
    """Parse what follows `hf:` or `s3:`.

    Raises:
        InvalidInput: it has another form.
    """
    if reference.scheme == HUB_SCHEME:
        return hub_reference(reference.path)
    prefix, file = f"{BUCKET_SCHEME}:{reference.path}".rstrip("/"), None
    if prefix.lower().endswith(GGUF_SUFFIX):
        prefix, _, file = prefix.rpartition("/")
    if re.fullmatch(PREFIX, prefix) is None:
        cure = "Write s3://BUCKET/PREFIX or s3://BUCKET/PREFIX/FILE.gguf."
        raise InvalidInput(f"{prefix!r} is no prefix in S3.", cure=cure, code="usage")
    return HubReference(repo=prefix, file=file, revision=LATEST)


def hub_reference(path: str) -> HubReference:
    """Parse `ORG/NAME[/FILE.gguf][@REVISION]`.

    Raises:
        InvalidInput: it has another form.
    """
    name, at, revision = path.partition("@")
    parts = name.split("/")
    is_right = len(parts) in {2, 3} and all(parts) and (not at or re.fullmatch(REVISION, revision))
    if not is_right or (len(parts) == 3 and not parts[2].lower().endswith(GGUF_SUFFIX)):
        cure = "Write hf:ORG/NAME, hf:ORG/NAME@REVISION or hf:ORG/NAME/FILE.gguf."
        raise InvalidInput(f"{path!r} is no model of a hub.", cure=cure, code="usage")
    return HubReference(
        repo="/".join(parts[:2]), file=parts[2] if len(parts) == 3 else None, revision=revision or "main"
    )


def _add_folder(shelf: Shelf, folder: Path, backend: str, output: OutputFlags) -> Added:
    if not folder.is_dir():
        raise NotFound(f"There is no folder {folder}.", cure="Correct the path.", code="no_file")
    if backend == GGUF_BACKEND:
        cure = "Name the file, gguf:FILE; or register the folder for another backend, and convert it by a recipe."
        raise InvalidInput(f"{backend} reads GGUF files, not folders such as {folder}.", cure=cure, code="usage")
    names = folder_files([path.name for path in folder.iterdir() if path.is_file()], str(folder))
    check_folder(folder, names)
    note(f"Hashing {len(names)} files of {folder} …", output)
    return add_folder(shelf, folder, _hashes(folder, names), backend=backend, license=licence_in(folder))


def _add_fetched(
    shelf: Shelf, wanted: HubReference, mmproj: str | None, backend: str | None, output: OutputFlags
) -> Added:
    is_gguf = wanted.file is not None or backend == GGUF_BACKEND
    backend = backend or (GGUF_BACKEND if is_gguf else _chosen(None, shelf))
    shelf.catalogue.look_up(shelf.catalogue.backends, "backends", backend)  # before gigabytes are fetched for it
    repository = look_up(wanted.repo, wanted.revision, wanted.file)
    files = gguf_files(repository.names, wanted.file, mmproj, wanted.repo) if is_gguf else None
    names = list(files.values()) if files is not None else folder_files(repository.names, wanted.repo)
    fetched = fetch(repository, names, output)
    if files is not None:
        _check_headers(fetched, files)
    stem = Path(files["weights"]).stem if files is not None else wanted.repo.rpartition("/")[2]
    return add_fetched(
        shelf,
        fetched.repo,
        fetched.commit,
        fetched.sha256,
        files=files,
        license=fetched.license,
        backend=backend,
        name=f"{slug_of(stem)[: 99 - _COMMIT_DIGITS]}-{fetched.commit[:_COMMIT_DIGITS]}",
    )


def listed_weights(model: str, mmproj: str | None, backend: str | None) -> int | None:
    """Return the bytes of the weights that a source lists for `hf:` or `s3:`, or None if they are here or not named so.

    Raises:
        VlmHyperBenchError: see `bring_model`.
    """
    reference = reference_of(model)
    if reference is None or reference.scheme not in {HUB_SCHEME, BUCKET_SCHEME}:
        return None
    wanted = remote_reference(reference)
    repository = look_up(wanted.repo, wanted.revision, wanted.file)
    if open_cache().get(repository.repo, repository.commit) is not None:
        return None
    if wanted.file is not None or backend == GGUF_BACKEND:
        names = set(gguf_files(repository.names, wanted.file, mmproj, wanted.repo).values())
    else:
        names = set(folder_files(repository.names, wanted.repo))
    weights = (".safetensors", ".bin", GGUF_SUFFIX)
    return sum(file.size_bytes for file in repository.files if file.name in names and file.name.endswith(weights))


def _fetch_entry(shelf: Shelf, name: str, output: OutputFlags) -> Added | None:
    """Fetch the files of a registered model that names what is fetched, and pin them in the user's own entry."""
    entry = shelf.catalogue.models.get(name)
    if entry is not None and entry.recipe is not None:
        _fetch_entry(shelf, entry.recipe.source, output)
        return make_entry(name, entry, output)
    if entry is None or entry.remote is None:
        return None
    if entry.sha256 and open_cache().has(cached_files(model_files(shelf.root, entry))):
        return None
    fetched = fetch_entry(entry, output)
    return None if entry.sha256 else pin_model(shelf, name, fetched.commit, fetched.sha256, fetched.license)


def fetch_entry(entry: ModelEntry, output: OutputFlags) -> Fetched:
    """Fetch the files of an entry that names a repository or a prefix; the pinned hashes count where it has them.

    Headers of GGUF files are read before anything is pinned.

    Raises:
        VlmHyperBenchError: see `bring_model`.
    """
    repo, version = entry.remote or ("", "")
    repository = look_up(repo, version)
    if entry.sha256:
        pinned = {entry.files[role]: sha256 for role, sha256 in entry.sha256.items()}
        files = tuple(replace(file, sha256=pinned.get(file.name, file.sha256)) for file in repository.files)
        repository = replace(repository, commit=version, files=files)
    fetched = fetch(repository, list(entry.files.values()) or folder_files(repository.names, repo), output)
    if GGUF_BACKEND in entry.backends:
        _check_headers(fetched, {role: name for role, name in entry.files.items() if role in (WEIGHTS, MMPROJ)})
    return fetched


def _check_headers(fetched: Fetched, files: Mapping[str, str]) -> None:
    """Read the headers of fetched files by their roles.

    Raises:
        InvalidInput: a file is no whole GGUF, or not what its role says.
    """
    cache = open_cache()
    check_gguf({role: cache.path_of(CachedFile(fetched.repo, fetched.commit, name)) for role, name in files.items()})


def _hashes(folder: Path, names: Collection[str]) -> dict[str, str]:
    return {name: content_hash(folder / name) for name in names}


def _chosen(backend: str | None, shelf: Shelf) -> str:
    if backend is None:
        engines = ", ".join(
            name for name in shelf.catalogue.backends if name not in {GGUF_BACKEND, "openai", "simulated"}
        )
        cure = f"Give --backend, for example one of {engines}." if engines else "Give --backend."
        raise InvalidInput("Nothing says which backend runs the model.", cure=cure, code="usage")
    shelf.catalogue.look_up(shelf.catalogue.backends, "backends", backend)
    return backend
