"""`registry add`: register a model's file, questions, a metric, or runs of the first version without writing YAML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter
from pydantic import JsonValue

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.choices import check
from vlmhyperbench.cli.groups import ENTRY, TASK
from vlmhyperbench.cli.local_datasets import local_dataset
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.run_flags import Repeatable
from vlmhyperbench.data.samples import Selection, doubled_key
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.adding import add_metric, dataset_entry, task_entry
from vlmhyperbench.registry.adding_models import add_model
from vlmhyperbench.registry.legacy_plan import LegacyPlan, compile_legacy
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.roots import own_root, registry_roots
from vlmhyperbench.registry.schemas import DatasetEntry
from vlmhyperbench.registry.shelf import Added, NewEntry, Shelf, existing, slug_of
from vlmhyperbench.settings import Settings

_ROWS_READ: Final = 20

app = App(name="add", help="Register a model's file, questions, a metric of your own, a package, or a user_config.csv.")


@app.command
def model(
    file: Path,
    /,
    *,
    mmproj: Annotated[Path | None, Parameter(group=ENTRY)] = None,
    name: Annotated[str | None, Parameter(group=ENTRY)] = None,
    backend: Annotated[str, Parameter(group=ENTRY)] = "llamacpp",
    output: OutputFlags = TEXT,
) -> int:
    """Register a GGUF file of weights with its hash. Then `vlmhyperbench run --model NAME` can use it.

    Args:
        file: GGUF file of the weights.
        mmproj: GGUF file of the image projector that belongs to the weights; without it, the model reads text only.
        name: Name of the registry entry; by default the name of the file.
        backend: Backend that runs the model.
        output: How the output is printed.
    """
    shelf = open_shelf()
    note(f"Hashing {file} …", output)
    return _print([add_model(shelf, file, mmproj, name=name, backend=backend)], output)


@app.command
def dataset(
    file: Path,
    /,
    *,
    name: Annotated[str | None, Parameter(group=ENTRY)] = None,
    split: Annotated[str | None, Parameter(group=ENTRY)] = None,
    metric: Annotated[Repeatable, Parameter(group=TASK)] = (),
    prompt: Annotated[str | None, Parameter(group=TASK)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Register questions as a dataset. With --metric, also register a task of the same name, for run --task.

    The first rows are read as a run would read them. Nothing is registered if that fails.

    Args:
        file: CSV, TSV, JSON Lines, Parquet or Arrow file with the columns question and answer, and with the column
            image if there are images; or a folder or an archive with such files.
        name: Name of the registry entries; by default the name of the file.
        split: Split of a folder with several, or value of a column split.
        metric: Metric with which the task scores answers; may be given several times.
        prompt: Registered prompt of the task; by default the question is sent unchanged.
        output: How the output is printed.
    """
    shelf = open_shelf()
    entry = dataset_entry(file, name=name, split=split)
    task = [task_entry(shelf, entry.name, metric, prompt=prompt)] if metric or prompt is not None else []
    return _print(add_read(shelf, entry, *task, output=output), output)


def add_read(shelf: Shelf, dataset: NewEntry, *others: NewEntry, output: OutputFlags) -> list[Added]:
    """Read the first rows of a new dataset, and then write its entry and others; without rows, nothing is written.

    Raises:
        VlmHyperBenchError: the dataset cannot be read.
        Conflict: a name is taken by another entry.
    """
    entry = check(DatasetEntry, {"name": dataset.name, **shelf.merged(dataset)})
    catalogue = replace(shelf.catalogue, datasets={**shelf.catalogue.datasets, dataset.name: entry})
    with local_dataset(catalogue, dataset.name, output=output) as spec:
        if spec.environment is None:  # its own code is not here before a run has built the environment
            _read_first(spec)
    return shelf.put([dataset, *others])


def _read_first(spec: DatasetSpec) -> None:
    places: dict[str, str | None] = {}
    for sample in islice(Selection(spec), _ROWS_READ):
        if sample.key in places:
            raise doubled_key(spec.name, sample.key, places[sample.key], sample.location)
        places[sample.key] = sample.location


@app.command
def experiment(
    file: Path,
    /,
    *,
    models: Annotated[Path | None, Parameter(group=ENTRY)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Register the runs of a user_config.csv of the first version as an experiment, with all entries that they need.

    Args:
        file: CSV with a run in each row, separated by `;`.
        models: CSV of its models; by default vlm_base.csv beside it.
        output: How the output is printed.
    """
    added, _ = add_legacy(open_shelf(), file, models, output)
    return _print(added, output)


def add_legacy(shelf: Shelf, file: Path, models: Path | None, output: OutputFlags) -> tuple[list[Added], LegacyPlan]:
    """Compile a user_config.csv, and write the entries that it needs; the last one is the experiment.

    Raises:
        NotFound: a file does not exist.
        RegistryErrors: the tables are malformed, or name what does not exist.
        Conflict: the name of an entry is taken by another one.
    """
    plan = compile_legacy(shelf, existing(file), existing(models) if models is not None else None)
    for warning in plan.warnings:
        note(f"warning: {warning}", output)
    return shelf.put(plan.entries), plan


@app.command
def metric(
    class_path: str,
    /,
    *,
    name: Annotated[str | None, Parameter(group=ENTRY)] = None,
    requirement: Annotated[Repeatable, Parameter(group=ENTRY)] = (),
    package: Annotated[Repeatable, Parameter(group=ENTRY)] = (),
    output: OutputFlags = TEXT,
) -> int:
    """Register a metric of your own. Then --metric NAME can use it.

    With --requirement or --package it runs in an environment of its own, which is built now. The metric is constructed
    once, so that its errors are reported now.

    Args:
        class_path: Class of the metric as package.module:Class, or the name under which an installed package
            registers it.
        name: Name of the registry entry; by default the metric's own name.
        requirement: Package that the metric's own environment has, in one exact version such as my-bench==1.0.0; may
            be given several times.
        package: Registered package (`registry add package`) that it has; may be given several times.
        output: How the output is printed.
    """
    shelf, environment = open_shelf(), _environment(requirement, package)
    if environment is not None:
        from vlmhyperbench.cli.metric_apart import described_apart  # imports what computes metrics

        description = described_apart(class_path, environment, shelf.catalogue, output)
    else:
        from vlmhyperbench_sdk.discovery import construct_metric

        description = construct_metric(class_path, {}, name=name or class_path).description
    added = add_metric(
        shelf,
        class_path,
        name=name or slug_of(description.name),
        profile=description.profile,
        version=description.version,
        environment=environment,
    )
    return _print([added], output)


def _environment(requirements: Sequence[str], packages: Sequence[str]) -> dict[str, JsonValue] | None:
    """Return the environment of an entry; None if nothing is named for it."""
    named = {"requirements": list(requirements), "packages": list(packages)}
    virtualenv: dict[str, JsonValue] = {key: [*names] for key, names in named.items() if names}
    return {"virtualenv": virtualenv} if virtualenv else None


def open_shelf() -> Shelf:
    """Return the folder of registry entries to which entries are added.

    Raises:
        InvalidInput: the stack runs on another machine.
    """
    settings = Settings.load()
    if url := os.environ.get("VLMHB_API_URL"):
        message = f"Files can be registered only on the stack's machine, and VLMHB_API_URL names the stack at {url}."
        raise InvalidInput(message, cure="Unset VLMHB_API_URL, or run the command on that machine.", code="usage")
    catalogue = read_catalogue(registry_roots(settings.registries, settings.home), settings.run_mode)
    return Shelf(root=own_root(settings.home), catalogue=catalogue)


def _print(added: Sequence[Added], output: OutputFlags) -> int:
    if output.json:
        emit(
            "registry-added",
            [
                {"kind": entry.kind, "name": entry.name, "file": str(entry.file), "is_new": entry.is_new}
                for entry in added
            ],
        )
        return exits.OK
    for entry in added:
        say(f"{entry.kind}/{entry.name}: {entry.file}{'' if entry.is_new else ' (unchanged)'}")
    return exits.OK
