"""The GGUF models of the registry and the files beside them, and whether they can be used on this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from vlmhyperbench.data.estimating import whole_estimate
from vlmhyperbench.data.gguf_status import MAX_FILES, GgufStatus, gguf_below, status_of
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.usable_memory import usable_memory
from vlmhyperbench.data.weights import locate
from vlmhyperbench.domain.recipes import WEIGHTS
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.gguf_files import BASE
from vlmhyperbench.registry.model_files import model_files, recipe_of
from vlmhyperbench.registry.pipelines import Found
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import Backend, MemoryEstimate
from vlmhyperbench_sdk.types import JsonObject

BACKEND = "llamacpp"


def registered_status(
    catalogue: Catalogue, cache: ModelCache, names: Collection[str] | None = None
) -> Iterator[GgufStatus]:
    """Yield the status of every registered model with GGUF weights; of one that is not fetched it is missing.

    With `names`, only of the models of these names.
    """
    base = catalogue.pipelines.get(BASE)
    required = base.requires if base is not None else ()
    for status in _by_files(catalogue, cache, names):
        yield replace(status, required_for_base=status.name in required)


def _by_files(catalogue: Catalogue, cache: ModelCache, names: Collection[str] | None) -> Iterator[GgufStatus]:
    free = usable_memory()
    for name, entry in sorted(catalogue.models.items()):
        if BACKEND not in entry.backends or (names is not None and name not in names):
            continue
        recipe = recipe_of(References(catalogue=catalogue, plugins=InstalledPlugins()), entry, ())
        files = model_files(catalogue.folder_of("models", name), entry, recipe)
        try:
            paths = {file.role: locate(file.location, cache) for file in files}
        except VlmHyperBenchError as error:
            yield GgufStatus(name=name, path="", status="missing", reason=f"{error.message} {error.cure}")
            continue
        if WEIGHTS not in paths:
            cure = f"Run `vlmhyperbench models fetch {name}`."
            yield GgufStatus(name=name, path="", status="missing", reason=f"Its files are not here. {cure}")
            continue
        yield status_of(name, paths, estimate=partial(estimate_files, name, entry.engine_params), free=free)


def found_of(statuses: Iterable[GgufStatus]) -> Found:
    """Return which models cannot be used, and which may not fit as their entries say: a load tries less then."""
    unusable, doubtful = dict[str, str](), dict[str, str]()
    for found in statuses:
        if found.status != "available":
            text = f"it is {found.status.replace('_', ' ')}" + (f": {found.reason}" if found.reason else "")
            (doubtful if found.status == "too_large" else unusable)[found.name] = text
    return Found(unusable=unusable, doubtful=doubtful)


def unregistered_files(catalogue: Catalogue) -> list[Path]:
    """Return the GGUF files that no entry uses, in the folders of registered models and below, by `gguf_below`."""
    used: set[Path] = set()
    folders: set[Path] = set()
    for name, entry in catalogue.models.items():
        if entry.path is None or BACKEND not in entry.backends:
            continue
        root = catalogue.folder_of("models", name) / entry.path
        used |= {(root / file).resolve() for file in entry.files.values()}
        if WEIGHTS in entry.files:
            folders.add(root.resolve())
    found = {path: None for folder in sorted(folders) for path in _gguf_of(folder) if path.resolve() not in used}
    return list(islice(found, MAX_FILES))


def unregistered_status(catalogue: Catalogue) -> Iterator[GgufStatus]:
    """Yield the status of `unregistered_files`; the name of each is its path."""
    free = usable_memory()
    for path in unregistered_files(catalogue):
        files = {WEIGHTS: path}
        status = status_of(str(path), files, estimate=partial(estimate_files, path.name, {}), free=free)
        cure = (
            "It is an image projector: give it as mmproj of its model."
            if status.is_projector
            else f"No entry uses it: run `vlmhyperbench registry add model {path}`."
        )
        yield replace(status, is_registered=False, reason=f"{status.reason} {cure}" if status.reason else cure)


def _gguf_of(folder: Path) -> list[Path]:
    """Return the GGUF files of a folder; none of one that cannot be read, whose entries are told as missing."""
    try:
        return gguf_below(folder)
    except OSError:
        return []


def estimate_files(name: str, params: JsonObject, files: Mapping[str, Path]) -> MemoryEstimate | None:
    """Return what llama.cpp's adapter estimates for files by their roles; None if it has no estimate."""
    adapter = discovery.load("backends", BACKEND)()
    if not isinstance(adapter, Backend):
        return None
    paths = {role: str(path) for role, path in files.items()}
    return whole_estimate(adapter, LoadRequest(model=name, backend_class=BACKEND, files=paths, engine_params=params))
