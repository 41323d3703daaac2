"""Resolve a run with imported answers into a pinned spec: its dataset, and how the answers are evaluated."""

from __future__ import annotations

from typing import Protocol

from pydantic import JsonValue

from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import ANSWERS_DATASET, DatasetSpec, Decoding, ImportTarget, PromptSpec, RunSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import EvaluationChoices, ImportChoices
from vlmhyperbench.registry.metrics import pin_metrics
from vlmhyperbench.registry.pins import errors_of, given, pin_dataset, pin_extractors
from vlmhyperbench.registry.plugins import InstalledPlugins, Plugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import Entry, TaskEntry
from vlmhyperbench.scoring.reported import reported_metric

MAX_REPORTED_METRICS = 32
"""Maximum number of scores reported by a file that become metrics: the most frequent ones."""


class Answers(Protocol):
    """Description of a stored file of answers."""

    @property
    def sha256(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def tool(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def task(self) -> str | None: ...
    @property
    def decoding(self) -> dict[str, JsonValue]: ...
    @property
    def repeats(self) -> int: ...
    @property
    def referenced(self) -> int: ...
    @property
    def reported(self) -> list[str]: ...


class Choices(EvaluationChoices, ImportChoices):
    """Choices of an import."""


def resolve_import(
    catalogue: Catalogue,
    answers: Answers,
    choices: Choices,
    *,
    storage_path: str,
    plugins: Plugins | None = None,
) -> RunSpec:
    """Return the pinned spec of an import; `storage_path` locates the file in the form of `DatasetSpec.path`.

    Raises:
        RegistryErrors: names are unknown; or there are no metrics, or no references to score against.
    """
    references = References(catalogue=catalogue, plugins=plugins or InstalledPlugins())
    task = None
    if choices.task is not None:
        task = references.find(catalogue.tasks, "tasks", choices.task, ("task",))
    metrics = pin_metrics(references, choices.metrics or (task.metrics if task else ()), task, ("metrics",))
    extractors = pin_extractors(
        references, given(choices.extractors, task.extractors if task else ("text",)), ("extractors",)
    )
    dataset = _dataset(references, answers, choices, task, storage_path)
    if not metrics and not references.problems:
        references.say(("metrics",), "no metric is named to evaluate the answers by.", "Name a task or metrics.")
    if references.problems or dataset is None or None in (*metrics, *extractors):
        raise errors_of(references, "runs", Entry())
    return RunSpec(
        target=ImportTarget(
            model_name=choices.model or answers.model or "unknown model",
            format=answers.format,
            tool=answers.tool,
            answers=answers.sha256,
            decoding=answers.decoding,
        ),
        task=choices.task or answers.task or "imported answers",
        task_version=task.version if task else "1.0.0",
        category=task.category if task else None,
        dataset=dataset,
        prompt=PromptSpec(name="as-imported", version="1.0.0"),
        metrics=(
            *(metric for metric in metrics if metric is not None),
            *map(reported_metric, answers.reported[:MAX_REPORTED_METRICS]),
        ),
        extractors=tuple(extractor for extractor in extractors if extractor is not None),
        decoding=Decoding(temperature=None, n=answers.repeats),
        scenario=ScenarioSpec(name="as-imported", warmup_requests=0, in_flight=1),
        group_by=given(choices.group_by, task.group_by if task else ()),
        on_model_failure=given(choices.on_model_failure, task.on_model_failure if task else "zero"),
        on_invalid=given(choices.on_invalid, task.on_invalid if task else "exclude"),
        unpriced="its answers were imported, and what asking for them cost is not known",
    )


def _dataset(
    references: References, answers: Answers, choices: Choices, task: TaskEntry | None, storage_path: str
) -> DatasetSpec | None:
    required = task.required_fields if task else ()
    if choices.dataset is not None:
        return pin_dataset(references, choices.dataset, ("dataset",), required_fields=required)
    if not answers.referenced:
        cure = "Name the dataset that the questions are from."
        references.say(("dataset",), "the file has no references to score the answers by.", cure)
        return None
    return DatasetSpec(
        name=answers.task or f"{answers.format} answers {answers.sha256[:12]}",
        version=answers.sha256[:12],
        type=ANSWERS_DATASET,
        path=storage_path,
        required_fields=required,
    )
