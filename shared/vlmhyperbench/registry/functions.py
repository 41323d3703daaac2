"""Resolve the evaluation of a Python function into a pinned spec: the task's samples, prompts and metrics."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

from pydantic import Field

from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import Decoding, ImportTarget, RunSpec
from vlmhyperbench.domain.targets import FUNCTION
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import DatasetRef, EvaluationChoices
from vlmhyperbench.registry.metrics import pin_metrics
from vlmhyperbench.registry.pins import errors_of, given, pin_dataset, pin_extractors
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.prompt_pins import pin_prompt
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import Entry
from vlmhyperbench.registry.values import Slug

NO_ANSWERS: Final = hashlib.sha256(b"").hexdigest()
"""Hash of the answers before there are any."""


class FunctionChoices(EvaluationChoices):
    """Choices of an evaluation of a function, which replace those of its task."""

    task: Slug
    dataset: DatasetRef | None = None
    prompt: Slug | None = None
    limit: Annotated[int, Field(ge=1)] | None = None


def resolve_function(catalogue: Catalogue, choices: FunctionChoices, *, function: str, in_flight: int) -> RunSpec:
    """Return the pinned spec of an evaluation, whose answers are still to be given.

    Args:
        catalogue: Where the names are registered.
        choices: Task, and what replaces parts of it.
        function: Name of the function.
        in_flight: Number of calls at the same time.

    Raises:
        RegistryErrors: names are unknown, or a metric is a judge, which asks a model.
    """
    references = References(catalogue=catalogue, plugins=InstalledPlugins())
    task = references.find(catalogue.tasks, "tasks", choices.task, ("task",))
    if task is None:
        raise errors_of(references, "runs", Entry())
    dataset = pin_dataset(
        references, choices.dataset or task.dataset, ("dataset",), required_fields=task.required_fields
    )
    if choices.limit is not None and dataset is not None:
        dataset = dataset.model_copy(update={"limit": choices.limit})
    prompt = pin_prompt(references, choices.prompt or task.prompt, ("prompt",), asked=dataset)
    metrics = pin_metrics(references, choices.metrics or task.metrics, task, ("metrics",))
    extractors = pin_extractors(references, given(choices.extractors, task.extractors), ("extractors",))
    for metric in metrics:
        if metric is not None and is_judge(metric):
            cure = "Choose metrics without it, or submit a run, which asks the judge's model."
            references.say(("metrics",), f"the metric {metric.name!r} asks a model, and no model is asked here.", cure)
    if references.problems or dataset is None or prompt is None or None in (*metrics, *extractors):
        raise errors_of(references, "runs", Entry())
    return RunSpec(
        target=ImportTarget(model_name=function, format=FUNCTION, answers=NO_ANSWERS),
        task=task.name,
        task_version=task.version,
        category=task.category,
        dataset=dataset,
        prompt=prompt,
        metrics=tuple(metric for metric in metrics if metric is not None),
        extractors=tuple(extractor for extractor in extractors if extractor is not None),
        decoding=Decoding(temperature=None),
        scenario=ScenarioSpec(name="in-process", warmup_requests=0, in_flight=in_flight),
        group_by=given(choices.group_by, task.group_by),
        on_model_failure=given(choices.on_model_failure, task.on_model_failure),
        on_invalid=given(choices.on_invalid, task.on_invalid),
        unpriced="a Python function gave the answers, and what its calls cost is not known",
    )
