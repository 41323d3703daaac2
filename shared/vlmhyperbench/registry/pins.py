"""Pin the parts of a run spec one by one; unresolved names become problems with their locations."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TypeVar

from vlmhyperbench.domain.datasets import is_elsewhere
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import (
    DatasetSpec,
    Decoding,
    ExtractorSpec,
    MetricSpec,
    ReportWriterSpec,
    StopRule,
)
from vlmhyperbench.registry.choices import DatasetChoice, ExtractorChoice, ScenarioChoice, StopChoice
from vlmhyperbench.registry.errors import Path, RegistryErrors
from vlmhyperbench.registry.packages import pin_own_environment
from vlmhyperbench.registry.plugins import BUILT_IN_REPORTS
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import Entry, TaskEntry
from vlmhyperbench.registry.validation import validate
from vlmhyperbench_sdk.suggestions import did_you_mean

T = TypeVar("T")


def pin_dataset(
    references: References, choice: str | DatasetChoice, path: Path, *, required_fields: tuple[str, ...] = ()
) -> DatasetSpec | None:
    """Pin a dataset, with the choice's values overriding those of its entry."""
    chosen = DatasetChoice(name=choice) if isinstance(choice, str) else choice
    entry = references.find(references.catalogue.datasets, "datasets", chosen.name, path)
    if entry is None:
        return None
    folder = references.catalogue.folder_of("datasets", chosen.name)
    apart = pin_own_environment(references, "datasets", entry.type, entry.package, path)
    return DatasetSpec(
        name=chosen.name,
        version=entry.version,
        type=entry.type,
        package=None if apart is not None else references.plugins.pin("datasets", entry.type),
        environment=apart,
        path=_located(folder, entry.path),
        revision=entry.revision,
        split=given(chosen.split, entry.split),
        params={**entry.params, **chosen.params},
        seed=given(chosen.seed, entry.seed),
        limit=given(chosen.limit, entry.limit),
        doc_classes=given(chosen.doc_classes, entry.doc_classes),
        question_types=given(chosen.question_types, entry.question_types),
        required_fields=required_fields,
        where=given(chosen.where, entry.where),
        sampling=given(chosen.sampling, entry.sampling),
        preprocess=given(chosen.preprocess, entry.preprocess),
        sha256=entry.sha256,
    )


def _located(folder: pathlib.Path, path: str | None) -> str | None:
    return path if path is None or is_elsewhere(path) else str(folder / path)


def pin_extractors(
    references: References, chosen: Sequence[str | ExtractorChoice], path: Path
) -> list[ExtractorSpec | None]:
    """Pin extractors; None replaces an extractor that cannot be resolved."""
    extractors: list[ExtractorSpec | None] = []
    for no, reference in enumerate(chosen):
        location = (*path, no) if path[-1] == "extractors" else path
        extractor = references.extractor(reference, location)
        if extractor is not None and extractor in extractors:
            references.say(location, f"the extractor {extractor.label!r} is listed twice.", "Remove one of them.")
        extractors.append(extractor)
    return extractors


def pin_scenario(
    references: References, choice: str | ScenarioChoice, task: TaskEntry, path: Path
) -> ScenarioSpec | None:
    """Pin a scenario: a registered one, or one defined inline by `kind`."""
    chosen = ScenarioChoice(name=choice) if isinstance(choice, str) else choice
    own, written = chosen.model_dump(mode="json", exclude_none=True), {}
    if chosen.kind is None or chosen.name in references.catalogue.scenarios:
        entry = references.find(references.catalogue.scenarios, "scenarios", chosen.name, path)
        if entry is None:
            return None
        check_supported(references, "scenario", chosen.name, task.scenarios, task, path)
        # A bound in the choice replaces both bounds of the entry.
        replaced = {"requests", "duration_s"} if own.keys() & {"requests", "duration_s"} else set()
        written = entry.model_dump(mode="json", exclude={"description", "name", *replaced})
        if chosen.arrivals is not None:
            arrivals = chosen.arrivals.model_dump(mode="json", exclude_unset=True)
            own["arrivals"] = {**(written["arrivals"] or {}), **arrivals}
    spec, problems = validate(ScenarioSpec, {**written, **own})
    for problem in problems:
        references.say((*path, *problem.path), problem.message, problem.cure)
    return spec


def pin_stop(
    references: References,
    choice: StopChoice,
    metrics: Sequence[MetricSpec | None],
    scenario: ScenarioSpec | None,
    path: Path,
) -> StopRule | None:
    """Pin a stop rule: on one of the run's metrics, in a closed-loop scenario."""
    if any(metric is not None and is_judge(metric) for metric in metrics):
        message = "a run that may stop early is not judged while it runs, because its answers are not known yet."
        references.say(path, message, "Leave the judge out, and rescore the run with it once it has ended.")
    labels = [metric.label for metric in metrics if metric is not None]
    wanted = choice.metric.partition(":")[0] if choice.metric is not None else labels[0] if labels else ""
    label = next((name for name in labels if wanted in {name, name.partition("@")[0]}), None)
    if label is None:
        cure = did_you_mean(wanted, labels)
        references.say((*path, "metric"), f"{wanted!r} is not one of the run's metrics.", cure)
    if scenario is not None and scenario.is_timed:
        message = f"a run of the scenario {scenario.name!r} cannot stop early: its requests are timed as a whole."
        references.say(path, message, "Choose a scenario of the kind offline, or leave out stop.")
    rule, problems = validate(StopRule, {**choice.model_dump(mode="json"), "metric": label or wanted or "none"})
    for problem in problems:
        references.say((*path, *problem.path), problem.message, problem.cure)
    return None if references.problems else rule


def pin_reports(
    references: References, names: Sequence[str], task: TaskEntry, path: Path
) -> tuple[str | ReportWriterSpec, ...]:
    """Pin the reports that exist and that the task supports: built-in ones by format, others with their plugin."""
    pinned: list[str | ReportWriterSpec] = []
    for no, name in enumerate(names):
        location = (*path, no) if path[-1] == "reports" else path
        entry = references.find(references.catalogue.reports, "reports", name, location)
        if entry is None:
            continue
        check_supported(references, "report", name, task.supported_reports, task, location)
        if entry.class_path not in BUILT_IN_REPORTS:
            package = references.plugins.package_of("reports", entry.class_path)
            writer = ReportWriterSpec(name=name, class_path=entry.class_path, package=package, params=entry.params)
            pinned.append(writer)
        elif entry.class_path not in pinned:
            pinned.append(entry.class_path)
    return tuple(pinned)


def check_supported(
    references: References, what: str, name: str, supported: Sequence[str], task: TaskEntry, path: Path
) -> None:
    """Check that a task supports this, if it lists what it supports."""
    if supported and name not in supported:
        cure = did_you_mean(name, supported)
        references.say(path, f"the task {task.name!r} does not support the {what} {name!r}.", cure)


def merge_decoding(default: Decoding, own: Decoding | None) -> Decoding:
    """Override the task's decoding by explicit values, key by key."""
    if own is None:
        return default
    return default.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def given(own: T | None, default: T) -> T:
    """Return the explicit value, or else the default."""
    return default if own is None else own


def errors_of(references: References, kind: str, entry: Entry) -> RegistryErrors:
    """Convert problems into errors, with file and line if the entry comes from a file."""
    catalogue = references.catalogue
    is_registered = bool(entry.name) and catalogue.of(kind).get(entry.name) is entry
    return RegistryErrors.of(
        references.problems,
        lambda path: catalogue.location_of(kind, entry.name, *path) if is_registered else None,
    )
