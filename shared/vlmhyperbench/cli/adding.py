"""`registry add`: make entries of a model's file, a CSV of questions, or a metric, without writing YAML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import ENTRY, TASK
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.run_flags import Several
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.adding import Added, Shelf, slug_of
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.roots import own_root, registry_roots
from vlmhyperbench.settings import Settings

app = App(name="add", help="Register a model's file, a CSV of questions, or a metric.")


@app.command
def model(
    file: Path,
    /,
    *,
    mmproj: Annotated[Path | None, Parameter(group=ENTRY)] = None,
    name: Annotated[str | None, Parameter(group=ENTRY)] = None,
    backend: Annotated[str, Parameter(group=ENTRY)] = "llamacpp",
    shown: Shown = HUMAN,
) -> int:
    """Register GGUF weights, with their hash; then run them with --model NAME.

    Args:
        file: The weights.
        mmproj: The image projector that belongs to them; without one the model reads text only.
        name: Name of the entry; by default the file's.
        backend: Backend that runs them.
        shown: How the answer is shown.
    """
    shelf = open_shelf()
    note(f"Hashing {file} …", shown)
    return _tell([shelf.add_model(file, mmproj, name=name, backend=backend)], shown)


@app.command
def dataset(
    file: Path,
    /,
    *,
    name: Annotated[str | None, Parameter(group=ENTRY)] = None,
    metric: Annotated[Several, Parameter(group=TASK)] = (),
    prompt: Annotated[str | None, Parameter(group=TASK)] = None,
    shown: Shown = HUMAN,
) -> int:
    """Register a CSV of questions, and with --metric a task of the same name; then run it with --task NAME.

    Args:
        file: The CSV: the columns question, answer, and image where there are images.
        name: Name of the entries; by default the file's.
        metric: Metric by which the task scores answers; may be given several times.
        prompt: Registered prompt of the task; by default the question as it is.
        shown: How the answer is shown.
    """
    shelf = open_shelf()
    added = [shelf.add_dataset(file, name=name)]
    if metric or prompt is not None:
        added.append(shelf.add_task(added[0].name, metric, prompt=prompt))
    return _tell(added, shown)


@app.command
def metric(
    class_path: str, /, *, name: Annotated[str | None, Parameter(group=ENTRY)] = None, shown: Shown = HUMAN
) -> int:
    """Register a metric of your own; then score by it with --metric NAME.

    It is constructed once, so that its errors are reported now.

    Args:
        class_path: Name under which an installed package registers it, or package.module:Class.
        name: Name of the entry; by default the metric's own.
        shown: How the answer is shown.
    """
    from vlmhyperbench.scoring.metrics import construct_metric

    found = construct_metric(class_path, {}, name=name or class_path).description
    added = open_shelf().add_metric(
        class_path, name=name or slug_of(found.name), profile=found.profile, version=found.version
    )
    return _tell([added], shown)


def open_shelf() -> Shelf:
    """Return where entries are added.

    Raises:
        InvalidInput: the stack is another machine's.
    """
    settings = Settings.load()
    if url := os.environ.get("VLMHB_API_URL"):
        message = f"Files are registered where the stack is, and that is at {url}."
        raise InvalidInput(message, cure="Unset VLMHB_API_URL, or do it on that machine.", code="usage")
    catalogue = read_catalogue(registry_roots(settings.registries, settings.home), settings.run_mode)
    return Shelf(root=own_root(settings.home), catalogue=catalogue)


def _tell(added: Sequence[Added], shown: Shown) -> int:
    if shown.json:
        emit(
            "registry-added",
            [
                {"kind": entry.kind, "name": entry.name, "file": str(entry.file), "is_new": entry.is_new}
                for entry in added
            ],
        )
        return exits.OK
    for entry in added:
        say(f"{entry.kind}/{entry.name}: {entry.file}{'' if entry.is_new else ' (as it was)'}")
    return exits.OK
