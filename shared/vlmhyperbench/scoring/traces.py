"""How a pipeline came to one answer, as JSON: stages, votes, members, times and tokens. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vlmhyperbench.domain.pipelines import ROLES, AskedModel, PipelineTarget, StageSpec, asked_models
from vlmhyperbench.scoring.combining import NO_REPAIR, Asked, Reply, StageAnswer
from vlmhyperbench_sdk.types import JsonObject, JsonValue


def trace_of(pipeline: PipelineTarget, sample: Asked, answers: Mapping[str, StageAnswer]) -> JsonObject:
    """Return the trace of one answer.

    `critical_path_ns` is the time of the slowest chain of models that wait for each other, had each run on devices of
    its own: stages that do not need each other run at one time. It contains no waiting and no loading.
    """
    stages: list[JsonValue] = [_stage(pipeline, stage, sample, answers[stage.id]) for stage in pipeline.stages]
    return {"critical_path_ns": critical_path_ns(pipeline, sample), "stages": stages}


def critical_path_ns(pipeline: PipelineTarget, sample: Asked) -> int | None:
    """Return the time of the critical path of one answer.

    None if no model was asked, or the time of one that was is unknown, as after a timeout or where it was lost: reports
    leave such an answer out of times, too.
    """
    asked = [reply for reply in sample.replies.values() if reply.was_asked]
    if not asked or any(reply.latency_ns is None for reply in asked):
        return None
    ends: dict[str, int] = {}
    for stage in pipeline.stages:
        times = dict.fromkeys(ROLES, 0)
        for (stage_id, role, _), reply in sample.replies.items():
            if stage_id == stage.id:
                times[role] = max(reply.latency_ns or 0, times[role])
        asked_at = max((ends[earlier] for earlier in stage.inputs), default=0)
        answered = [asked_at + times["member"], *(ends[inner.stage] for inner in stage.inner)]
        ends[stage.id] = max(answered) + times["merge"] + times["repair"]
    return max(ends.values())


def tokens_of(replies: Iterable[int | None]) -> int | None:
    """Return the sum of numbers of tokens; None if there is none, or one is not known."""
    total: int | None = None
    for tokens in replies:
        if tokens is None:
            return None
        total = tokens + (total or 0)
    return total


def _stage(pipeline: PipelineTarget, stage: StageSpec, sample: Asked, answer: StageAnswer) -> JsonObject:
    models: list[JsonValue] = [
        _model(asked, sample.replies.get(asked.key))
        for asked in asked_models(pipeline)
        if asked.stage.id == stage.id and not _is_needless(asked, sample)
    ]
    traced: dict[str, JsonValue] = {"id": stage.id, "status": answer.status, "models": models}
    if stage.inner:
        traced["pipelines"] = [
            {"name": inner.name, "weight": inner.weight, "stage": inner.stage} for inner in stage.inner
        ]
    if answer.value is None:
        traced["reason"] = answer.reason
    elif stage.id != pipeline.stages[-1].id:  # the last one's is the answer
        traced["value"] = answer.value
    if answer.aggregated is not None:
        aggregated = answer.aggregated
        traced |= {
            "n_valid": aggregated.n_valid,
            "key": aggregated.key,
            "support": aggregated.support,
            "confidence": aggregated.confidence,
            "margin": aggregated.margin,
            "tie": aggregated.tie,
            "dissent": list(aggregated.dissent),
            "trace": aggregated.trace,
        }
    return traced


def _is_needless(asked: AskedModel, sample: Asked) -> bool:
    """Return whether it would have repaired an answer that needs no repair."""
    reply = sample.replies.get(asked.key)
    return asked.role == "repair" and reply is not None and reply.error == NO_REPAIR


def _model(asked: AskedModel, reply: Reply | None) -> JsonObject:
    who: dict[str, JsonValue] = {"name": asked.model.name, "role": asked.role}
    if asked.role == "member":
        who["weight"] = asked.model.weight
    return {**who, **({"is_dropped": True} if reply is None else _reply(reply))}


def _reply(reply: Reply) -> dict[str, JsonValue]:
    told: dict[str, JsonValue] = {
        "latency_ns": reply.latency_ns,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
    }
    return told if reply.text is not None else {**told, "error": reply.error}
