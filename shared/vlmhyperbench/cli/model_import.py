"""`models import`: add the models of a `models.yaml`, and the pipelines of a `pipeline.yaml`, as registry entries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.adding import open_shelf
from vlmhyperbench.cli.groups import ENTRY
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.registry.gguf_files import Imported, import_models, import_pipelines
from vlmhyperbench.registry.shelf import Added


def import_(
    file: Path, /, *, pipelines: Annotated[Path | None, Parameter(group=ENTRY)] = None, output: OutputFlags = TEXT
) -> int:
    """Register every model of a models.yaml whose file is here and whole; the others are listed with their reasons.

    Importing a changed file again updates the entries.

    Args:
        file: File that lists GGUF models, such as models.yaml.
        pipelines: File of pipelines of these models, such as pipeline.yaml, which are registered too.
        output: How the output is printed.
    """
    note(f"Hashing the files of {file} …", output)
    imported = import_models(open_shelf(), file)
    added = import_pipelines(open_shelf(), pipelines, file) if pipelines is not None else []
    _print(imported, added, output)
    return exits.SETUP if imported.unusable else exits.OK


def _print(imported: Imported, pipelines: list[Added], output: OutputFlags) -> None:
    entries = [*imported.added, *pipelines]
    if output.json:
        shown = [{"kind": entry.kind, "name": entry.name, "is_new": entry.is_new} for entry in entries]
        emit("models-imported", {"entries": shown, "unusable": dict(imported.unusable), "warnings": imported.warnings})
        return
    for entry in entries:
        say(f"{entry.kind}/{entry.name}: {entry.file}{'' if entry.is_new else ' (unchanged)'}")
    for name, reason in imported.unusable.items():
        say(f"{name} is not registered: {reason}")
    for warning in imported.warnings:
        say(f"warning: {warning}")
