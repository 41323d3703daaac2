"""Compile `user_config.csv` and `vlm_base.csv` of the first version to entries: an experiment, and what its runs name.

A row is a run. What it names is a registered entry where there is one. Otherwise datasets and prompts are files beside
the table, and models are repositories of a hub, for which entries are made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.aggregators import AGGREGATORS
from vlmhyperbench.domain.cached_files import REPOSITORY
from vlmhyperbench.registry.adding import ANNOTATION, PLAIN_PROMPT
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors
from vlmhyperbench.registry.legacy_prompts import prompt_values
from vlmhyperbench.registry.legacy_tables import (
    BASE_COLUMNS,
    BASE_REQUIRED,
    CONFIG_COLUMNS,
    CONFIG_REQUIRED,
    LegacyRow,
    is_file,
    read_rows,
)
from vlmhyperbench.registry.schemas import ModelEntry
from vlmhyperbench.registry.shelf import NewEntry, Shelf, slug_of
from vlmhyperbench_sdk.suggestions import did_you_mean

BASE: Final = "vlm_base.csv"
BACKENDS: Final[Mapping[str, str]] = {
    "huggingface": "transformers", "hf": "transformers", "transformers": "transformers", "vllm": "vllm",
    "sglang": "sglang", "llamacpp": "llamacpp", "openai": "openai", "simulated": "simulated",
}  # fmt: skip
"""Framework, in lower case without separators → backend; other names of backends stand for themselves."""
DATASETS: Final = ("", "datasets", "data_dirs/datasets", "data_dirs/Datasets")
"""Folders in which a dataset is searched, relative to that of `user_config.csv`."""
_WITHOUT_EFFECT: Final = ("docker_image", "git_python_package", "python_package", "module", "class_name")
_TRUTH: Final[Mapping[str, bool]] = {"": False, "false": False, "0": False, "true": True, "1": True}
_PER_SAMPLE: Final = "by_id"
"""Aggregator of the first version that needs no group: every run has its measures by sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyPlan:
    """What a `user_config.csv` says, as entries; the last is the experiment."""

    entries: tuple[NewEntry, ...]
    origins: Mapping[str, str]
    """Path in the experiment → file and line of its row."""
    warnings: tuple[str, ...]

    @property
    def experiment(self) -> NewEntry:
        return self.entries[-1]


def compile_legacy(shelf: Shelf, config: Path, base: Path | None = None) -> LegacyPlan:
    """Compile a `user_config.csv`; `base` is by default the `vlm_base.csv` beside it.

    Raises:
        RegistryErrors: the tables are malformed, or name what does not exist; lists every error with its line.
        InvalidInput: no name of an entry can be made of the file's.
    """
    config = config.absolute()
    compiling = _Compiling(catalogue=shelf.catalogue, folder=config.parent)
    name = slug_of(config.stem)
    rows = read_rows(config, CONFIG_COLUMNS, CONFIG_REQUIRED, compiling.errors, compiling.warnings)
    base = config.parent / BASE if base is None else base.absolute()
    if base.exists():
        compiling.read_base(base)
    elif any(row.text("model_name") not in shelf.catalogue.models for row in rows):
        message = f"{BASE} is missing, so nothing says what its models are."
        compiling.errors.append(RegistryError(file=str(config), line=1, message=message, cure=f"Put it at {base}."))
    if not rows and not compiling.errors:
        message, cure = "It has no rows.", "Write a row for each run below the header."
        compiling.errors.append(RegistryError(file=str(config), line=1, message=message, cure=cure))
    runs: list[JsonValue] = [compiling.run(row) for row in rows]
    if compiling.errors:
        raise RegistryErrors(compiling.errors)
    compiling.put("experiments", name, {"description": f"Compiled from {config}.", "runs": runs}, ("description",))
    return LegacyPlan(
        entries=tuple(compiling.entries.values()),
        origins={f"runs.{no}": f"{row.file}:{row.line}" for no, row in enumerate(rows)},
        warnings=tuple(dict.fromkeys(compiling.warnings)),
    )


@dataclass(slots=True, kw_only=True)
class _Compiling:
    """What was compiled of the rows so far."""

    catalogue: Catalogue
    folder: Path
    base: dict[tuple[str, str], LegacyRow] = field(default_factory=dict)
    """(framework, model_name) → the row of `vlm_base.csv`."""
    entries: dict[tuple[str, str], NewEntry] = field(default_factory=dict)
    errors: list[RegistryError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read_base(self, file: Path) -> None:
        for row in read_rows(file, BASE_COLUMNS, BASE_REQUIRED, self.errors, self.warnings):
            key = (row.text("framework"), row.text("model_name"))
            if key in self.base:
                message = f"{', '.join(key)} is in line {self.base[key].line} too."
                self.errors.append(row.error("model_name", message, "Remove one of the two rows."))
            self.base[key] = row

    def put(self, kind: str, name: str, values: Mapping[str, JsonValue], same: tuple[str, ...]) -> str:
        self.entries.setdefault((kind, name), NewEntry(kind=kind, name=name, values=values, same=same))
        return name

    def run(self, row: LegacyRow) -> dict[str, JsonValue]:
        """Return the run of a row; where something is wrong, errors are added and it is not whole."""
        self._check_is_asked(row)
        metrics = self._metrics(row)
        dataset, prompt = self._dataset(row), self._prompt(row)
        filters = {
            "doc_classes": self._list(row, "filter_doc_class"),
            "question_types": self._list(row, "filter_question_type"),
        }
        chosen: dict[str, JsonValue] = {"name": dataset} | {
            name: [*values] for name, values in filters.items() if values
        }
        run: dict[str, JsonValue] = {
            "target": self._target(row),
            "task": self._task(row, dataset, prompt, metrics),
            "prompt": prompt,
            "dataset": chosen if any(filters.values()) else dataset,
            "metrics": [*metrics],
        }
        groups = self._groups(row)
        return run | ({"group_by": [*groups]} if groups else {})

    def _target(self, row: LegacyRow) -> dict[str, JsonValue]:
        framework, name = row.text("framework"), row.text("model_name")
        written = re.sub(r"[\s._-]", "", framework.lower())
        backend = BACKENDS.get(written, framework)
        if backend not in self.catalogue.backends:
            cure = did_you_mean(framework, {*BACKENDS, *self.catalogue.backends})
            self.errors.append(row.error("framework", f"There is no backend {framework!r}.", cure))
        return {"model": self._model(row, framework, name, backend), "backend": backend}

    def _model(self, row: LegacyRow, framework: str, name: str, backend: str) -> str:
        """Return the registered model of a name or repository; one that is not registered is made."""
        models = self.catalogue.models
        facts = self.base.get((framework, name))
        if facts is None and (self.base or name not in models):
            pairs = {", ".join(key) for key in self.base}
            message = f"{BASE} has no row of {framework}, {name}."
            cure = did_you_mean(f"{framework}, {name}", pairs, nothing="Add the row.")
            self.errors.append(row.error("model_name", message, cure))
            return name
        if facts is not None and (unused := [column for column in _WITHOUT_EFFECT if facts.text(column)]):
            self.warnings.append(
                f"{facts.file}:{facts.line}: {', '.join(unused)} have no effect: the backend {backend} brings its own "
                "adapter and environment."
            )
        known = name if name in models else next((key for key in models if _is_of(models[key], name, backend)), None)
        if known is not None:
            return known
        if re.fullmatch(REPOSITORY, name) is None:
            message = f"{name!r} is neither a registered model nor a repository of the hub."
            self.errors.append(row.error("model_name", message, did_you_mean(name, models)))
            return name
        family = facts.text("model_family") if facts is not None else ""
        values: dict[str, JsonValue] = {"backends": [backend], "hub": {"repo": name}}
        slug = slug_of(f"{name.rpartition('/')[2]}-{backend}".lower())
        return self.put("models", slug, values | ({"family": family} if family else {}), ("hub", "backends"))

    def _dataset(self, row: LegacyRow) -> str:
        name = row.text("dataset")
        known = self.catalogue.datasets
        path = (
            next((path for place in DATASETS if (path := _data_in(self.folder / place / name))), None) if name else None
        )
        if path is None:
            if name not in known:
                beside = {
                    found.name for place in DATASETS for found in (self.folder / place).glob("*") if _data_in(found)
                }
                message = f"There is no dataset {name!r}: it is not registered, and no folder with {ANNOTATION}."
                self.errors.append(row.error("dataset", message, did_you_mean(name, {*known, *beside})))
            return name
        slug = slug_of(Path(name).stem)
        if slug in known and known[slug].path != str(path):
            message = f"{slug!r} is both {path} and a registered dataset."
            self.errors.append(row.error("dataset", message, "Rename the folder, and write its new name."))
        return self.put("datasets", slug, {"type": "annotation_csv", "path": str(path)}, ("type", "path"))

    def _task(self, row: LegacyRow, dataset: str, prompt: str, metrics: Sequence[str]) -> str:
        name = row.text("task")
        if name in self.catalogue.tasks:
            return name
        if not name:
            self.errors.append(row.error("task", "Nothing is written.", "Write what is asked, such as VQA."))
            return name
        values: dict[str, JsonValue] = {
            "category": name,
            "dataset": dataset,
            "prompt": prompt,
            "metrics": [*metrics],
        }
        return self.put("tasks", slug_of(f"{dataset}-{name}"), values, ("dataset", "category"))

    def _prompt(self, row: LegacyRow) -> str:
        system, collection = row.text("system_prompt"), row.text("prompt_collection")
        for name in (system, collection):
            if name in self.catalogue.prompts and not (system and collection):
                return name
        if not system and not collection:
            return PLAIN_PROMPT
        values = prompt_values(row, self.folder, self.errors, self.warnings)
        name = slug_of("-".join(Path(part).stem[:45] for part in (collection, system) if part) or "prompt")
        made = self.put("prompts", name, values, ("description",))
        if self.entries["prompts", made].values != values:
            message = f"Two prompts would have the name {made!r}."
            self.errors.append(row.error("system_prompt", message, "Write the texts into files of different names."))
        return made

    def _metrics(self, row: LegacyRow) -> list[str]:
        names = []
        for written in self._list(row, "metrics"):
            name = written if written in self.catalogue.metrics else re.sub(r"[\s-]+", "_", written.lower())
            if name.partition("@")[0] not in self.catalogue.metrics:
                cure = did_you_mean(name, self.catalogue.metrics)
                self.errors.append(row.error("metrics", f"There is no metric {written!r}.", cure))
            names.append(name)
        if not names:
            cure = "Write a list, such as ['anls', 'cer']."
            self.errors.append(row.error("metrics", "Nothing says how answers are scored.", cure))
        return list(dict.fromkeys(names))

    def _groups(self, row: LegacyRow) -> list[str]:
        groups: list[str] = []
        for name in self._list(row, "metrics_aggregators"):
            if name != _PER_SAMPLE and name not in AGGREGATORS:
                cure = did_you_mean(name, (_PER_SAMPLE, *AGGREGATORS))
                self.errors.append(row.error("metrics_aggregators", f"There is no aggregator {name!r}.", cure))
            groups += AGGREGATORS.get(name, ())
        return list(dict.fromkeys(groups))

    def _list(self, row: LegacyRow, column: str) -> tuple[str, ...]:
        try:
            return row.list_of(column)
        except ValueError:
            message = f"{row.text(column)[:80]} is no list of texts as Python writes it."
            self.errors.append(row.error(column, message, "Write ['first', 'second'], or one value without brackets."))
            return ()

    def _check_is_asked(self, row: LegacyRow) -> None:
        column = "only_evaluate_metrics"
        is_only_evaluated = _TRUTH.get(row.text(column).lower())
        if is_only_evaluated is None:
            self.errors.append(row.error(column, f"{row.text(column)!r} is no truth value.", "Write True or False."))
        elif is_only_evaluated:
            cure = "Score the answers with `vlmhyperbench import answers.csv`, and write False or remove the row."
            self.errors.append(row.error(column, "An experiment asks, and this row does not.", cure))


def _is_of(model: ModelEntry, repository: str, backend: str) -> bool:
    return model.hub is not None and model.hub.repo == repository and backend in model.backends


def _data_in(path: Path) -> Path | None:
    """Return the table of a folder, or the table itself."""
    file = path if path.suffix.lower() == ".csv" else path / ANNOTATION
    return file if is_file(file) else None
