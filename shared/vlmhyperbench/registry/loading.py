"""Load folders of YAML files, and entries made through the API, into a catalogue; all errors are collected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path as FilePath
from typing import Any, Final

from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.checks import check_catalogue
from vlmhyperbench.registry.documents import Document, parse_document, read_document
from vlmhyperbench.registry.errors import Problem, RegistryError, RegistryErrors
from vlmhyperbench.registry.legacy import modernise
from vlmhyperbench.registry.overlays import RunMode, check_run_mode, overlay
from vlmhyperbench.registry.plugins import InstalledPlugins, Plugins
from vlmhyperbench.registry.schemas import KINDS, Entry
from vlmhyperbench.registry.stored import StoredEntry
from vlmhyperbench.registry.validation import validate
from vlmhyperbench_sdk.suggestions import did_you_mean

__all__ = ["Catalogue", "load_catalogue", "read_catalogue"]

Key = tuple[str, str]
"""Kind and name of an entry."""

SUFFIX: Final = ".yaml"
OVERLAY: Final = ".dev"
OTHER_FOLDERS: Final = frozenset({"schemas"})
"""Folders beside those of the kinds: the generated schemas."""
_STEM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(slots=True)
class _Loading:
    """The entries found so far in one root, or in the database."""

    root: FilePath | None
    mode: RunMode
    is_lowest: bool = False
    """Whether it is the lowest root: errors show its files relative to it, those of other roots by absolute path."""
    errors: list[RegistryError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    documents: dict[Key, Document] = field(default_factory=dict)
    entries: dict[Key, Entry] = field(default_factory=dict)
    broken: dict[Key, tuple[RegistryError, ...]] = field(default_factory=dict)
    """Entries that exist but could not be parsed."""

    def shown(self, file: FilePath) -> str:
        """Return a file's name for error messages."""
        return str(file.relative_to(self.root) if self.is_lowest and self.root is not None else file)


def load_catalogue(path: FilePath, run_mode: str = "prod", *, plugins: Plugins | None = None) -> Catalogue:
    """Load one folder, in which every entry must be valid.

    Raises:
        NotFound: there is no such folder.
        InvalidInput: `run_mode` is neither `prod` nor `dev`.
        RegistryErrors: entries are malformed or refer to unknown names; lists every error by file and line.
    """
    catalogue = read_catalogue([path], run_mode, plugins=plugins)
    if catalogue.errors:
        raise RegistryErrors(catalogue.errors)
    return catalogue


def read_catalogue(
    roots: Sequence[FilePath],
    run_mode: str = "prod",
    *,
    plugins: Plugins | None = None,
    stored: Sequence[StoredEntry] = (),
) -> Catalogue:
    """Load every `<kind>/<name>.yaml` of some folders and check all references; later folders override earlier ones.

    Stored entries override those of the first folder, which came with the product, and are overridden by the user's
    own files. Errors do not stop loading: invalid entries are in `broken`, and `errors` lists every error. Only the
    first folder must exist.

    Raises:
        NotFound: there is no such folder.
        InvalidInput: `run_mode` is neither `prod` nor `dev`.
    """
    mode = check_run_mode(run_mode)
    if not roots[0].is_dir():
        raise NotFound(
            f"There are no registries at {roots[0]}.", cure="Give the folder that holds models/, tasks/ and so on."
        )
    lowest, *others = [
        _read_root(root.absolute(), mode, is_lowest=not no) for no, root in enumerate(roots) if not no or root.is_dir()
    ]
    layers = [lowest, _read_stored(stored, mode), *others]
    origins: dict[Key, tuple[FilePath, ...]] = {}
    layer_of: dict[Key, _Loading] = {}
    for layer in layers:
        for key in (*layer.entries, *layer.broken):
            origins[key] = (*origins.get(key, ()), layer.root) if layer.root is not None else origins.get(key, ())
            layer_of[key] = layer
    archived = {entry.key: entry for entry in stored if entry.is_archived and entry.key not in layer_of}
    broken = {key: layer.broken[key] for key, layer in layer_of.items() if key in layer.broken}
    entries = {key: layer.entries[key] for key, layer in layer_of.items() if key not in layer.broken}
    catalogue = Catalogue(
        roots=tuple(layer.root for layer in layers if layer.root is not None),
        documents={key: layer.documents[key] for key, layer in layer_of.items() if key in layer.documents},
        origins={key: roots for key, roots in origins.items() if roots},
        stored=archived
        | {entry.key: entry for entry in stored if entry.key in layer_of and layer_of[entry.key].root is None},
        broken={key: (entry.archived,) for key, entry in archived.items()},
        **_by_kind(entries),
    )
    checked = check_catalogue(catalogue, run_mode=mode, broken=broken, plugins=plugins or InstalledPlugins())
    broken.update({key: (*broken.get(key, ()), *errors) for key, errors in checked.broken.items()})
    broken.update(catalogue.broken)
    return replace(
        catalogue,
        broken=broken,
        uses=checked.uses,
        errors=(*(error for layer in layers for error in layer.errors), *chain.from_iterable(checked.broken.values())),
        warnings=(*(warning for layer in layers for warning in layer.warnings), *checked.warnings),
        **_by_kind({key: entry for key, entry in entries.items() if key not in broken}),
    )


def check_name(name: str) -> None:
    """Refuse what cannot be the name of an entry.

    Raises:
        InvalidInput: it is not the stem of a file of an entry.
    """
    if not _STEM.fullmatch(name) or name.endswith(OVERLAY):
        rule = "1 to 100 letters, digits, `.`, `_` and `-`, beginning with a letter or digit, not ending in .dev"
        message = f"{name[:100]!r} is no name of an entry: {rule}."
        raise InvalidInput(message, cure="Choose another name.", code="bad_name")


def _by_kind(entries: Mapping[Key, Entry]) -> dict[str, Any]:
    """Return the catalogue's fields: kind → name → entry, each of the kind's class."""
    return {kind: {name: entry for (of, name), entry in entries.items() if of == kind} for kind in KINDS}


def _read_root(root: FilePath, mode: RunMode, *, is_lowest: bool) -> _Loading:
    loading = _Loading(root, mode, is_lowest)
    for kind in _kinds(loading, root):
        _load_kind(loading, root, kind)
    return loading


def _read_stored(stored: Sequence[StoredEntry], mode: RunMode) -> _Loading:
    loading = _Loading(None, mode)
    for given in stored:
        if not given.is_archived:
            before = len(loading.errors)
            document = _modern(loading, given.kind, *parse_document(given.text, given.shown))
            entry = None if document is None else _entry_of(loading, given.kind, given.name, document)
            _keep(loading, (given.kind, given.name), entry, before)
    return loading


def _kinds(loading: _Loading, root: FilePath) -> Iterable[str]:
    for folder in sorted(root.iterdir()):
        if folder.name.startswith((".", "__")) or folder.name in OTHER_FOLDERS:
            continue
        if folder.is_dir() and folder.name not in KINDS:
            cure = did_you_mean(folder.name, KINDS)
            message = "There is no such kind of entry."
            loading.errors.append(RegistryError(file=loading.shown(folder), message=message, cure=cure))
        elif folder.suffix in {SUFFIX, ".yml"}:
            _refuse(loading, folder, "The file is in no folder of entries.", "Move it, for example into tasks/.")
    return (kind for kind in KINDS if (root / kind).is_dir())


def _load_kind(loading: _Loading, root: FilePath, kind: str) -> None:
    files = _files(loading, root, kind)
    overlays = {name.removesuffix(OVERLAY): file for name, file in files.items() if name.endswith(OVERLAY)}
    bases = {name: file for name, file in files.items() if not name.endswith(OVERLAY)}
    for name, file in overlays.items():
        if name not in bases:
            _refuse(loading, file, f"The overlay has no base {name}{SUFFIX}.", "Add the base, or remove the overlay.")
    for name, file in bases.items():
        before = len(loading.errors)
        document = _load_document(loading, kind, file, overlays.get(name) if loading.mode == "dev" else None)
        entry = None if document is None else _entry_of(loading, kind, name, document)
        _keep(loading, (kind, name), entry, before)


def _keep(loading: _Loading, key: Key, entry: Entry | None, errors_before: int) -> None:
    """Keep an entry, or the errors that were found in it."""
    if entry is None or len(loading.errors) > errors_before:
        loading.broken[key] = tuple(loading.errors[errors_before:])
    else:
        loading.entries[key] = entry


def _files(loading: _Loading, root: FilePath, kind: str) -> dict[str, FilePath]:
    files: dict[str, FilePath] = {}
    for file in sorted((root / kind).iterdir()):
        if file.name.startswith("."):
            continue
        if file.suffix == ".yml":
            error = _refuse(loading, file, "The file does not end in .yaml.", f"Rename it to {file.stem}{SUFFIX}.")
            loading.broken[kind, file.stem] = (error,)
        elif file.suffix == SUFFIX and not _STEM.fullmatch(file.stem):
            _refuse(
                loading, file, "The name of an entry has only letters, digits, `.`, `_` and `-`.", "Rename the file."
            )
        elif file.suffix == SUFFIX and _leads_out(file, root):
            error = _refuse(loading, file, "The link leads out of the registries.", "Put the file itself here.")
            loading.broken[kind, file.stem] = (error,)
        elif file.suffix == SUFFIX:
            files[file.stem] = file
    return files


def _leads_out(file: FilePath, root: FilePath) -> bool:
    try:
        return not file.resolve().is_relative_to(root.resolve())
    except RuntimeError:  # a loop of links, which reading will report
        return False


def _load_document(loading: _Loading, kind: str, file: FilePath, over: FilePath | None) -> Document | None:
    document = _read(loading, kind, file)
    if document is not None and over is not None:
        above = _read(loading, kind, over)
        if above is None:
            return None
        document, errors = overlay(document, above)
        loading.errors.extend(errors)
    return document


def _entry_of(loading: _Loading, kind: str, name: str, document: Document) -> Entry | None:
    loading.documents[kind, name] = document
    if document.value.get("name", name) != name:
        what = "the name of the file" if loading.root is not None else "the name in the address"
        message, cure = f"it is not {name!r}, {what}.", "Write that, or leave name out."
        _report(loading, document, Problem(path=("name",), message=message, cure=cure))
        return None
    entry, problems = validate(KINDS[kind], {**document.value, "name": name})
    for problem in problems:
        _report(loading, document, problem)
    return entry


def _read(loading: _Loading, kind: str, file: FilePath) -> Document | None:
    return _modern(loading, kind, *read_document(file, loading.shown(file)))


def _modern(
    loading: _Loading, kind: str, document: Document | None, errors: Sequence[RegistryError]
) -> Document | None:
    """Rename deprecated keys of what was parsed; the errors of both are added."""
    if document is not None:
        document, warnings, errors = modernise(kind, document)
        loading.warnings.extend(warnings)
    loading.errors.extend(errors)
    return document


def _report(loading: _Loading, document: Document, problem: Problem) -> None:
    loading.errors.append(problem.at(document.location_of(problem.path)))


def _refuse(loading: _Loading, file: FilePath, message: str, cure: str) -> RegistryError:
    error = RegistryError(file=loading.shown(file), line=1, message=message, cure=cure)
    loading.errors.append(error)
    return error
