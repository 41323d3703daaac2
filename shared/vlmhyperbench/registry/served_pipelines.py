"""Pin a pipeline that is served: its requests come from clients, so that it states only what differs from theirs."""

from __future__ import annotations

from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import PipelineChoice
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.pipeline_targets import AskingDefaults, PinnedPipeline, pin_pipeline
from vlmhyperbench.registry.plugins import Plugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.validation import validate


def pin_served(catalogue: Catalogue, plugins: Plugins, name: str, *, allow_lossy: bool = False) -> PinnedPipeline:
    """Return a registered pipeline, pinned; `allow_lossy`: with smaller quantisations that may stand for its models.

    Raises:
        RegistryErrors: it cannot be used; lists every error.
    """
    choice, problems = validate(PipelineChoice, {"pipeline": name})
    references = References(catalogue=catalogue, plugins=plugins)
    pinned = None
    if choice is not None:
        pinned = pin_pipeline(references, choice.pipeline, None, AskingDefaults(allow_lossy=allow_lossy), ("pipeline",))
    if pinned is None or references.problems:
        raise RegistryErrors.of((*problems, *references.problems))
    return pinned
