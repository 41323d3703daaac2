"""Add data sets, tasks, metrics and packages to the user's own root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.datasets import ARCHIVES, is_archive
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.shelf import Added, NewEntry, Shelf, slug_of
from vlmhyperbench_sdk.compressed import unpacking
from vlmhyperbench_sdk.suggestions import did_you_mean

SCENARIOS: Final = ("offline", "single-stream", "multi-stream", "server", "interactive")
"""Scenarios that a generated task allows."""
PLAIN_PROMPT: Final = "document-qa"
"""Prompt that consists of the question, unchanged."""


ANNOTATION: Final = "annotation.csv"
CSV: Final = (".csv", ".tsv", ".txt")
"""Endings of files that the dataset `annotation_csv` reads."""
TABLES: Final = (".jsonl", ".ndjson", ".parquet", ".arrow")
"""Endings of files that the dataset `table` reads by the names of their columns."""


def dataset_entry(path: Path, *, name: str | None = None, split: str | None = None) -> NewEntry:
    """Return the entry of questions: a CSV, a table of another format, a folder or an archive. Nothing is read yet.

    Raises:
        NotFound: there is no such file or folder.
        InvalidInput: nothing reads files with this ending.
    """
    if not path.is_file() and not path.is_dir():
        raise NotFound(f"There is no file or folder {path}.", cure="Correct the path.", code="no_file")
    values: dict[str, JsonValue] = {"type": _reader_of(path), "path": str(path.absolute())}
    if split is not None:
        values["split"] = split
    stem = path.absolute().name
    ending = next((ending for ending in (*ARCHIVES, path.suffix) if stem.lower().endswith(ending)), "")
    called = name or slug_of(stem[: len(stem) - len(ending)])
    return NewEntry(kind="datasets", name=called, values=values, same=tuple(values))


def _reader_of(path: Path) -> str:
    """Return the type of the dataset that reads a file or a folder."""
    ending = path.suffix.lower()
    if ending in CSV or (path / ANNOTATION).is_file():
        return "annotation_csv"
    if path.is_dir() or ending in TABLES or is_archive(path.name):
        return "table"
    if how := unpacking(path.name):
        raise InvalidInput(f"{path} is compressed.", cure=how, code="usage")
    known = ", ".join((*CSV, *TABLES, *ARCHIVES))
    cure = f"Give a folder or a file with one of {known}; other files need an entry of datasets with params.format."
    raise InvalidInput(f"{path} has no ending of a table.", cure=cure, code="usage")


def task_entry(
    shelf: Shelf, dataset: str, metrics: Sequence[str], *, name: str | None = None, prompt: str | None
) -> NewEntry:
    """Return the entry of a task that sends a dataset's questions and scores the answers by these metrics.

    Raises:
        InvalidInput: there is no metric, and no such task either; or a metric has no such profile.
        NotFound: a metric or the prompt is not registered.
    """
    wanted = name or dataset
    for metric in metrics:
        _check_metric(shelf, metric)
    if not metrics and wanted not in shelf.catalogue.tasks:
        cure = "Say --metric, for example --metric anls; `vlmhyperbench registry ls metrics` lists them."
        raise InvalidInput("Nothing says how the answers are scored.", cure=cure, code="usage")
    if prompt is not None:
        shelf.catalogue.look_up(shelf.catalogue.prompts, "prompts", prompt)
    values: dict[str, JsonValue] = {"dataset": dataset}
    if metrics:
        values["metrics"] = list(metrics)
    if prompt is not None or wanted not in shelf.catalogue.tasks:
        values["prompt"] = prompt or PLAIN_PROMPT
    if wanted not in shelf.catalogue.tasks:
        values["scenarios"] = list(SCENARIOS)
    return NewEntry(kind="tasks", name=wanted, values=values, same=("dataset",))


def _check_metric(shelf: Shelf, reference: str) -> None:
    name, _, profile = reference.partition(":")[0].partition("@")
    entry = shelf.catalogue.look_up(shelf.catalogue.metrics, "metrics", name)
    known = (entry.profile, *entry.profiles)
    if profile and profile not in known:
        message = f"The metric {name!r} has no profile {profile!r}."
        raise InvalidInput(message, cure=did_you_mean(profile, known), code="no_profile")


def add_metric(
    shelf: Shelf,
    class_path: str,
    *,
    name: str,
    profile: str,
    version: str,
    environment: Mapping[str, JsonValue] | None = None,
) -> Added:
    """Add a metric by the name of its entry point, or by its dotted path; with an environment it runs there.

    Raises:
        Conflict: the name is taken by another entry.
    """
    values: dict[str, JsonValue] = {"class_path": class_path, "profile": profile, "version": version}
    if environment is not None:
        values["environment"] = dict(environment)
    return shelf.add("metrics", name, values, same=("class_path",))


def add_package(
    shelf: Shelf,
    name: str,
    source: Mapping[str, JsonValue],
    *,
    plugins: Mapping[str, Sequence[str]] | None,
    extras: Sequence[str] = (),
) -> Added:
    """Add a package that was pinned; one that is there already is pinned anew.

    Raises:
        Conflict: the name is taken by another entry.
    """
    values: dict[str, JsonValue] = {"source": dict(source)}
    if plugins is not None:
        values["plugins"] = {kind: list(names) for kind, names in plugins.items()}
    if extras:
        values["extras"] = list(extras)
    return shelf.add("packages", name, values, same=())
