"""`registry`: what runs and experiments may name, read from the files of this machine."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from cyclopts import App

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.adding import app as adding
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import Catalogue, read_catalogue
from vlmhyperbench.registry.roots import registry_roots
from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench.settings import Settings

app = App(name="registry", help="List, show, validate and add registry entries.")
app.command(adding)


@app.command(name="ls")
def list_entries(kind: str | None = None, /, *, shown: Shown = HUMAN) -> int:
    """List entries of one kind, or of all: which folder each is from, and which cannot be used.

    Args:
        kind: One of packages, models, backends, datasets, prompts, tasks, metrics, scenarios, reports, runs,
            experiments.
        shown: How the answer is shown.
    """
    catalogue = open_catalogue()
    kinds = list(KINDS) if kind is None else [kind]
    rows = [
        {
            "kind": of_kind,
            "name": name,
            "version": entry.version,
            "description": entry.description,
            "origin": str(catalogue.folder_of(of_kind, name)),
            "problem": None,
        }
        for of_kind in kinds
        for name, entry in sorted(catalogue.of(of_kind).items())
    ]
    rows += [
        {
            "kind": of_kind,
            "name": name,
            "version": None,
            "description": None,
            "origin": str(catalogue.folder_of(of_kind, name)),
            "problem": "\n".join(map(str, errors)),
        }
        for (of_kind, name), errors in sorted(catalogue.broken.items())
        if of_kind in kinds
    ]
    warnings = [*catalogue.warnings, *overrides(catalogue, kinds)]
    if shown.json:
        emit("registry", rows, warnings=warnings)
        return exits.OK
    names = ["kind", "name", "version", "description", "origin"]
    table(names, [[row[name] for name in names] for row in rows if row["problem"] is None])
    for warning in warnings:
        note(f"warning: {warning}", shown)
    for error in (error for (of_kind, _), errors in catalogue.broken.items() if of_kind in kinds for error in errors):
        note(f"cannot be used: {error}", shown)
    return exits.OK


def overrides(catalogue: Catalogue, kinds: Collection[str] = tuple(KINDS)) -> list[str]:
    """Say which entries stand in place of others with their name."""
    return [
        f"{kind}/{name} of {roots[-1]} stands in place of that of {' and '.join(map(str, roots[:-1]))}."
        for (kind, name), roots in sorted(catalogue.origins.items())
        if len(roots) > 1 and kind in kinds
    ]


@app.command
def show(kind: str, name: str, /, *, shown: Shown = HUMAN) -> int:
    """Show one entry, with the file it was written in.

    Args:
        kind: Kind of the entry.
        name: Name of the entry.
        shown: How the answer is shown.
    """
    catalogue = open_catalogue()
    entry = catalogue.get(kind, name)
    place = catalogue.location_of(kind, name)
    if shown.json:
        emit(
            "registry-entry",
            {"kind": kind, "file": place.file if place else None, "entry": entry.model_dump(mode="json")},
        )
        return exits.OK
    import yaml

    say(f"# {place.file}" if place else f"# {kind}/{name}")
    say(
        yaml.safe_dump(
            entry.model_dump(mode="json", exclude_defaults=True), sort_keys=False, allow_unicode=True
        ).rstrip()
    )
    return exits.OK


@app.command
def validate(folder: Path | None = None, /, *, shown: Shown = HUMAN) -> int:
    """Check every file and every reference; all errors at once, with file and line.

    Args:
        folder: Folder of registry files, by itself; where none is named, what the stack reads.
        shown: How the answer is shown.
    """
    catalogue = open_catalogue(folder)
    if catalogue.errors:
        raise RegistryErrors(catalogue.errors)
    counts = {kind: len(catalogue.of(kind)) for kind in KINDS}
    roots = [str(root) for root in catalogue.roots]
    warnings = [*catalogue.warnings, *overrides(catalogue)]
    if shown.json:
        data = {"root": roots[0], "roots": roots, "entries": counts}
        emit("registry-validation", data, warnings=warnings)
        return exits.OK
    for warning in warnings:
        say(f"warning: {warning}")
    say(f"{sum(counts.values())} entries in {' and '.join(roots)} are valid.")
    return exits.OK


def open_catalogue(folder: Path | None = None) -> Catalogue:
    """Read the entries of a folder by itself, or those that the stack reads."""
    settings = Settings.load()
    roots = (folder,) if folder is not None else registry_roots(settings.registries, settings.home)
    return read_catalogue(roots, settings.run_mode)
