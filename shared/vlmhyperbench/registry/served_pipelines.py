"""Pin a pipeline that is served: its requests come from clients, so that it states only what differs from theirs."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.pipelines import Key, PipelineTarget
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import PipelineChoice
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.pins import merge_decoding
from vlmhyperbench.registry.pipeline_targets import Asking, pin_target
from vlmhyperbench.registry.pipelines import MemberChoice, PipelineFields, PipelineStage
from vlmhyperbench.registry.plugins import Plugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.validation import validate


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPipeline:
    """A pipeline, and the sampling parameters that its entry states for each model."""

    target: PipelineTarget
    own: dict[Key, Decoding]
    """Only the fields that are set replace those of a request."""


def pin_served(catalogue: Catalogue, plugins: Plugins, name: str) -> PinnedPipeline:
    """Return a registered pipeline, pinned.

    Raises:
        RegistryErrors: it cannot be used; lists every error.
    """
    choice, problems = validate(PipelineChoice, {"pipeline": name})
    references = References(catalogue=catalogue, plugins=plugins)
    target = pin_target(references, choice, None, Asking(), ()) if choice is not None else None
    if not isinstance(target, PipelineTarget) or references.problems:
        raise RegistryErrors.of((*problems, *references.problems))
    return PinnedPipeline(target=target, own=_own(catalogue.pipelines[name], target))


def _own(entry: PipelineFields, target: PipelineTarget) -> dict[Key, Decoding]:
    own: dict[Key, Decoding] = {}
    for written, stage in zip(entry.stages, target.stages, strict=True):
        dropped = {each.name for each in stage.dropped}
        kept = [choice for choice in written.members if not (choice.optional and choice.name in dropped)]
        for choice, member in zip(kept, stage.members, strict=True):
            own[stage.id, "member", member.name] = _generation(written, choice)
        if written.merger is not None and stage.aggregation is not None and stage.aggregation.merger is not None:
            own[stage.id, "merge", stage.aggregation.merger.name] = _generation(written, written.merger)
    return own


def _generation(stage: PipelineStage, choice: MemberChoice) -> Decoding:
    return merge_decoding(stage.generation or Decoding(), choice.generation)
