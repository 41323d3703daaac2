"""The catalogue: all registry entries as one value, in which names are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.documents import Document
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors, SourceLocation
from vlmhyperbench.registry.schemas import (
    KINDS,
    BackendEntry,
    DatasetEntry,
    Entry,
    ExperimentEntry,
    LensEntry,
    MetricEntry,
    ModelEntry,
    PackageEntry,
    PipelineEntry,
    PromptEntry,
    ReportEntry,
    RunEntry,
    ScenarioEntry,
    TaskEntry,
    model_of,
)
from vlmhyperbench.registry.stored import StoredEntry
from vlmhyperbench_sdk.suggestions import did_you_mean

E = TypeVar("E", bound=Entry)

SINGULAR: Final = {kind: "lens" if kind == "lenses" else kind.removesuffix("s") for kind in KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Entries by kind and name, with the location of each."""

    roots: tuple[Path, ...]
    """The folders that were read, in order of increasing precedence."""
    packages: Mapping[str, PackageEntry] = field(default_factory=dict)
    models: Mapping[str, ModelEntry] = field(default_factory=dict)
    backends: Mapping[str, BackendEntry] = field(default_factory=dict)
    datasets: Mapping[str, DatasetEntry] = field(default_factory=dict)
    prompts: Mapping[str, PromptEntry] = field(default_factory=dict)
    tasks: Mapping[str, TaskEntry] = field(default_factory=dict)
    metrics: Mapping[str, MetricEntry] = field(default_factory=dict)
    scenarios: Mapping[str, ScenarioEntry] = field(default_factory=dict)
    reports: Mapping[str, ReportEntry] = field(default_factory=dict)
    runs: Mapping[str, RunEntry] = field(default_factory=dict)
    experiments: Mapping[str, ExperimentEntry] = field(default_factory=dict)
    pipelines: Mapping[str, PipelineEntry] = field(default_factory=dict)
    lenses: Mapping[str, LensEntry] = field(default_factory=dict)
    documents: Mapping[tuple[str, str], Document] = field(default_factory=dict)
    """(kind, name) → the parsed data of the entry, with the location of every value."""
    origins: Mapping[tuple[str, str], tuple[Path, ...]] = field(default_factory=dict)
    """(kind, name) → the roots that contain the entry; the last one is used, the others are overridden."""
    stored: Mapping[tuple[str, str], StoredEntry] = field(default_factory=dict)
    """(kind, name) → the entry, where the one in use was made through the API; it has no root, even above a file."""
    broken: Mapping[tuple[str, str], tuple[RegistryError, ...]] = field(default_factory=dict)
    """(kind, name) of invalid entries → their errors. These entries are in no other mapping."""
    uses: Mapping[tuple[str, str], frozenset[tuple[str, str]]] = field(default_factory=dict)
    """(kind, name) → the entries that it names, itself or through those that it names."""
    errors: tuple[RegistryError, ...] = ()
    """All errors, including those that belong to no single entry."""
    warnings: tuple[str, ...] = ()

    def of(self, kind: str) -> Mapping[str, Entry]:
        """Return all entries of a kind, by name.

        Raises:
            NotFound: there is no such kind.
        """
        model_of(kind)
        entries: Mapping[str, Entry] = getattr(self, kind)
        return entries

    def get(self, kind: str, name: str) -> Entry:
        """Return an entry.

        Raises:
            NotFound: there is no such kind or entry; the message suggests similar names.
            RegistryErrors: the entry exists but is invalid.
        """
        return self.look_up(self.of(kind), kind, name)

    def look_up(self, entries: Mapping[str, E], kind: str, name: str) -> E:
        """Return the entry with a name; `entries` are the catalogue's entries of that kind.

        Raises:
            NotFound: there is no such entry; the message suggests similar names.
            RegistryErrors: the entry exists but is invalid.
        """
        if (kind, name) in self.broken:
            raise RegistryErrors(self.broken[kind, name])
        if name not in entries:
            raise NotFound(f"There is no {SINGULAR[kind]} called {name!r}.", cure=did_you_mean(name, entries))
        return entries[name]

    def users_of(self, kind: str, name: str) -> list[tuple[str, str]]:
        """Return (kind, name) of every entry that would change with this one."""
        order = list(KINDS)
        users = [key for key, used in self.uses.items() if (kind, name) in used]
        return sorted(users, key=lambda key: (order.index(key[0]), key[1]))

    def folder_of(self, kind: str, name: str) -> Path:
        """Return the root that contains an entry; relative paths in the entry start there.

        Those of entries made through the API start in the lowest root.
        """
        if (kind, name) in self.stored:
            return self.roots[0]
        return self.origins.get((kind, name), self.roots[:1])[-1]

    def location_of(self, kind: str, name: str, *path: str | int) -> SourceLocation | None:
        """Return the location of a value of an entry, or None for an entry that does not come from a file."""
        document = self.documents.get((kind, name))
        return document.location_of(path) if document else None
