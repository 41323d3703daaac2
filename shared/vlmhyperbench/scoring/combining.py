"""Make the answers of a pipeline's stages of those of its models, and what its models are asked. Pure but for plugins.

Everything follows from the stored rows of the models: a stage's answer is computed wherever it is needed, and an
aggregation can be replayed with no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from vlmhyperbench.domain.pipelines import (
    AggregationSpec,
    AskedModel,
    InnerMember,
    Key,
    MemberSpec,
    PipelineTarget,
    StageSpec,
    models_within,
    needed_stages,
)
from vlmhyperbench.domain.request_styles import ReasoningMarks
from vlmhyperbench.domain.response_formats import format_of_sample
from vlmhyperbench.scoring.reasoning import marks_of, strips_reasoning, without_reasoning
from vlmhyperbench.sources import require_source
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.aggregation import Aggregated, AggregationContext, MemberAnswer
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import Aggregation
from vlmhyperbench_sdk.types import JsonObject, Prompt

Failure = Literal["model", "infrastructure"]
_MAX_REASON_CHARS: Final = 1000
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
    was_asked: bool = True
    """Whether a request was sent; without an answer, its time may be unknown."""
    latency_ns: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None


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
    finish_reason: str | None = None
    """Why the model ended whose words the value is; None: they are of several, or it did not say."""


class Combiner:
    """Computes the answers of a pipeline's stages for one sample after another."""

    def __init__(self, pipeline: PipelineTarget) -> None:
        """Open the aggregations of a pipeline.

        Raises:
            NotFound, InvalidInput, Conflict, PluginFailure: an aggregation is not installed as it is pinned, or
                refuses its params.
        """
        self._pipeline = pipeline
        self._first_of = {stage.within: stage for stage in reversed(pipeline.stages)}
        """Path of a pipeline within this one → its first stage; None: the first one of this pipeline."""
        self._siblings: dict[str | None, dict[str, str]] = {}
        """Path of a pipeline within this one → ids of its stages, as it has them and as this one has them."""
        for stage in pipeline.stages:
            own_id = stage.id if stage.within is None else stage.id.removeprefix(f"{stage.within}/")
            self._siblings.setdefault(stage.within, {})[own_id] = stage.id
        self._needed_by = {
            path: frozenset(asked.key for asked in models_within(pipeline, path))
            for stage in pipeline.stages
            for path in map(stage.path_of, stage.inner)
        }
        nobody = Asked(question="", replies={})
        self._schemas = {stage.id: _schema(stage, nobody) for stage in pipeline.stages if not _has_own_schemas(stage)}
        """Stage → schema of its answers, where all samples have the same."""
        opened = {
            stage.id: _open(stage.id, stage.aggregation) for stage in pipeline.stages if stage.aggregation is not None
        }
        # Told apart here, because isinstance of a protocol takes longer than many an aggregation.
        self._merging = {stage_id: merging for stage_id, merging in opened.items() if isinstance(merging, Merging)}
        self._plain = {stage_id: plain for stage_id, plain in opened.items() if not isinstance(plain, Merging)}

    def prompt_of(self, asked: AskedModel, sample: Asked) -> Prompt | str:
        """Return what a model after the first stage is asked about a sample; a text says why it is not asked."""
        stage = asked.stage
        answers = self._answers(sample, self._sources(asked))
        if asked.role == "member":
            return self._forwarded(stage, sample, answers)
        members, context = self._members(stage, sample, answers), self._context(stage, sample, answers)
        if stage.id in self._plain:
            rendered = self._plain[stage.id].aggregate(members, context)
            return NOTHING_TO_MERGE if rendered.value is None else Prompt(user=rendered.value)
        aggregation = self._merging[stage.id]
        request = aggregation.ask(members, context)
        if isinstance(request, Aggregated):
            return NOTHING_TO_MERGE
        if asked.role == "merge":
            return request.prompt
        merge = sample.replies.get((stage.id, "merge", asked.model.name), Reply())
        reply = None if merge.text is None else without_reasoning(merge.text, marks_of(asked.model))
        problem = None if reply is None else aggregation.problem_with(reply, context)
        return NO_REPAIR if reply is None or problem is None else aggregation.repair(request, reply, problem)

    def answers(self, sample: Asked) -> dict[str, StageAnswer]:
        """Return the answers of the stages, in their order."""
        return self._answers(sample, self._pipeline.stages)

    def _answers(self, sample: Asked, stages: Sequence[StageSpec]) -> dict[str, StageAnswer]:
        answers: dict[str, StageAnswer] = {}
        for stage in stages:
            answers[stage.id] = self._answer(stage, sample, answers)
        return answers

    def _sources(self, asked: AskedModel) -> list[StageSpec]:
        """Return the stages of whose answers the prompt of a model is made, in their order."""
        wanted = needed_stages(self._pipeline, asked.stage, with_inner=asked.role != "member")
        return [stage for stage in self._pipeline.stages if stage.id in wanted]

    def question(self, stage: StageSpec, sample: Asked, answers: Mapping[str, StageAnswer]) -> str:
        """Return what the pipeline that a stage is a part of was asked: the text of its first stage."""
        first = self._first_of[stage.within]
        if first is self._pipeline.stages[0]:
            return sample.question
        if first.inputs:
            forwarded = self._forwarded(first, sample, answers)
            return forwarded.user if isinstance(forwarded, Prompt) else ""
        asked = unshaped(self._pipeline.stages[0], sample.question)
        return shaped(first, Prompt(user=asked)).user

    def _answer(self, stage: StageSpec, sample: Asked, earlier: Mapping[str, StageAnswer]) -> StageAnswer:
        if stage.aggregation is None:
            return self._single(stage, sample, earlier)
        members, context = self._members(stage, sample, earlier), self._context(stage, sample, earlier)
        merger, merging = stage.aggregation.merger, self._merging.get(stage.id)
        if merging is not None and merger is not None:
            merged = _merged(merging, stage, merger, sample, members, context)
            if isinstance(merged, StageAnswer):
                return merged
            aggregated = merged
        elif merging is not None:
            raise LookupError(f"The stage {stage.id} has no model that merges.")
        else:
            aggregated = self._plain[stage.id].aggregate(members, context)
            if merger is not None and aggregated.value is not None:
                reply = sample.replies.get(
                    (stage.id, "merge", merger.name), Reply(error="was not asked", was_asked=False)
                )
                return _of_reply(_own(merger, reply), aggregated)
        if aggregated.value is not None:
            return StageAnswer(value=aggregated.value, aggregated=aggregated)
        given = self.given(stage, sample, earlier).values()
        # Whom the platform could not ask might have made the quorum, or broken the tie.
        is_ours = not given or any(answer.value is None and answer.failure == "infrastructure" for answer in given)
        return StageAnswer(
            value=None,
            reason=_why(aggregated),
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
            asked = self._pipeline.stage(source)
            text = without_reasoning(answer.value, self._marks_of(asked))
            is_whole = asked.output_mode == "question_and_answer"
            question = self.question(asked, sample, answers) if is_whole else ""
            parts.append(f"Question:\n{question}\n\nAnswer:\n{text}" if is_whole else text)
        return shaped(stage, Prompt(user="\n\n".join(parts)))

    def _context(self, stage: StageSpec, sample: Asked, earlier: Mapping[str, StageAnswer]) -> AggregationContext:
        steps = {
            stage_id: value
            for stage_id, full_id in self._siblings[stage.within].items()
            if full_id in earlier and (value := earlier[full_id].value) is not None
        }
        question = self.question(stage, sample, earlier)
        schema = self._schemas[stage.id] if stage.id in self._schemas else _schema(stage, sample)
        return AggregationContext(question=question, steps=steps, schema=schema)

    def _members(self, stage: StageSpec, sample: Asked, answers: Mapping[str, StageAnswer]) -> list[MemberAnswer]:
        """Return the answers of a stage's members in their order, without those whose step failed."""
        weights = {member.name: member.weight for member in stage.answering}
        return [
            MemberAnswer(
                name=name,
                text=answer.value,
                error=(answer.reason or "no answer") if answer.value is None else None,
                weight=weights[name],
            )
            for name, answer in self.given(stage, sample, answers).items()
        ]

    def _single(self, stage: StageSpec, sample: Asked, answers: Mapping[str, StageAnswer]) -> StageAnswer:
        answer = self._given(stage, stage.answering[0], sample, answers)
        return (
            _of_reply(Reply(error="was not asked", was_asked=False))
            if answer is None
            else replace(answer, aggregated=None)
        )

    def given(self, stage: StageSpec, sample: Asked, answers: Mapping[str, StageAnswer]) -> dict[str, StageAnswer]:
        """Return what its members answered, as a stage combines it: without reasoning, and without failed steps."""
        given: dict[str, StageAnswer] = {}
        for member in stage.answering:
            answer = self._given(stage, member, sample, answers)
            if answer is not None:
                text = None if answer.value is None else without_reasoning(answer.value, self._marks(member))
                given[member.name] = answer if text is answer.value else replace(answer, value=text)
        return given

    def _given(
        self, stage: StageSpec, member: MemberSpec | InnerMember, sample: Asked, answers: Mapping[str, StageAnswer]
    ) -> StageAnswer | None:
        """Return what a member answered; None if its step failed, or that of a model which it needs."""
        if isinstance(member, InnerMember):
            needed = self._needed_by[stage.path_of(member)]
            return answers[member.stage] if needed <= sample.replies.keys() else None
        reply = sample.replies.get((stage.id, "member", member.name))
        if reply is None:
            return None
        answer = _of_reply(_own(member, reply))
        missing = [answers[source] for source in stage.inputs if answers[source].value is None]
        if answer.value is not None or not missing:
            return answer
        # It was not asked; its stored row cannot say whose failure that is, but the stages before it can.
        is_theirs = any(source.failure == "model" for source in missing)
        return replace(answer, failure="model" if is_theirs else "infrastructure")

    def _marks(self, member: MemberSpec | InnerMember) -> tuple[ReasoningMarks, ...]:
        if isinstance(member, InnerMember):
            return self._marks_of(self._pipeline.stage(member.stage))
        return marks_of(member)

    def _marks_of(self, stage: StageSpec) -> tuple[ReasoningMarks, ...]:
        """Return what stands around the reasoning in the answer of a stage, beside the usual tags."""
        if stage.aggregation is None:
            return self._marks(stage.answering[0])
        return () if stage.aggregation.merger is None else marks_of(stage.aggregation.merger)


def shaped(stage: StageSpec, prompt: Prompt) -> Prompt:
    """Return a prompt with the instructions and the system prompt of a stage, where it has them."""
    user = prompt.user if stage.instructions is None else f"{stage.instructions}\n\n{prompt.user}"
    return Prompt(user=user, system=prompt.system if stage.system_prompt is None else stage.system_prompt)


def unshaped(stage: StageSpec, user: str) -> str:
    """Return the text of a prompt without what `shaped` has put before it."""
    return user if stage.instructions is None else user.removeprefix(f"{stage.instructions}\n\n")


def _open(stage_id: str, spec: AggregationSpec) -> Aggregation | Merging:
    require_source(spec.package, f"aggregation {spec.class_path!r}")
    opened = discovery.construct("aggregations", spec.class_path, spec.params, called=spec.class_path)
    if isinstance(opened, Merging | Aggregation):
        return opened
    message = f"The plugin {spec.class_path!r} of the stage {stage_id} is no aggregation."
    raise PluginFailure(message, cure="Give it a method aggregate, as vlmhyperbench_sdk.protocols.Aggregation has it.")


def _own(member: MemberSpec, reply: Reply) -> Reply:
    """Return a reply as the answer of its stage: without reasoning where its model says so."""
    if reply.text is None or not strips_reasoning(member):
        return reply
    return replace(reply, text=without_reasoning(reply.text, marks_of(member)))


def _of_reply(reply: Reply, aggregated: Aggregated | None = None) -> StageAnswer:
    if reply.text is not None:
        return StageAnswer(value=reply.text, aggregated=aggregated, finish_reason=reply.finish_reason)
    reason = reply.error or "no answer"
    return StageAnswer(value=None, reason=reason, failure=reply.failure, status="failed", aggregated=aggregated)


def _merged(
    aggregation: Merging,
    stage: StageSpec,
    merger: MemberSpec,
    sample: Asked,
    members: Sequence[MemberAnswer],
    context: AggregationContext,
) -> Aggregated | StageAnswer:
    """Return what a model that merges comes to: its answer, or that it is missing by no fault of the model.

    Anything else is what the aggregation makes of the members, because the model gave no valid answer.
    """
    request = aggregation.ask(members, context)
    if isinstance(request, Aggregated):
        return request
    merge = sample.replies.get((stage.id, "merge", merger.name), Reply(error="was not asked", was_asked=False))
    texts: list[str] = []
    for reply in (merge, sample.replies.get((stage.id, "repair", merger.name))):
        # A repair that nothing calls for is not answered either.
        if reply is not None and _is_lost(reply) and (texts or reply is merge):
            return _of_reply(reply)
        if reply is None or reply.text is None:
            continue
        texts.append(without_reasoning(reply.text, marks_of(merger)))
        if aggregation.problem_with(texts[-1], context) is None:
            aggregated = aggregation.conclude(request, texts, members, context)
            return StageAnswer(value=aggregated.value, aggregated=aggregated, finish_reason=reply.finish_reason)
    return aggregation.conclude(request, texts, members, context)


def _is_lost(reply: Reply) -> bool:
    """Return whether the platform failed to get an answer, so that nothing is known about the model."""
    return reply.text is None and reply.failure == "infrastructure"


def _has_own_schemas(stage: StageSpec) -> bool:
    """Return whether each sample brings the schema of a stage's answers."""
    wanted = stage.response_format
    return wanted is not None and wanted["type"] == "json_schema" and "json_schema" not in wanted


def _schema(stage: StageSpec, sample: Asked) -> JsonObject | None:
    wanted = format_of_sample(stage.response_format, dict(sample.metadata), key=sample.key)
    wrapper = wanted.get("json_schema") if wanted is not None else None
    schema = wrapper.get("schema") if isinstance(wrapper, dict) else None
    return schema if isinstance(schema, dict) else None


def _why(aggregated: Aggregated) -> str:
    """Return why an aggregation has no answer: its own reason, or those of the models that failed."""
    problem, failed = aggregated.trace.get("problem"), aggregated.trace.get("failed")
    told = [problem] if isinstance(problem, str) else []
    if isinstance(failed, Mapping):
        told += [f"{name}: {error}" for name, error in failed.items()]
    reasons = "; ".join(told)[:_MAX_REASON_CHARS].rstrip(" .")
    return f"the aggregation ended with {aggregated.status}" + (f": {reasons}" if reasons else "")
