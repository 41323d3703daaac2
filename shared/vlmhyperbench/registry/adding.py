"""Write registry entries for commands: a model's files, a CSV of questions, a metric, each as one YAML file.

They are written to the user's own root. Later changes by the user to such a file are kept, except for the values that
the command determines again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from pydantic import JsonValue

from vlmhyperbench.domain.cached_files import S3
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.files import write_whole
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.registry.catalogue import SINGULAR, Catalogue
from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import SUFFIX
from vlmhyperbench_sdk.suggestions import did_you_mean

GGUF_MAGIC: Final = b"GGUF"
GGUF_SUFFIX: Final = ".gguf"
SCENARIOS: Final = ("offline", "single-stream", "multi-stream", "server", "interactive")
"""Scenarios that a generated task allows."""
PLAIN_PROMPT: Final = "document-qa"
"""Prompt that consists of the question, unchanged."""
_NO_SLUG: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """An entry of the user's own root after a command."""

    kind: str
    name: str
    file: Path
    is_new: bool
    """Whether the file was changed; False if it already held the same content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """Target of added entries: the user's own root and the existing catalogue."""

    root: Path
    catalogue: Catalogue

    def add_model(
        self, weights: Path, mmproj: Path | None, *, name: str | None = None, backend: str = "llamacpp"
    ) -> Added:
        """Add GGUF weights with their hash, and the image projector that belongs to them.

        Raises:
            NotFound: a file does not exist.
            InvalidInput: a file is no GGUF.
            Conflict: the name is taken by another entry.
        """
        files = {"weights": weights, **({"mmproj": mmproj} if mmproj is not None else {})}
        paths = {role: _existing(path) for role, path in files.items()}
        folder = Path(os.path.commonpath([path.parent for path in paths.values()]))
        values: dict[str, JsonValue] = {
            "backends": [backend],
            "path": str(folder),
            "files": {role: str(path.relative_to(folder)) for role, path in paths.items()},
            "sha256": {role: _gguf_sha256(path) for role, path in paths.items()},
        }
        return self._add("models", name or slug_of(weights.stem), values, same=("path", "files"))

    def add_folder(
        self,
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
        return self._add_model(name or slug_of(folder.absolute().name), values, backend, same=("path",))

    def add_fetched(
        self,
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
        return self._add_model(name, values, backend, same=tuple(remote))

    def pin_model(self, name: str, commit: str, sha256: Mapping[str, str], license: str | None) -> Added:  # noqa: A002
        """Copy a registered model that is fetched into the user's own root, pinned by version and hashes.

        Raises:
            NotFound: there is no such model.
        """
        entry = self.catalogue.look_up(self.catalogue.models, "models", name)
        repo = entry.remote[0] if entry.remote is not None else ""
        pinned = {**_remote(repo, commit), **_roles(entry.files or None, sha256)}
        return self._pin(name, {"license": entry.license or license, **pinned})

    def pin_made(self, name: str, sha256: Mapping[str, str]) -> Added:
        """Copy a registered model that a recipe makes into the user's own root, pinned by the hashes of the result.

        What is made has the licence of its source, unless its entry states one.

        Args:
            name: Name of the entry.
            sha256: Role → hash.

        Raises:
            NotFound: there is no such model.
        """
        models = self.catalogue.models
        entry = self.catalogue.look_up(models, "models", name)
        source = models.get(entry.recipe.source) if entry.recipe is not None else None
        licence = entry.license or (source.license if source is not None else None)
        files: dict[str, JsonValue] = {role: f"{role}.gguf" for role in sha256}
        return self._pin(name, {**_licence(licence), "files": files, "sha256": dict(sha256)})

    def _pin(self, name: str, pinned: Mapping[str, JsonValue]) -> Added:
        values = {**self.catalogue.documents["models", name].value, **pinned}
        file, merged = self.root / "models" / f"{name}{SUFFIX}", {key: value for key, value in values.items() if value}
        is_new = not file.exists() or _read(file) != merged
        if is_new:
            _write(file, merged)
        return Added(kind="models", name=name, file=file, is_new=is_new)

    def _add_model(self, name: str, values: Mapping[str, JsonValue], backend: str, *, same: Sequence[str]) -> Added:
        """Add a model that several backends may run: a later one is added to those that the entry has."""
        self.catalogue.look_up(self.catalogue.backends, "backends", backend)
        file = self.root / "models" / f"{name}{SUFFIX}"
        known = _read(file).get("backends") if file.exists() else None
        earlier = [each for each in known if each != backend] if isinstance(known, list) else []
        return self._add("models", name, {"backends": [*earlier, backend], **values}, same=same)

    def add_dataset(self, csv: Path, *, name: str | None = None) -> Added:
        """Add a CSV of questions; its lines are validated only when it is read.

        Raises:
            NotFound: the file does not exist.
            Conflict: the name is taken by another entry.
        """
        values: dict[str, JsonValue] = {"type": "annotation_csv", "path": str(_existing(csv))}
        return self._add("datasets", name or slug_of(csv.stem), values, same=("type", "path"))

    def add_task(self, dataset: str, metrics: Sequence[str], *, name: str | None = None, prompt: str | None) -> Added:
        """Add a task that sends a dataset's questions and scores the answers by these metrics.

        Raises:
            InvalidInput: there is no metric, and no such task either; or a metric has no such profile.
            NotFound: a metric is not registered. Nothing is written then: a task that was right stays so.
            Conflict: the name is taken by another entry.
        """
        wanted = name or dataset
        for metric in metrics:
            self._check_metric(metric)
        if not metrics and wanted not in self.catalogue.tasks:
            cure = "Say --metric, for example --metric anls; `vlmhyperbench registry ls metrics` lists them."
            raise InvalidInput("Nothing says how the answers are scored.", cure=cure, code="usage")
        values: dict[str, JsonValue] = {"dataset": dataset}
        if metrics:
            values["metrics"] = list(metrics)
        if prompt is not None or wanted not in self.catalogue.tasks:
            values["prompt"] = prompt or PLAIN_PROMPT
        if wanted not in self.catalogue.tasks:
            values["scenarios"] = list(SCENARIOS)
        return self._add("tasks", wanted, values, same=("dataset",))

    def _check_metric(self, reference: str) -> None:
        name, _, profile = reference.partition(":")[0].partition("@")
        entry = self.catalogue.look_up(self.catalogue.metrics, "metrics", name)
        known = (entry.profile, *entry.profiles)
        if profile and profile not in known:
            message = f"The metric {name!r} has no profile {profile!r}."
            raise InvalidInput(message, cure=did_you_mean(profile, known), code="no_profile")

    def add_metric(
        self,
        class_path: str,
        *,
        name: str,
        profile: str,
        version: str,
        environment: Mapping[str, JsonValue] | None = None,
    ) -> Added:
        """Add a metric by the name of its entry point, or by its dotted path; with an environment it runs there.

        Raises:
            Conflict: the name is taken by another entry.
        """
        values: dict[str, JsonValue] = {"class_path": class_path, "profile": profile, "version": version}
        if environment is not None:
            values["environment"] = dict(environment)
        return self._add("metrics", name, values, same=("class_path",))

    def add_package(
        self,
        name: str,
        source: Mapping[str, JsonValue],
        *,
        plugins: Mapping[str, Sequence[str]] | None,
        extras: Sequence[str] = (),
    ) -> Added:
        """Add a package that was pinned; one that is there already is pinned anew.

        Raises:
            Conflict: the name is taken by another entry.
        """
        values: dict[str, JsonValue] = {"source": dict(source)}
        if plugins is not None:
            values["plugins"] = {kind: list(names) for kind, names in plugins.items()}
        if extras:
            values["extras"] = list(extras)
        return self._add("packages", name, values, same=())

    def _add(self, kind: str, name: str, values: Mapping[str, JsonValue], *, same: Sequence[str]) -> Added:
        roots = self.catalogue.origins.get((kind, name), ())
        file = self.root / kind / f"{name}{SUFFIX}"
        if roots and self.root not in roots:
            message = f"The name {name!r} is that of a {SINGULAR[kind]} that came with the product."
            raise Conflict(
                message, cure="Choose another: `vlmhyperbench registry add` takes --name.", code="name_taken"
            )
        known = _read(file) if file.exists() else {}
        if known and any(known.get(key) != values.get(key) for key in same):
            message = f"The name {name!r} is that of another {SINGULAR[kind]}, in {file}."
            raise Conflict(
                message,
                cure="Choose another: `vlmhyperbench registry add` takes --name. Or remove that file.",
                code="name_taken",
            )
        merged = {**known, **values}
        if merged != known:
            _write(file, merged)
        return Added(kind=kind, name=name, file=file, is_new=merged != known)


def slug_of(text: str) -> str:
    """Derive an entry's name from a file name.

    Raises:
        InvalidInput: no character of it is allowed in a name.
    """
    name = _NO_SLUG.sub("-", text).strip("._-")[:100]
    if not name:
        raise InvalidInput(f"No name can be made of {text!r}.", cure="Choose one with --name.", code="usage")
    return name


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


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise NotFound(f"There is no file {path}.", cure="Correct the path.", code="no_file")
    return path.absolute()


def _gguf_sha256(path: Path) -> str:
    with path.open("rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            cure = "Give the weights themselves: a page or a pointer in their place means that the download failed."
            raise InvalidInput(f"{path} is no GGUF file.", cure=cure, code="no_gguf")
    return file_sha256(path)


def _read(file: Path) -> dict[str, JsonValue]:
    document, errors = read_document(file, str(file))
    if document is None:
        raise RegistryErrors(errors)
    return document.value


def _write(file: Path, value: Mapping[str, JsonValue]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True).encode())
