"""Resolve a question to a pipeline into a pinned spec: a run of one sample, which is no benchmark."""

from __future__ import annotations

from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models, is_dispensable, refusal_of_images
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import ANSWERS_DATASET, DatasetSpec, PromptSpec, RunSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import PipelineChoice
from vlmhyperbench.registry.pins import errors_of
from vlmhyperbench.registry.pipeline_targets import AskingDefaults, pin_target
from vlmhyperbench.registry.plugins import Plugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import Entry

TASK = "session"
"""Task of every session; no entry of the registry needs to have it, and it has no metric."""


def resolve_session(
    catalogue: Catalogue, pipeline: str, sha256: str, *, storage_path: str, plugins: Plugins, images: int = 0
) -> RunSpec:
    """Return the pinned spec of a session.

    Args:
        catalogue: The entries.
        pipeline: Name of the pipeline that is asked.
        sha256: Hash of the stored file with the question.
        storage_path: Location of that file in the form of `DatasetSpec.path`.
        plugins: The plugins in which names are looked up.
        images: Number of images that the question has.

    Raises:
        RegistryErrors: the pipeline is unknown, or one of its models cannot be asked, about images if there are some;
            lists every error.
    """
    references = References(catalogue=catalogue, plugins=plugins)
    target = pin_target(references, PipelineChoice(pipeline=pipeline), None, AskingDefaults(), ())
    if images and isinstance(target, PipelineTarget):
        _require_sight(references, target)
    if target is None or references.problems:
        raise errors_of(references, "runs", Entry())
    return RunSpec(
        target=target,
        task=TASK,
        task_version="1.0.0",
        dataset=DatasetSpec(
            name=f"question {sha256[:12]}", version=sha256[:12], type=ANSWERS_DATASET, path=storage_path
        ),
        prompt=PromptSpec(name="as-asked", version="1.0.0"),
        metrics=(),
        reports=(),
        scenario=ScenarioSpec(name=TASK, warmup_requests=0, in_flight=1),
        is_session=True,
        unpriced="it is a session",
    )


def _require_sight(references: References, pipeline: PipelineTarget) -> None:
    """Report every model that is asked about images and reads none, unless the pipeline answers without it."""
    for asked in asked_models(pipeline):
        refusal = refusal_of_images(asked)
        if refusal is not None and not is_dispensable(pipeline, asked):
            references.say((), f"stage {asked.stage.id}: {refusal[0]}", refusal[1])
