"""Resolve the names in a body to pinned specs. Reads registry files and looks up plugins, so call it in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.asking import targets_of
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget, PipelineTarget, RunSpec, Target
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.exchange.answers import answers_key
from vlmhyperbench.registry.importing import resolve_import
from vlmhyperbench.registry.origins import (
    SUBMISSION,
    origins_of,
    origins_of_experiment,
    written_in_entry,
    written_in_submission,
)
from vlmhyperbench.registry.resolution import (
    left_out,
    replaced_data,
    resolve_experiment,
    resolve_rescoring,
    resolve_run,
)
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.registry.sessions import resolve_session
from vlmhyperbench.scoring.extraction import open_extractor
from vlmhyperbench.storage import STORAGE_SCHEME
from vlmhyperbench.wire.answers import Answers, RunImport
from vlmhyperbench.wire.runs import ExperimentCreate, RunCreate, RunRerun, RunRescore
from vlmhyperbench.wire.sessions import SessionCreate, SessionRerun
from vlmhyperbench_api.submission.request import Submission
from vlmhyperbench_sdk.suggestions import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedRun:
    """A resolved run, which can be written."""

    name: str
    spec: RunSpec
    origins: Mapping[str, str] | None
    """Path of a value of the spec → where it was written; None where that is not known."""


def pin_run(submission: Submission[RunCreate]) -> PinnedRun:
    """Resolve a new run.

    Raises:
        InvalidInput: names are unknown or incompatible; lists all errors.
    """
    body = submission.body
    return _pin_entry(submission, body.run, _name(body.name, body.run))


def pin_import(submission: Submission[RunImport], answers: Answers) -> PinnedRun:
    """Resolve a run that imports answers; `answers` describes the uploaded file.

    Raises:
        InvalidInput: names are unknown.
    """
    body = submission.body
    path = f"{STORAGE_SCHEME}{answers_key(submission.project_id, answers.sha256)}"
    with names_are_input():
        spec = resolve_import(submission.catalogue, answers, body, storage_path=path, plugins=submission.plugins)
    return PinnedRun(name=body.name or f"{spec.target.served_name}, imported", spec=spec, origins=None)


def pin_rescoring(submission: Submission[RunRescore], parent: RunView) -> PinnedRun:
    """Resolve a run that re-scores the answers of `parent`.

    Raises:
        InvalidInput: a metric or an extractor is not available.
    """
    body = submission.body
    spec = resolve_rescoring(submission.catalogue, parent.pinned_spec(), body, plugins=submission.plugins)
    chosen = {name for name in body.model_fields_set if getattr(body, name) is not None}
    origins = {path: SUBMISSION if path.partition(".")[0] in chosen else at for path, at in _origins(parent).items()}
    return PinnedRun(name=body.name or f"{parent.name}, re-scored", spec=spec, origins=origins or None)


def pin_rerun(submission: Submission[RunRerun], parent: RunView) -> PinnedRun:
    """Resolve a run that repeats `parent` and reuses what has not changed.

    Raises:
        InvalidInput: names are unknown, or the backend is no longer installed.
    """
    body, spec = submission.body, parent.pinned_spec()
    origins: Mapping[str, str] | None = _origins(parent) or None
    name = body.name or f"{parent.name}, again"
    if body.run is not None:
        pinned = _pin_entry(submission, body.run, name)
        spec, origins = pinned.spec, pinned.origins
    else:
        for target in targets_of([spec.model_copy(update={"metrics": ()})]):
            _check_adapter(submission, target)
    with names_are_input():  # report a missing extractor now instead of at scoring
        for extractor in spec.extractors:
            open_extractor(extractor)
    unforced = "cache" if spec.reuse == "cache" else "equal"
    forced = {"index": "nothing", "inference": "nothing", "evaluation": "answers"}
    reuse = forced.get(body.force or "", unforced)
    return PinnedRun(name=name, spec=spec.model_copy(update={"reuse": reuse}), origins=origins)


def pin_session(submission: Submission[SessionCreate], *, images: int) -> PinnedRun:
    """Resolve a question with so many images to a pipeline.

    Raises:
        InvalidInput: the pipeline is unknown, or cannot be asked that; lists all errors.
    """
    body = submission.body
    path = f"{STORAGE_SCHEME}{answers_key(submission.project_id, body.question)}"
    with names_are_input():
        spec = resolve_session(
            submission.catalogue,
            body.pipeline,
            body.question,
            storage_path=path,
            plugins=submission.plugins,
            images=images,
        )
    return PinnedRun(name=body.name or f"{body.pipeline}, asked", spec=spec, origins=None)


def pin_session_rerun(submission: Submission[SessionRerun], parent: RunView) -> PinnedRun:
    """Resolve a session that asks a stage of `parent` again.

    Raises:
        InvalidInput: the parent is no session, or its pipeline has no such stage.
    """
    body, spec = submission.body, parent.pinned_spec()
    if not spec.is_session or not isinstance(spec.target, PipelineTarget):
        raise InvalidInput(f"The run {parent.id} is no session.", cure="Rerun it as a run.", code="no_session")
    stages = [stage.id for stage in spec.target.stages]
    if body.stage not in stages:
        message = f"The pipeline {spec.target.pipeline} has no stage {body.stage!r}."
        raise InvalidInput(message, cure=did_you_mean(body.stage, stages), code="no_stage")
    asked = tuple(stage for stage in stages if stage == body.stage or stage.startswith(f"{body.stage}/"))
    again = spec.model_copy(update={"asks_again": asked, "reuse": "equal"})
    return PinnedRun(name=body.name or f"{parent.name}, {body.stage} again", spec=again, origins=None)


def pin_experiment(submission: Submission[ExperimentCreate]) -> tuple[str, list[PinnedRun]]:
    """Return the name of a new experiment, and its resolved runs.

    Raises:
        InvalidInput: names are unknown or incompatible; lists all errors.
    """
    catalogue, body = submission.catalogue, submission.body
    wanted = body.experiment
    with names_are_input():
        entry = catalogue.look_up(catalogue.experiments, "experiments", wanted) if isinstance(wanted, str) else wanted
        specs = resolve_experiment(catalogue, entry, plugins=submission.plugins)
    registered = wanted if isinstance(wanted, str) else None
    origins = origins_of_experiment(catalogue, entry, [spec for _, spec in specs], registered, body.origins)
    return _name(body.name, wanted), [
        PinnedRun(name=name, spec=spec, origins=of_run) for (name, spec), of_run in zip(specs, origins, strict=True)
    ]


def warnings_of(
    submission: Submission[RunCreate] | Submission[ExperimentCreate], specs: Iterable[RunSpec]
) -> list[str]:
    """Return a warning for each task of the entry that has another dataset than its own, and each model left out."""
    body = submission.body
    kind, wanted = ("runs", body.run) if isinstance(body, RunCreate) else ("experiments", body.experiment)
    entry = submission.catalogue.of(kind).get(wanted) if isinstance(wanted, str) else wanted
    replaced = replaced_data(submission.catalogue, entry) if isinstance(entry, RunEntry | ExperimentEntry) else []
    return [*replaced, *dict.fromkeys(warning for spec in specs for warning in left_out(spec))]


@contextmanager
def names_are_input() -> Iterator[None]:
    """Turn `NotFound` for a name in a body into `InvalidInput`: the body is wrong (422), the URL exists (no 404)."""
    try:
        yield
    except NotFound as error:
        raise InvalidInput(error.message, cure=error.cure, code="unknown_name") from error


def _pin_entry(
    submission: Submission[RunCreate] | Submission[RunRerun], wanted: str | RunEntry, name: str
) -> PinnedRun:
    catalogue = submission.catalogue
    with names_are_input():
        entry = catalogue.look_up(catalogue.runs, "runs", wanted) if isinstance(wanted, str) else wanted
        spec = resolve_run(catalogue, entry, plugins=submission.plugins)
    written = (
        written_in_entry(catalogue, "runs", wanted)
        if isinstance(wanted, str)
        else written_in_submission(entry, submission.body.origins)
    )
    return PinnedRun(name=name, spec=spec, origins=origins_of(catalogue, spec, written))


def _check_adapter(submission: Submission[RunRerun], target: Target) -> None:
    if not isinstance(target, ModelTarget | EndpointTarget) or target.brings_its_adapter:
        return
    problem = submission.plugins.problem_with("backends", target.backend_class)
    if problem is not None:
        raise InvalidInput(f"The run cannot be asked again: {problem[0]}", cure=problem[1])


def _origins(parent: RunView) -> dict[str, str]:
    return {path: str(origin) for path, origin in (parent.origins or {}).items()}


def _name(given: str | None, wanted: str | RunEntry | ExperimentEntry) -> str:
    return given or (wanted if isinstance(wanted, str) else wanted.name) or "unnamed"
