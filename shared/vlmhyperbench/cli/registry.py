"""`registry`: what runs and experiments may name, read from the files of this machine."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.registry.folder import find_folder
from vlmhyperbench.registry.loading import Catalogue, load_catalogue
from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench.settings import Settings

app = App(name="registry", help="List, show and validate registry entries.")


@app.command(name="ls")
def list_entries(kind: str | None = None, /, *, shown: Shown = HUMAN) -> int:
    """List entries of one kind, or of all.

    Args:
        kind: One of packages, models, backends, datasets, prompts, tasks, metrics, scenarios, reports, runs,
            experiments.
        shown: How the answer is shown.
    """
    catalogue = _load(None)
    kinds = list(KINDS) if kind is None else [kind]
    rows = [
        {"kind": one, "name": name, "version": entry.version, "description": entry.description}
        for one in kinds
        for name, entry in sorted(catalogue.of(one).items())
    ]
    if shown.json:
        emit("registry", rows, warnings=catalogue.warnings)
    else:
        table(["kind", "name", "version", "description"], [list(row.values()) for row in rows])
    return exits.OK


@app.command
def show(kind: str, name: str, /, *, shown: Shown = HUMAN) -> int:
    """Show one entry, with the file it was written in.

    Args:
        kind: Kind of the entry.
        name: Name of the entry.
        shown: How the answer is shown.
    """
    catalogue = _load(None)
    entry = catalogue.get(kind, name)
    place = catalogue.place_of(kind, name)
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
        folder: Folder of registry files; the stack's own where none is named.
        shown: How the answer is shown.
    """
    catalogue = _load(folder)
    counts = {kind: len(catalogue.of(kind)) for kind in KINDS}
    if shown.json:
        emit("registry-validation", {"root": str(catalogue.root), "entries": counts}, warnings=catalogue.warnings)
        return exits.OK
    for warning in catalogue.warnings:
        say(f"warning: {warning}")
    say(f"{sum(counts.values())} entries in {catalogue.root} are valid.")
    return exits.OK


def _load(folder: Path | None) -> Catalogue:
    settings = Settings.load()
    return load_catalogue(find_folder(folder or settings.registries, settings.home), settings.run_mode)
