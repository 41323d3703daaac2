"""`registry`: list, show and validate the entries that runs and experiments may name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.adding import app as adding
from vlmhyperbench.cli.groups import SELECTION
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.packages import package
from vlmhyperbench.cli.registry_diff import diff, show_origins
from vlmhyperbench.cli.registry_stack import pull, push
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import Catalogue, read_catalogue
from vlmhyperbench.registry.roots import registry_roots
from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.registry import RegistrySummary

app = App(name="registry", help="List, show, validate and add registry entries.")
app.command(adding)
adding.command(package)
app.command(push)
app.command(pull)
app.command(diff)


@app.command(name="ls")
def list_entries(
    kind: str | None = None,
    /,
    *,
    stack: Annotated[bool, Parameter(group=SELECTION, negative=())] = False,
    output: OutputFlags = TEXT,
) -> int:
    """List registry entries with their folders, and the errors of those that cannot be used.

    Args:
        kind: packages, models, backends, datasets, prompts, tasks, metrics, scenarios, reports, runs, experiments,
            pipelines or lenses; by default all.
        stack: Ask the stack, which also has the entries of its database.
        output: How the output is printed.
    """
    if stack:
        return _list_stack(kind, output)
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
    if output.json:
        emit("registry", rows, warnings=warnings)
        return exits.OK
    names = ["kind", "name", "version", "description", "origin"]
    table(names, [[row[name] for name in names] for row in rows if row["problem"] is None])
    for warning in warnings:
        note(f"warning: {warning}", output)
    for error in (error for (of_kind, _), errors in catalogue.broken.items() if of_kind in kinds for error in errors):
        note(f"cannot be used: {error}", output)
    return exits.OK


def _list_stack(kind: str | None, output: OutputFlags) -> int:
    from vlmhyperbench.client import Client

    with Client() as client:
        listed = client.registry(kind).items
    if output.json:
        emit("registry", [item.model_dump(mode="json") for item in listed])
        return exits.OK
    rows = [
        [item.kind, item.name, item.version, item.description, _origin(item)] for item in listed if item.problem is None
    ]
    table(["kind", "name", "version", "description", "origin"], rows)
    for item in listed:
        if item.problem is not None:
            note(f"cannot be used: {item.problem}", output)
    return exits.OK


def _origin(item: RegistrySummary) -> str:
    return item.origin if item.revision is None else f"{item.origin}, revision {item.revision}"


def overrides(catalogue: Catalogue, kinds: Collection[str] = tuple(KINDS)) -> list[str]:
    """Return a warning for each entry that replaces another entry of the same name."""
    return [
        f"{kind}/{name} of {roots[-1]} replaces the entry of {' and '.join(map(str, roots[:-1]))}."
        for (kind, name), roots in sorted(catalogue.origins.items())
        if len(roots) > 1 and kind in kinds
    ]


@app.command
def show(
    kind: str,
    name: str,
    /,
    *,
    origin: Annotated[bool, Parameter(group=SELECTION, negative=())] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Show one registry entry as YAML, with its file.

    Args:
        kind: Kind of the entry, for example models; `vlmhyperbench registry ls` lists all.
        name: Name of the entry.
        origin: Show each value with the file and line that wrote it, also of an overlay, or that it is a default.
        output: How the output is printed.
    """
    catalogue = open_catalogue()
    if origin:
        return show_origins(catalogue, kind, name, output)
    entry = catalogue.get(kind, name)
    location = catalogue.location_of(kind, name)
    if output.json:
        emit(
            "registry-entry",
            {"kind": kind, "file": location.file if location else None, "entry": entry.model_dump(mode="json")},
        )
        return exits.OK
    import yaml

    say(f"# {location.file}" if location else f"# {kind}/{name}")
    say(
        yaml.safe_dump(
            entry.model_dump(mode="json", exclude_defaults=True), sort_keys=False, allow_unicode=True
        ).rstrip()
    )
    return exits.OK


@app.command
def validate(folder: Path | None = None, /, *, output: OutputFlags = TEXT) -> int:
    """Check all registry files and the references between them; print all errors with file and line.

    Args:
        folder: Folder of registry files to check; by default the folders that the stack reads.
        output: How the output is printed.
    """
    catalogue = open_catalogue(folder)
    if catalogue.errors:
        raise RegistryErrors(catalogue.errors)
    counts = {kind: len(catalogue.of(kind)) for kind in KINDS}
    roots = [str(root) for root in catalogue.roots]
    warnings = [*catalogue.warnings, *overrides(catalogue)]
    if output.json:
        data = {"root": roots[0], "roots": roots, "entries": counts}
        emit("registry-validation", data, warnings=warnings)
        return exits.OK
    for warning in warnings:
        say(f"warning: {warning}")
    say(f"{sum(counts.values())} entries in {' and '.join(roots)} are valid.")
    return exits.OK


def open_catalogue(folder: Path | None = None) -> Catalogue:
    """Read the entries of a folder, or of the folders that the stack reads."""
    settings = Settings.load()
    roots = (folder,) if folder is not None else registry_roots(settings.registries, settings.home)
    return read_catalogue(roots, settings.run_mode)
