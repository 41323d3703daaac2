"""Names to pins: a run entry becomes a `RunSpec`, an experiment entry a list of named ones; all errors at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from vlmhyperbench.domain.specs import (
    DatasetSpec,
    Decoding,
    ExtractorSpec,
    MetricSpec,
    PromptSpec,
    RunSpec,
    ScenarioSpec,
)
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import (
    DatasetChoice,
    EvaluationChoices,
    ExtractorChoice,
    RunChoices,
    ScenarioChoice,
)
from vlmhyperbench.registry.errors import Path, RegistryError, RegistryErrors, did_you_mean, field_of
from vlmhyperbench.registry.matrix import Combination, combine
from vlmhyperbench.registry.plugins import InstalledPlugins, Plugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import (
    Entry,
    ExperimentEntry,
    RunEntry,
    TaskEntry,
)
from vlmhyperbench.registry.targets import resolve_target

T = TypeVar("T")
Where = Callable[[Path], Path]
"""From a path inside a run's entry to the path at which that value was written."""


def resolve_run(catalogue: Catalogue, entry: RunEntry, *, plugins: Plugins | None = None) -> RunSpec:
    """Pin a run.

    Raises:
        RegistryErrors: it refers to what does not exist or does not fit together; every error, nearest names offered.
    """
    references = References(catalogue=catalogue, plugins=plugins or InstalledPlugins())
    spec = pin_run(references, entry)
    if spec is None or references.problems:
        raise _errors(references, "runs", entry)
    return spec


def resolve_rescoring(
    catalogue: Catalogue, spec: RunSpec, choices: EvaluationChoices, *, plugins: Plugins | None = None
) -> RunSpec:
    """Pin how the answers of a run are evaluated anew; what is not chosen stays, metrics in the versions of now.

    Raises:
        RegistryErrors: a metric or an extractor cannot be had.
    """
    references = References(catalogue=catalogue, plugins=plugins or InstalledPlugins())
    wanted = choices.metrics or tuple(f"{metric.name}@{metric.profile}" for metric in spec.metrics)
    metrics = _metrics(references, wanted, catalogue.tasks.get(spec.task), ("metrics",))
    extractors = (
        list(spec.extractors)
        if choices.extractors is None
        else _extractors(references, choices.extractors, ("extractors",))
    )
    if references.problems or None in (*metrics, *extractors):
        raise _errors(references, "runs", Entry())
    chosen = {name: getattr(choices, name) for name in ("group_by", "on_model_failure", "on_invalid")}
    return spec.model_copy(
        update={
            "metrics": tuple(metrics),
            "extractors": tuple(extractors),
            **{name: value for name, value in chosen.items() if value is not None},
        }
    )


def resolve_experiment(
    catalogue: Catalogue, entry: ExperimentEntry, *, plugins: Plugins | None = None
) -> list[tuple[str, RunSpec]]:
    """Expand an experiment to its runs, each with a name of its own, the baseline first.

    Raises:
        RegistryErrors: see `resolve_run`.
    """
    references = References(catalogue=catalogue, plugins=plugins or InstalledPlugins())
    runs = pin_experiment(references, entry)
    if references.problems:
        raise _errors(references, "experiments", entry)
    return runs


def pin_experiment(references: References, entry: ExperimentEntry) -> list[tuple[str, RunSpec]]:
    """Pin every run of an experiment, or say what is wrong with them."""
    combinations = _combinations(references, entry)
    if entry.matrix is not None and not combinations:
        references.say(("exclude",), "every combination is excluded.", "Exclude less.")
    pinned: list[tuple[str, RunSpec]] = []
    for combination in combinations:
        spec = pin_run(references, combination.run, combination.written_at)
        if spec is not None:
            pinned.append((combination.name, spec))
    return pinned


def pin_run(references: References, entry: RunEntry, where: Where = lambda path: path) -> RunSpec | None:
    """Pin one run, or say what is wrong with it."""
    catalogue = references.catalogue
    task = references.find(catalogue.tasks, "tasks", entry.task, where(("task",)))
    target = resolve_target(references, entry.target, task, where(("target",)))
    if task is None:
        _check_choices(references, entry, where)
        return None
    dataset = _dataset(references, entry.dataset or task.dataset, task, _path(entry, "dataset", where))
    prompt = _prompt(references, entry.prompt or task.prompt, _path(entry, "prompt", where))
    metrics = _metrics(references, entry.metrics or task.metrics, task, _path(entry, "metrics", where))
    extractors = _extractors(references, _given(entry.extractors, task.extractors), _path(entry, "extractors", where))
    scenario = _scenario(references, entry.scenario or task.scenarios[0], task, _path(entry, "scenario", where))
    reports = _given(entry.reports, task.reports)
    _check_reports(references, reports, task, _path(entry, "reports", where))
    if target is None or dataset is None or prompt is None or scenario is None or None in (*metrics, *extractors):
        return None
    return RunSpec(
        target=target,
        task=task.name,
        task_version=task.version,
        category=task.category,
        dataset=dataset,
        prompt=prompt,
        metrics=tuple(metric for metric in metrics if metric is not None),
        extractors=tuple(extractor for extractor in extractors if extractor is not None),
        decoding=_decoding(task.decoding, entry.decoding),
        scenario=scenario,
        group_by=_given(entry.group_by, task.group_by),
        reports=reports,
        response_format=_given(entry.response_format, task.response_format),
        limits=entry.limits,
        secrets=entry.secrets,
        on_model_failure=_given(entry.on_model_failure, task.on_model_failure),
        on_invalid=_given(entry.on_invalid, task.on_invalid),
    )


def _combinations(references: References, entry: ExperimentEntry) -> list[Combination]:
    if entry.matrix is not None:
        return combine(entry.matrix, entry.exclude, entry.defaults)
    combinations: list[Combination] = []
    for no, run in enumerate(entry.runs):
        found = run
        if isinstance(run, str):
            found = references.find(references.catalogue.runs, "runs", run, ("runs", no)) or run
        if isinstance(found, RunEntry):
            name = run if isinstance(run, str) else found.name or f"run-{no + 1}"
            base: Path = ("runs", no)
            combinations.append(Combination(name=name, run=found, places={(): base}, is_whole=isinstance(run, str)))
    names = [combination.name for combination in combinations]
    for no, name in enumerate(names):
        if name in names[:no]:
            references.say(("runs", no), f"two runs are called {name!r}.", "Name one of them otherwise.")
    return combinations


def _check_choices(references: References, entry: RunChoices, where: Where) -> None:
    """Check what a run chooses by itself where its task is unknown."""
    catalogue = references.catalogue
    if entry.prompt is not None:
        references.find(catalogue.prompts, "prompts", entry.prompt, where(("prompt",)))
    for no, metric in enumerate(entry.metrics or ()):
        references.metric(metric, where(("metrics", no)))
    if isinstance(entry.dataset, (str, DatasetChoice)):
        name = entry.dataset if isinstance(entry.dataset, str) else entry.dataset.name
        references.find(catalogue.datasets, "datasets", name, where(("dataset",)))


def _dataset(references: References, choice: str | DatasetChoice, task: TaskEntry, path: Path) -> DatasetSpec | None:
    chosen = DatasetChoice(name=choice) if isinstance(choice, str) else choice
    entry = references.find(references.catalogue.datasets, "datasets", chosen.name, path)
    if entry is None:
        return None
    return DatasetSpec(
        name=chosen.name,
        version=entry.version,
        type=entry.type,
        package=references.plugins.package_of("datasets", entry.type),
        path=str(references.catalogue.root / entry.path) if entry.path is not None else None,
        revision=entry.revision,
        split=_given(chosen.split, entry.split),
        params={**entry.params, **chosen.params},
        seed=_given(chosen.seed, entry.seed),
        limit=_given(chosen.limit, entry.limit),
        doc_classes=_given(chosen.doc_classes, entry.doc_classes),
        question_types=_given(chosen.question_types, entry.question_types),
        required_fields=task.required_fields,
    )


def _prompt(references: References, name: str, path: Path) -> PromptSpec | None:
    entry = references.find(references.catalogue.prompts, "prompts", name, path)
    if entry is None:
        return None
    return PromptSpec.model_validate({"name": name, **entry.model_dump(exclude={"name", "description", "metadata"})})


def _metrics(
    references: References, chosen: Sequence[str], task: TaskEntry | None, path: Path
) -> list[MetricSpec | None]:
    metrics: list[MetricSpec | None] = []
    for no, reference in enumerate(chosen):
        place = (*path, no) if path[-1] == "metrics" else path
        metric = references.metric(reference, place)
        if metric is not None:
            if task is not None:
                _check_supported(references, "metric", metric.name, task.supported_metrics, task, place)
            if metric in metrics:
                references.say(place, f"the metric {reference!r} is asked for twice.", "Remove one.")
        metrics.append(metric)
    return metrics


def _extractors(
    references: References, chosen: Sequence[str | ExtractorChoice], path: Path
) -> list[ExtractorSpec | None]:
    extractors: list[ExtractorSpec | None] = []
    for no, reference in enumerate(chosen):
        place = (*path, no) if path[-1] == "extractors" else path
        extractor = references.extractor(reference, place)
        if extractor is not None and extractor in extractors:
            references.say(place, f"the extractor {extractor.label!r} is asked for twice.", "Remove one.")
        extractors.append(extractor)
    return extractors


def _scenario(references: References, choice: str | ScenarioChoice, task: TaskEntry, path: Path) -> ScenarioSpec | None:
    chosen = ScenarioChoice(name=choice) if isinstance(choice, str) else choice
    own = chosen.model_dump(exclude_none=True)
    if chosen.kind is not None and chosen.name not in references.catalogue.scenarios:
        return ScenarioSpec.model_validate(own)
    entry = references.find(references.catalogue.scenarios, "scenarios", chosen.name, path)
    if entry is None:
        return None
    _check_supported(references, "scenario", chosen.name, task.scenarios, task, path)
    written = entry.model_dump(exclude={"description", "metadata"})
    return ScenarioSpec.model_validate({**written, "name": chosen.name, **own})


def _check_reports(references: References, reports: Sequence[str], task: TaskEntry, path: Path) -> None:
    for no, name in enumerate(reports):
        place = (*path, no) if path[-1] == "reports" else path
        if references.find(references.catalogue.reports, "reports", name, place) is not None:
            _check_supported(references, "report", name, task.supported_reports, task, place)


def _check_supported(
    references: References, what: str, name: str, supported: Sequence[str], task: TaskEntry, path: Path
) -> None:
    if supported and name not in supported:
        cure = did_you_mean(name, supported)
        references.say(path, f"the task {task.name!r} does not support the {what} {name!r}.", cure)


def _decoding(default: Decoding, own: Decoding | None) -> Decoding:
    if own is None:
        return default
    return default.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def _given(own: T | None, default: T) -> T:
    return default if own is None else own


def _path(entry: RunEntry, field: str, where: Where) -> Path:
    """Where a choice was written: in the run, or else by naming the task."""
    return where((field,)) if getattr(entry, field) is not None else where(("task",))


def _errors(references: References, kind: str, entry: Entry) -> RegistryErrors:
    catalogue = references.catalogue
    is_registered = bool(entry.name) and catalogue.of(kind).get(entry.name) is entry
    errors = []
    for problem in references.problems:
        place = catalogue.place_of(kind, entry.name, *problem.path) if is_registered else None
        errors.append(
            RegistryError(
                file=place.file if place else None,
                line=place.line if place else None,
                field=field_of(problem.path),
                message=problem.message,
                cure=problem.cure,
            )
        )
    return RegistryErrors(errors)
