"""Ask a pipeline's models about one question, stage by stage: the members of a stage at once, then what merges.

What they are asked and what their answers come to is computed by `scoring.combining`, as in a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from vlmhyperbench.domain.pipelines import (
    ROLES,
    AskedModel,
    Key,
    PipelineTarget,
    Role,
    StageSpec,
    asked_models,
    is_dispensable,
)
from vlmhyperbench.scoring.combining import Asked, Combiner, Reply, StageAnswer, shaped
from vlmhyperbench.scoring.reasoning import marks_of, strips_reasoning
from vlmhyperbench.serving.drafts import Draft
from vlmhyperbench_sdk.errors import Unavailable, VlmHyperBenchError
from vlmhyperbench_sdk.types import Prompt

Tell = Callable[[str], Awaitable[None]]
"""Is told the next piece of the final answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a model has answered."""

    reply: Reply
    is_lost: bool = False
    """Whether its engine or its gateway has ended, or cannot be started."""


class ModelLost(Unavailable):
    """A model that the pipeline cannot do without has ended; it is loaded again, and the request may be repeated."""

    code = "pipeline_model_lost"


Ask = Callable[[AskedModel, Prompt, Tell], Awaitable[Told]]
"""Asks one model, and tells the pieces of its answer as they arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a pipeline came to."""

    last: StageAnswer
    stages: Mapping[str, StageAnswer]
    sample: Asked
    finish_reason: str
    is_kept: bool
    """Whether all that was told before the end is the beginning of the answer."""
    lost: Sequence[str] = ()
    """Models whose engines have ended, as `stage/name`."""


async def tell_nobody(_: str) -> None:
    """Drop a piece: the answer of a member is no part of the pipeline's."""


class PipelineQuestion:
    """One question on its way through a pipeline."""

    def __init__(
        self,
        pipeline: PipelineTarget,
        combiner: Combiner,
        *,
        asked: Collection[Key],
        ask: Ask,
        tell: Tell | None,
    ) -> None:
        """Begin.

        Args:
            pipeline: The pipeline, in the formats that the request asks for.
            combiner: What computes its prompts and answers.
            asked: The models that can be asked.
            ask: Asks one of them.
            tell: Is told the answer as it is made; None: it is returned when it is whole.
        """
        self._pipeline, self._combiner, self._ask, self._tell = pipeline, combiner, ask, tell
        self._asked = [model for model in asked_models(pipeline) if model.key in asked]
        self._replies: dict[Key, Reply] = {}
        self._sent = ""
        self._lost: list[str] = []
        self._failure: VlmHyperBenchError | None = None
        """Of an aggregation, or the loss of a model; nothing more is asked after it."""

    async def answer(self, prompt: Prompt) -> Answer:
        """Return the pipeline's answer, all of which has been told if there is one.

        Raises:
            PluginFailure: an aggregation broke its contract.
            ModelLost: a model that is not optional has ended.
        """
        sample = Asked(question=shaped(self._pipeline.stages[0], prompt).user, replies=self._replies)
        answered = {stage.id: asyncio.Event() for stage in self._pipeline.stages}
        async with asyncio.TaskGroup() as group:
            for stage in self._pipeline.stages:
                group.create_task(self._ask_stage(stage, sample, prompt, answered))
        if self._failure is not None:
            raise self._failure
        answers = self._combiner.answers(sample)
        last = answers[self._pipeline.stages[-1].id]
        is_kept = last.value is not None and last.value.startswith(self._sent)
        if self._tell is not None and last.value is not None and is_kept and len(last.value) > len(self._sent):
            await self._tell(last.value[len(self._sent) :])
        return Answer(
            last=last,
            stages=answers,
            sample=sample,
            finish_reason=last.finish_reason or "stop",  # a client takes an answer without one for cut off
            is_kept=is_kept,
            lost=tuple(self._lost),
        )

    async def _ask_stage(
        self, stage: StageSpec, sample: Asked, question: Prompt, answered: Mapping[str, asyncio.Event]
    ) -> None:
        """Ask a stage's members once its inputs have answered, and what merges once the pipelines in it have."""
        try:
            for source in stage.inputs:
                await answered[source].wait()
            await self._ask_all(stage, "member", sample, question)
            for inner in stage.inner:
                await answered[inner.stage].wait()
            for role in ROLES[1:]:
                await self._ask_all(stage, role, sample, question)
        except VlmHyperBenchError as error:
            self._failure = self._failure or error
        answered[stage.id].set()

    async def _ask_all(self, stage: StageSpec, role: Role, sample: Asked, question: Prompt) -> None:
        models = [model for model in self._asked if model.stage.id == stage.id and model.role == role]
        if not models or self._failure is not None:
            return
        is_first = role == "member" and not stage.inputs
        prompt = shaped(stage, question) if is_first else self._combiner.prompt_of(models[0], sample)  # of each of them
        if isinstance(prompt, str):
            self._replies.update({model.key: Reply(error=prompt, failure="model", was_asked=False) for model in models})
            return
        told = self._tell if self._is_told(models[0]) else None
        tell = tell_nobody if told is None else self._teller(stage, told)
        async with asyncio.TaskGroup() as group:
            tasks = {model.key: group.create_task(self._one(model, prompt, tell)) for model in models}
            asking = set(tasks.values())
            while asking and self._failure is None:
                _, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            for task in asking:
                task.cancel()
        if self._failure is not None:
            return
        self._replies.update({key: task.result().reply for key, task in tasks.items()})

    async def _one(self, model: AskedModel, prompt: Prompt, tell: Tell) -> Told:
        told = await self._ask(model, prompt, tell)
        if told.is_lost:
            self._lost.append(model.label)
            if not is_dispensable(self._pipeline, model):
                message = f"The model {model.label} of the pipeline is lost: {told.reply.error}"
                cure = "It is loaded again; repeat the request in a moment."
                self._failure = self._failure or ModelLost(message, cure=cure)
        return told

    def _is_told(self, model: AskedModel) -> bool:
        """Whether what a model says is the pipeline's answer while it says it.

        A merged answer that must be valid under a schema may have to be repaired, and what is reasoning is known at its
        end: both are sent when they are whole. Of a synthesis only its own marks matter, since `Draft` knows the tags.
        """
        stage, merging = model.stage, model.stage.aggregation
        if stage.id != self._pipeline.stages[-1].id or model.role != ("member" if merging is None else "merge"):
            return False
        if merging is not None and merging.is_repaired:
            return stage.response_format is None and not marks_of(model.model)
        return not strips_reasoning(model.model)

    def _teller(self, stage: StageSpec, told: Tell) -> Tell:
        draft = Draft() if stage.aggregation is not None and stage.aggregation.is_repaired else None

        async def tell(piece: str) -> None:
            piece = piece if draft is None else draft.take(piece)
            if piece:
                self._sent += piece
                await told(piece)

        return tell
