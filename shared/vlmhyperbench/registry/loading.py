"""From a folder of YAML files to a catalogue: every file is read, everything wrong is said at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Final

from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.checks import check_catalogue
from vlmhyperbench.registry.documents import Document, read_document
from vlmhyperbench.registry.errors import Problem, RegistryError, RegistryErrors, did_you_mean, field_of
from vlmhyperbench.registry.legacy import modernise
from vlmhyperbench.registry.overlays import RunMode, check_run_mode, overlay
from vlmhyperbench.registry.plugins import InstalledPlugins, Plugins
from vlmhyperbench.registry.schemas import KINDS, Entry
from vlmhyperbench.registry.validation import validate

__all__ = ["Catalogue", "load_catalogue"]

SUFFIX: Final = ".yaml"
OVERLAY: Final = ".dev"
OTHER_FOLDERS: Final = frozenset({"schemas", "pipelines", "lenses"})
"""Folders beside the kinds: generated schemas, and kinds that nothing reads yet."""
_STEM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(slots=True)
class _Loading:
    """What has been found so far."""

    root: FilePath
    mode: RunMode
    errors: list[RegistryError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    documents: dict[tuple[str, str], Document] = field(default_factory=dict)
    entries: dict[str, dict[str, Entry]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    broken: set[tuple[str, str]] = field(default_factory=set)
    """Entries that exist but could not be read: a reference to one is no second error."""


def load_catalogue(path: FilePath, run_mode: str = "prod", *, plugins: Plugins | None = None) -> Catalogue:
    """Read every `<kind>/<name>.yaml` of a folder and check all references between the entries.

    Raises:
        NotFound: there is no such folder.
        InvalidInput: `run_mode` is neither `prod` nor `dev`.
        RegistryErrors: entries are malformed or refer to what does not exist; every error, by file and line.
    """
    loading = _Loading(path.absolute(), check_run_mode(run_mode))
    if not path.is_dir():
        raise NotFound(
            f"There are no registries at {path}.", cure="Give the folder that holds models/, tasks/ and so on."
        )
    for kind in _kinds(loading):
        _load_kind(loading, kind)
    catalogue = Catalogue(root=loading.root, documents=loading.documents, **loading.entries)  # type: ignore[arg-type]
    checked = check_catalogue(
        catalogue, run_mode=loading.mode, broken=loading.broken, plugins=plugins or InstalledPlugins()
    )
    errors = [*loading.errors, *checked.errors]
    if errors:
        raise RegistryErrors(errors)
    return replace(catalogue, warnings=(*loading.warnings, *checked.warnings))


def _kinds(loading: _Loading) -> Iterable[str]:
    for folder in sorted(loading.root.iterdir()):
        if folder.name.startswith((".", "__")) or folder.name in OTHER_FOLDERS:
            continue
        if folder.is_dir() and folder.name not in KINDS:
            cure = did_you_mean(folder.name, KINDS)
            loading.errors.append(RegistryError(file=folder.name, message="There is no such kind of entry.", cure=cure))
        elif folder.suffix in {SUFFIX, ".yml"}:
            _refuse(loading, folder, "An entry lies in the folder of its kind.", "Move it, for example into tasks/.")
    return (kind for kind in KINDS if (loading.root / kind).is_dir())


def _load_kind(loading: _Loading, kind: str) -> None:
    files = _files(loading, loading.root / kind)
    overlays = {name.removesuffix(OVERLAY): file for name, file in files.items() if name.endswith(OVERLAY)}
    bases = {name: file for name, file in files.items() if not name.endswith(OVERLAY)}
    for name, file in overlays.items():
        if name not in bases:
            _refuse(loading, file, "An overlay without a base.", f"Write {name}{SUFFIX}.")
    for name, file in bases.items():
        entry = _load_entry(loading, kind, name, file, overlays.get(name) if loading.mode == "dev" else None)
        if entry is None:
            loading.broken.add((kind, name))
        else:
            loading.entries[kind][name] = entry


def _files(loading: _Loading, folder: FilePath) -> dict[str, FilePath]:
    found: dict[str, FilePath] = {}
    for file in sorted(folder.iterdir()):
        if file.name.startswith("."):
            continue
        if file.suffix == ".yml":
            _refuse(loading, file, "Entries end in .yaml.", f"Rename it to {file.stem}{SUFFIX}.")
        elif file.suffix == SUFFIX and not _STEM.fullmatch(file.stem):
            _refuse(loading, file, "The name of an entry is letters, digits, `.`, `_` and `-`.", "Rename it.")
        elif file.suffix == SUFFIX and _leads_out(file, loading.root):
            _refuse(loading, file, "The link leads out of the registries.", "Put the file itself here.")
        elif file.suffix == SUFFIX:
            found[file.stem] = file
    return found


def _leads_out(file: FilePath, root: FilePath) -> bool:
    try:
        return not file.resolve().is_relative_to(root.resolve())
    except RuntimeError:  # links that go round in a circle: reading says so
        return False


def _load_entry(loading: _Loading, kind: str, name: str, file: FilePath, over: FilePath | None) -> Entry | None:
    document = _read(loading, kind, file)
    if document is not None and over is not None:
        above = _read(loading, kind, over)
        if above is None:
            return None
        document, errors = overlay(document, above)
        loading.errors.extend(errors)
    if document is None:
        return None
    loading.documents[kind, name] = document
    if document.value.get("name", name) != name:
        _report(
            loading, document, Problem(path=("name",), message=f"the file is called {name}.", cure="Rename either.")
        )
        return None
    entry, problems = validate(KINDS[kind], {**document.value, "name": name})
    for problem in problems:
        _report(loading, document, problem)
    return entry


def _read(loading: _Loading, kind: str, file: FilePath) -> Document | None:
    document, errors = read_document(file, str(file.relative_to(loading.root)))
    if document is not None:
        document, warnings, errors = modernise(kind, document)
        loading.warnings.extend(warnings)
    loading.errors.extend(errors)
    return document


def _report(loading: _Loading, document: Document, problem: Problem) -> None:
    place = document.place_of(problem.path)
    loading.errors.append(
        RegistryError(
            file=place.file,
            line=place.line,
            field=field_of(problem.path),
            message=problem.message,
            cure=problem.cure,
        )
    )


def _refuse(loading: _Loading, file: FilePath, message: str, cure: str) -> None:
    loading.errors.append(RegistryError(file=str(file.relative_to(loading.root)), line=1, message=message, cure=cure))
