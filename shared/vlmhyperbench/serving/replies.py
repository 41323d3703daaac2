"""What a client of a pipeline gets: bodies of OpenAI's API, with the models' parts and the trace. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from vlmhyperbench.domain.pipelines import PipelineTarget
from vlmhyperbench.scoring.traces import tokens_of, trace_of
from vlmhyperbench.serving.asking import Answer

DONE: Final = b"data: [DONE]\n\n"
BROKEN: Final = "The models ended with another answer than the one that had been begun."


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What all parts of one answer begin with."""

    id: str
    created: int
    model: str
    fallbacks: Sequence[Mapping[str, JsonValue]] = ()
    """What was given up so that the models fit."""

    def whole(self, answer: Answer, pipeline: PipelineTarget) -> bytes:
        """Return an answer in one body."""
        message: JsonValue = {"role": "assistant", "content": answer.last.value}
        choice: JsonValue = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
        body = {**self._of("chat.completion"), "choices": [choice], "usage": usage_of(answer)}
        return written({**body, "vlmhyperbench": self._traced(answer, pipeline)})

    def piece(self, text: str) -> bytes:
        """Return a piece of an answer as an event."""
        choice: JsonValue = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
        return _event({**self._of("chat.completion.chunk"), "choices": [choice]})

    def end(self, answer: Answer, pipeline: PipelineTarget, *, wants_usage: bool) -> bytes:
        """Return the last events of an answer: why it ended with how it came about, the usage if it is wanted."""
        if answer.last.value is None or not answer.is_kept:
            return _event(problem_of(answer))
        head = self._of("chat.completion.chunk")
        choice: JsonValue = {"index": 0, "delta": {}, "finish_reason": answer.finish_reason}
        events = [_event({**head, "choices": [choice], "vlmhyperbench": self._traced(answer, pipeline)})]
        if wants_usage:
            events.append(_event({**head, "choices": [], "usage": usage_of(answer)}))
        return b"".join([*events, DONE])

    def _traced(self, answer: Answer, pipeline: PipelineTarget) -> dict[str, JsonValue]:
        trace = dict(trace_of(pipeline, answer.sample, answer.stages))
        given_up: list[JsonValue] = [dict(step) for step in self.fallbacks]
        told: dict[str, JsonValue] = {"pipeline": pipeline.pipeline, "version": pipeline.version, "fallbacks": given_up}
        return {**told, **cast("dict[str, JsonValue]", trace)}

    def _of(self, kind: str) -> dict[str, JsonValue]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def usage_of(answer: Answer) -> dict[str, JsonValue]:
    """Return the tokens of all models together, and each model's own part; null is not known."""
    replies = [(key, reply) for key, reply in answer.sample.replies.items() if reply.text is not None]
    parts: list[JsonValue] = [
        {
            "stage": stage,
            "role": role,
            "name": name,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
        }
        for (stage, role, name), reply in replies
    ]
    prompt = tokens_of(reply.prompt_tokens for _, reply in replies)
    completion = tokens_of(reply.completion_tokens for _, reply in replies)
    total = None if prompt is None or completion is None else prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, "members": parts}


def problem_of(answer: Answer) -> dict[str, JsonValue]:
    """Return why there is no answer, and which models gave none, in the form of OpenAI's errors."""
    if answer.last.value is not None or answer.is_kept:
        return refusal(BROKEN, "pipeline_changed")
    silent = [f"{stage}/{name}" for (stage, _, name), reply in answer.sample.replies.items() if reply.text is None]
    which = f" Models without an answer: {', '.join(silent)}." if silent else ""
    return refusal(f"The pipeline has no answer: {answer.last.reason}.{which}", f"pipeline_{answer.last.status}")


def refusal(message: str, code: str) -> dict[str, JsonValue]:
    """Return an error in the form of OpenAI's API."""
    return {"error": {"message": message, "type": code, "code": code}}


def written(body: Mapping[str, JsonValue]) -> bytes:
    """Write JSON without spaces."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")


def _event(body: Mapping[str, JsonValue]) -> bytes:
    return b"data: " + written(body) + b"\n\n"
