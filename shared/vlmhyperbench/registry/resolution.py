"""Resolve entries to pinned specs: a run to a `RunSpec`, an experiment to named ones; all errors are collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vlmhyperbench.domain.planning import are_paired
from vlmhyperbench.domain.response_formats import pinned_format
from vlmhyperbench.domain.specs import ModelTarget, PipelineTarget, RunSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import (
    DatasetChoice,
    EvaluationChoices,
    ExtractorChoice,
    RunChoices,
)
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.matrix import Combination, combine, names_of, unused_exclusions
from vlmhyperbench.registry.metrics import pin_metrics
from vlmhyperbench.registry.pins import (
    errors_of,
    given,
    merge_decoding,
    pin_dataset,
    pin_extractors,
    pin_reports,
    pin_scenario,
    pin_stop,
)
from vlmhyperbench.registry.pipeline_targets import AskingDefaults, check_scenario, pin_target
from vlmhyperbench.registry.plugins import InstalledPlugins, Plugins
from vlmhyperbench.registry.prompt_pins import check_examples, pin_prompt
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import (
    Entry,
    ExperimentEntry,
    RunEntry,
)
from vlmhyperbench.registry.smaller import smaller_models
from vlmhyperbench.registry.targets import pin_prices
from vlmhyperbench.scoring.reported import is_reported

Where = Callable[[Path], Path]
"""Maps a path in a run's entry to the path at which the value was written."""


def resolve_run(catalogue: Catalogue, entry: RunEntry, *, plugins: Plugins | None = None) -> RunSpec:
    """Resolve a run to its pinned spec.

    Raises:
        RegistryErrors: it refers to unknown names or combines incompatible parts; lists every error.
    """
    references = References(catalogue=catalogue, plugins=plugins or InstalledPlugins())
    spec = pin_run(references, entry)
    if spec is None or references.problems:
        raise errors_of(references, "runs", entry)
    return spec


def resolve_rescoring(
    catalogue: Catalogue, spec: RunSpec, choices: EvaluationChoices, *, plugins: Plugins | None = None
) -> RunSpec:
    """Resolve a re-scoring to its pinned spec; choices that are not given are those of the run, in current versions.

    Raises:
        RegistryErrors: a metric or an extractor is not available.
    """
    references = References(catalogue=catalogue, plugins=plugins or InstalledPlugins())
    own = [metric for metric in spec.metrics if not is_reported(metric)]
    wanted = choices.metrics or tuple(metric.label for metric in own)
    metrics = pin_metrics(references, wanted, catalogue.tasks.get(spec.task), ("metrics",))
    reading = choices.extractors
    if reading is None:
        reading = tuple(ExtractorChoice(name=extractor.name, params=extractor.params) for extractor in spec.extractors)
    extractors = pin_extractors(references, reading, ("extractors",))
    if references.problems or None in (*metrics, *extractors):
        raise errors_of(references, "runs", Entry())
    chosen = {name: getattr(choices, name) for name in ("group_by", "on_model_failure", "on_invalid")}
    return spec.model_copy(
        update={
            "metrics": (*metrics, *filter(is_reported, spec.metrics)),
            "extractors": tuple(extractors),
            **{name: value for name, value in chosen.items() if value is not None},
        }
    )


def resolve_experiment(
    catalogue: Catalogue, entry: ExperimentEntry, *, plugins: Plugins | None = None
) -> list[tuple[str, RunSpec]]:
    """Expand an experiment into runs with unique names, baseline first.

    Raises:
        RegistryErrors: see `resolve_run`.
    """
    references = References(catalogue=catalogue, plugins=plugins or InstalledPlugins())
    runs = pin_experiment(references, entry)
    if references.problems:
        raise errors_of(references, "experiments", entry)
    return runs


def pin_experiment(references: References, entry: ExperimentEntry) -> list[tuple[str, RunSpec]]:
    """Pin every run of an experiment, or report their problems."""
    combinations = combinations_of(references, entry)
    if entry.matrix is not None and not combinations:
        references.say(("exclude",), "every combination of the matrix is excluded.", "Exclude fewer of them.")
    pinned: list[tuple[str, RunSpec]] = []
    for combination in combinations:
        spec = pin_run(references, combination.run, combination.written_at)
        if spec is not None:
            pinned.append((combination.name, spec))
    return [
        (name, _without_own_rule(spec, [other for _, other in pinned[:no]])) for no, (name, spec) in enumerate(pinned)
    ]


def _without_own_rule(spec: RunSpec, earlier: Sequence[RunSpec]) -> RunSpec:
    """Remove the stop rule of a run that is a baseline of its experiment, so that it requests every sample."""
    is_baseline = not any(are_paired(spec, other) for other in earlier)
    if spec.stop is None or spec.stop.baseline is not None or not is_baseline:
        return spec
    return spec.model_copy(update={"stop": None})


def pin_run(references: References, entry: RunEntry, where: Where = lambda path: path) -> RunSpec | None:
    """Pin a run, or report its problems."""
    catalogue = references.catalogue
    task = references.find(catalogue.tasks, "tasks", entry.task, where(("task",)))
    if task is None:
        _check_choices(references, entry, where)
        pin_target(references, entry.target, None, AskingDefaults(), where(("target",)))
        return None
    asking = AskingDefaults(
        decoding=merge_decoding(task.decoding, entry.decoding),
        response_format=pinned_format(given(entry.response_format, task.response_format)),
        allow_lossy=entry.limits.allow_lossy,
    )
    target = pin_target(references, entry.target, task, asking, where(("target",)))
    dataset = pin_dataset(
        references,
        entry.dataset or task.dataset,
        _path(entry, "dataset", where),
        required_fields=task.required_fields,
    )
    if entry.limit is not None and dataset is not None:
        dataset = dataset.model_copy(update={"limit": entry.limit})
        if isinstance(entry.dataset, DatasetChoice) and entry.dataset.limit not in (None, entry.limit):
            message = f"the data set is limited to {entry.dataset.limit} samples, and the run to {entry.limit}."
            references.say(where(("limit",)), message, "Write one of them.")
    prompt = pin_prompt(references, entry.prompt or task.prompt, _path(entry, "prompt", where), asked=dataset)
    metrics = pin_metrics(references, entry.metrics or task.metrics, task, _path(entry, "metrics", where))
    extractors = pin_extractors(references, given(entry.extractors, task.extractors), _path(entry, "extractors", where))
    scenario = pin_scenario(references, entry.scenario or task.scenarios[0], task, _path(entry, "scenario", where))
    reports = pin_reports(references, given(entry.reports, task.reports), task, _path(entry, "reports", where))
    stop = entry.stop and pin_stop(references, entry.stop, metrics, scenario, where(("stop",)))
    if entry.shares_device and scenario is not None and scenario.is_timed:
        message = f"the scenario {scenario.name!r} measures speed, which sharing a device would spoil."
        references.say(where(("shares_device",)), message, "Leave out shares_device, or choose the kind offline.")
    check_scenario(references, entry, scenario, where)
    check_examples(references, prompt, target, scenario, _path(entry, "prompt", where))
    prices, unpriced = pin_prices(references, entry.target, where(("target",)))
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
        decoding=asking.decoding,
        scenario=scenario,
        group_by=given(entry.group_by, task.group_by),
        reports=reports,
        response_format=asking.response_format,
        limits=entry.limits,
        secrets=entry.secrets,
        reuse=given(entry.reuse, "equal"),
        on_model_failure=given(entry.on_model_failure, task.on_model_failure),
        on_invalid=given(entry.on_invalid, task.on_invalid),
        stop=stop,
        shares_device=entry.shares_device,
        smaller=smaller_models(references, target)
        if entry.limits.allow_lossy and isinstance(target, ModelTarget)
        else (),
        prices=prices,
        unpriced=unpriced,
    )


def replaced_data(catalogue: Catalogue, entry: RunEntry | ExperimentEntry) -> list[str]:
    """Return a warning for each task of a run or an experiment that is used with another dataset than its own.

    That is allowed, but it is rarely intended where it is written into the defaults of a matrix.
    """
    references = References(catalogue=catalogue, plugins=InstalledPlugins())
    runs = (
        [entry]
        if isinstance(entry, RunEntry)
        else [combination.run for combination in combinations_of(references, entry)]
    )
    warnings = dict[str, None]()
    for run in runs:
        task = catalogue.tasks.get(run.task)
        own = run.dataset.name if isinstance(run.dataset, DatasetChoice) else run.dataset
        if task is not None and own is not None and own != task.dataset:
            warnings[
                f"the data set {own!r} stands in place of {task.dataset!r}, the own one of the task {run.task!r}."
            ] = None
    return list(warnings)


def left_out(spec: RunSpec) -> list[str]:
    """Return a warning for each optional model of a pipeline that could not be used at submission."""
    stages = spec.target.stages if isinstance(spec.target, PipelineTarget) else ()
    return [f"{stage.id} goes on without {each.name}: {each.reason}" for stage in stages for each in stage.dropped]


def combinations_of(references: References, entry: ExperimentEntry) -> list[Combination]:
    """Return the runs of an experiment, each with the locations of its values, or report problems."""
    if entry.matrix is not None:
        for no in unused_exclusions(entry.matrix, entry.exclude, entry.defaults):
            cure = "Remove it, or write a target, a task, a scenario and a prompt as the matrix does."
            references.say(("exclude", no), "it matches no combination of the matrix.", cure)
        return combine(entry.matrix, entry.exclude, entry.defaults)
    combinations: list[Combination] = []
    unnamed = [run for run in entry.runs if isinstance(run, RunEntry) and not run.name]
    made_up = iter(names_of(unnamed))
    for no, run in enumerate(entry.runs):
        entered = run
        if isinstance(run, str):
            entered = references.find(references.catalogue.runs, "runs", run, ("runs", no)) or run
        if isinstance(entered, RunEntry):
            name = run if isinstance(run, str) else entered.name or next(made_up)
            base: Path = ("runs", no)
            combinations.append(
                Combination(name=name, run=entered, locations={(): base}, is_whole=isinstance(run, str))
            )
    names = [combination.name for combination in combinations]
    for no, name in enumerate(names):
        if name in names[:no]:
            references.say(("runs", no), f"two runs are called {name!r}.", "Rename one of them.")
    return combinations


def _check_choices(references: References, entry: RunChoices, where: Where) -> None:
    """Check a run's own choices even if its task is unknown."""
    catalogue = references.catalogue
    if entry.prompt is not None:
        references.find(catalogue.prompts, "prompts", entry.prompt, where(("prompt",)))
    for no, metric in enumerate(entry.metrics or ()):
        references.metric(metric, where(("metrics", no)))
    if isinstance(entry.dataset, (str, DatasetChoice)):
        name = entry.dataset if isinstance(entry.dataset, str) else entry.dataset.name
        references.find(catalogue.datasets, "datasets", name, where(("dataset",)))


def _path(entry: RunEntry, field: str, where: Where) -> Path:
    """Return the path of a choice: in the run itself, or else of the task's name."""
    return where((field,)) if getattr(entry, field) is not None else where(("task",))
