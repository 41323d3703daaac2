"""Make the answers of a pipeline's stages of those of its models, and what its models are asked. Pure but for plugins.

Everything follows from the stored rows of the models: a stage's answer is computed wherever it is needed, and an
aggregation can be replayed with no model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from vlmhyperbench.domain.pipelines import AggregationSpec, AskedModel, Key, MemberSpec, PipelineTarget, StageSpec
from vlmhyperbench.domain.response_formats import format_of_sample
from vlmhyperbench.scoring.reasoning import without_reasoning
from vlmhyperbench.sources import require_source
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.aggregation import Aggregated, AggregationContext, MemberAnswer
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import Aggregation
from vlmhyperbench_sdk.types import JsonObject, Prompt

Failure = Literal["model", "infrastructure"]
NO_ANSWER_OF = "The stage {stage} has no answer: {reason}."
NOTHING_TO_MERGE = "There is nothing to merge."
NO_REPAIR = "No repair is needed."


class MergeRequest(Protocol):
    """What a model that merges is asked."""

    @property
    def prompt(self) -> Prompt: ...


@runtime_checkable
class Merging(Protocol):
    """An aggregation that asks a model to merge; both halves are pure, and who has the model asks it between them."""

    def ask(self, members: Sequence[MemberAnswer], context: AggregationContext) -> MergeRequest | Aggregated: ...

    def problem_with(self, reply: str, context: AggregationContext) -> str | None: ...

    def repair(self, request: Any, reply: str, problem: str) -> Prompt: ...

    def conclude(
        self,
        request: Any,
        replies: Sequence[str],
        members: Sequence[MemberAnswer],
        context: AggregationContext,
    ) -> Aggregated: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one model answered to one request: a text, or the reason why there is none."""

    text: str | None = None
    error: str | None = None
    failure: Failure = "infrastructure"
    """Whose failure it is if there is no text."""
    latency_ns: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One sample, as the models of a pipeline have answered it so far."""

    question: str
    """What the first stage was asked."""
    replies: Mapping[Key, Reply]
    """A model whose step failed is not in it."""
    key: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAnswer:
    """What a stage came to."""

    value: str | None
    reason: str = ""
    """Why there is no value."""
    failure: Failure = "model"
    """Whose failure it is if there is no value."""
    status: str = "ok"
    aggregated: Aggregated | None = None
    """None: the stage has one model, and aggregates nothing."""


class Combiner:
    """Computes the answers of a pipeline's stages for one sample after another."""

    def __init__(self, pipeline: PipelineTarget) -> None:
        """Open the aggregations of a pipeline.

        Raises:
            NotFound, InvalidInput, Conflict, PluginFailure: an aggregation is not installed as it is pinned, or
                refuses its params.
        """
        self._pipeline = pipeline
        self._aggregations = {
            stage.id: _open(stage.id, stage.aggregation) for stage in pipeline.stages if stage.aggregation is not None
        }

    def prompt_of(self, asked: AskedModel, sample: Asked) -> Prompt | str:
        """Return what a model after the first stage is asked about a sample; a text says why it is not asked."""
        stage = asked.stage
        answers = self.answers(sample, until=stage.id)
        if asked.role == "member":
            return self._forwarded(stage, sample, answers)
        members, context = _members(stage, sample), self._context(stage, sample, answers)
        aggregation = self._aggregations[stage.id]
        if not isinstance(aggregation, Merging):
            rendered = aggregation.aggregate(members, context)
            return NOTHING_TO_MERGE if rendered.value is None else Prompt(user=rendered.value)
        request = aggregation.ask(members, context)
        if isinstance(request, Aggregated):
            return NOTHING_TO_MERGE
        if asked.role == "merge":
            return request.prompt
        reply = _text_of(sample, (stage.id, "merge", asked.model.name))
        problem = None if reply is None else aggregation.problem_with(reply, context)
        return NO_REPAIR if reply is None or problem is None else aggregation.repair(request, reply, problem)

    def answers(self, sample: Asked, *, until: str | None = None) -> dict[str, StageAnswer]:
        """Return the answers of the stages, in their order, or of those before the stage `until`."""
        answers: dict[str, StageAnswer] = {}
        for stage in self._pipeline.stages:
            if stage.id == until:
                break
            answers[stage.id] = self._answer(stage, sample, answers)
        return answers

    def _answer(self, stage: StageSpec, sample: Asked, earlier: Mapping[str, StageAnswer]) -> StageAnswer:
        if stage.aggregation is None:
            return _single(stage, sample)
        members, context = _members(stage, sample), self._context(stage, sample, earlier)
        aggregation, merger = self._aggregations[stage.id], stage.aggregation.merger
        if isinstance(aggregation, Merging) and merger is not None:
            aggregated = _merged(aggregation, stage, merger, sample, members, context)
        elif isinstance(aggregation, Merging):
            raise LookupError(f"The stage {stage.id} has no model that merges.")
        else:
            aggregated = aggregation.aggregate(members, context)
            if merger is not None and aggregated.value is not None:
                reply = sample.replies.get((stage.id, "merge", merger.name), Reply(error="was not asked"))
                return _of_reply(reply, aggregated)
        if aggregated.value is not None:
            return StageAnswer(value=aggregated.value, aggregated=aggregated)
        replies = [sample.replies.get((stage.id, "member", member.name)) for member in stage.members]
        is_ours = all(reply is None or (reply.text is None and reply.failure == "infrastructure") for reply in replies)
        return StageAnswer(
            value=None,
            reason=f"the aggregation ended with {aggregated.status}",
            failure="infrastructure" if is_ours else "model",
            status=aggregated.status,
            aggregated=aggregated,
        )

    def _forwarded(self, stage: StageSpec, sample: Asked, answers: Mapping[str, StageAnswer]) -> Prompt | str:
        parts: list[str] = []
        for source in stage.inputs:
            answer = answers[source]
            if answer.value is None:
                return NO_ANSWER_OF.format(stage=source, reason=answer.reason)
            text = without_reasoning(answer.value)
            is_whole = self._pipeline.stage(source).output_mode == "question_and_answer"
            parts.append(f"Question:\n{sample.question}\n\nAnswer:\n{text}" if is_whole else text)
        return shaped(stage, Prompt(user="\n\n".join(parts)))

    def _context(self, stage: StageSpec, sample: Asked, earlier: Mapping[str, StageAnswer]) -> AggregationContext:
        steps = {stage_id: answer.value for stage_id, answer in earlier.items() if answer.value is not None}
        return AggregationContext(question=sample.question, steps=steps, schema=_schema(stage, sample))


def shaped(stage: StageSpec, prompt: Prompt) -> Prompt:
    """Return a prompt with the instructions and the system prompt of a stage, where it has them."""
    user = prompt.user if stage.instructions is None else f"{stage.instructions}\n\n{prompt.user}"
    return Prompt(user=user, system=prompt.system if stage.system_prompt is None else stage.system_prompt)


def _open(stage_id: str, spec: AggregationSpec) -> Aggregation | Merging:
    require_source(spec.package, f"aggregation {spec.class_path!r}")
    opened = discovery.construct("aggregations", spec.class_path, spec.params, called=spec.class_path)
    if isinstance(opened, Merging | Aggregation):
        return opened
    message = f"The plugin {spec.class_path!r} of the stage {stage_id} is no aggregation."
    raise PluginFailure(message, cure="Give it a method aggregate, as vlmhyperbench_sdk.protocols.Aggregation has it.")


def _members(stage: StageSpec, sample: Asked) -> list[MemberAnswer]:
    """Return the answers of a stage's members in their order, without those whose step failed."""
    return [
        MemberAnswer(
            name=member.name,
            text=None if reply.text is None else without_reasoning(reply.text),
            error=(reply.error or "no answer") if reply.text is None else None,
            weight=member.weight,
        )
        for member in stage.members
        if (reply := sample.replies.get((stage.id, "member", member.name))) is not None
    ]


def _single(stage: StageSpec, sample: Asked) -> StageAnswer:
    reply = sample.replies.get((stage.id, "member", stage.members[0].name), Reply(error="was not asked"))
    return _of_reply(reply)


def _of_reply(reply: Reply, aggregated: Aggregated | None = None) -> StageAnswer:
    if reply.text is not None:
        return StageAnswer(value=reply.text, aggregated=aggregated)
    reason = reply.error or "no answer"
    return StageAnswer(value=None, reason=reason, failure=reply.failure, status="failed", aggregated=aggregated)


def _merged(
    aggregation: Merging,
    stage: StageSpec,
    merger: MemberSpec,
    sample: Asked,
    members: Sequence[MemberAnswer],
    context: AggregationContext,
) -> Aggregated:
    request = aggregation.ask(members, context)
    if isinstance(request, Aggregated):
        return request
    texts = [_text_of(sample, (stage.id, role, merger.name)) for role in ("merge", "repair")]
    replies = [without_reasoning(text) for text in texts if text is not None]
    return aggregation.conclude(request, replies, members, context)


def _text_of(sample: Asked, key: Key) -> str | None:
    reply = sample.replies.get(key)
    return None if reply is None else reply.text


def _schema(stage: StageSpec, sample: Asked) -> JsonObject | None:
    wanted = format_of_sample(stage.response_format, dict(sample.metadata), key=sample.key)
    wrapper = wanted.get("json_schema") if wanted is not None else None
    schema = wrapper.get("schema") if isinstance(wrapper, dict) else None
    read: JsonValue = json.loads(schema) if isinstance(schema, str) else schema
    return read if isinstance(read, dict) else None
