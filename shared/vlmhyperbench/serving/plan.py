"""What the process that serves a pipeline is given: the pinned pipeline, and where each of its models is asked."""

from __future__ import annotations

from typing import Final

from pydantic import Field, JsonValue

from vlmhyperbench.domain.base import Spec
from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.pipelines import AskedModel, PipelineTarget

KEY_VARIABLE: Final = "VLMHB_MEMBERS_KEY"
"""Environment variable with the key that the gateways of the models take."""
FILE: Final = "pipeline"
"""Role of the plan's file in the request that loads it."""


class ServedModel(Spec):
    """A model that answers or merges in a stage."""

    stage: str
    merges: bool = False
    name: str
    url: str
    """Its gateway, without `/v1`."""
    load: dict[str, JsonValue] | None = None
    """How its gateway loads it, where models are loaded one after the other; None: it stays loaded."""
    held_bytes: int = 0
    """Memory of accelerators that it is estimated to hold; 0: what its engine is seen to hold of the machine's."""
    own: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters that the pipeline states, which replace those of a request."""

    def decoding(self, asked: Decoding) -> Decoding:
        """Return the sampling parameters of its requests, where a client asks for these."""
        own = Decoding.model_validate(self.own)
        return asked.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


class ServingPlan(Spec):
    """A pipeline and where its models are asked; an optional model that could not be loaded is not among them."""

    target: PipelineTarget
    models: tuple[ServedModel, ...]
    fallbacks: tuple[dict[str, JsonValue], ...] = ()
    """What was given up so that the models fit: model (null: of the pipeline), rung, before, after, is_lossy."""

    def model(self, asked: AskedModel) -> ServedModel | None:
        """Return where a model is asked; None: it could not be loaded."""
        wanted = asked.stage.id, asked.role != "member", asked.model.name
        return next((model for model in self.models if (model.stage, model.merges, model.name) == wanted), None)
