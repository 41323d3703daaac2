"""Read the chat request that a pipeline is asked, and give its stages the format that it asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue, ValidationError

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.pipelines import PipelineTarget, StageSpec
from vlmhyperbench.domain.response_formats import check_response_format, pinned_format
from vlmhyperbench_sdk.chat import check_chat
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, Prompt

SAMPLING: Final = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed")
_ONE_QUESTION = "Send one user message, after a system message if you have one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a client asks a pipeline."""

    prompt: Prompt
    images: tuple[JsonObject, ...]
    """Parts of the message, as they were sent."""
    decoding: Decoding
    response_format: dict[str, JsonValue] | None
    """As a spec has it."""
    is_streamed: bool
    wants_usage: bool
    """Whether a stream ends with the usage."""


def read_question(body: JsonObject) -> Question:
    """Read a chat request.

    Raises:
        InvalidInput: it is malformed, or is a conversation, whose earlier turns no pipeline has answered.
    """
    check_chat(body)
    prompt, images = _read_messages(cast("list[JsonObject]", body["messages"]))
    options = body.get("stream_options")
    return Question(
        prompt=prompt,
        images=images,
        decoding=_decoding(body),
        response_format=_format(cast("JsonValue", body.get("response_format"))),
        is_streamed=body.get("stream") is True,
        wants_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
    )


def fitted(pipeline: PipelineTarget, wanted: dict[str, JsonValue] | None) -> PipelineTarget:
    """Return a pipeline whose last stage answers in a format, and whose stages have the schema of the request.

    Raises:
        InvalidInput: the last stage has another format of its own, or a stage needs a schema that is not there.
    """
    ends = {pipeline.stages[-1].id: True}
    for stage in reversed(pipeline.stages):  # a pipeline stands before the stage in which it answers
        if stage.id in ends and stage.response_format is None:
            ends.update((inner.stage, False) for inner in stage.inner)
    stages = tuple(_fit(stage, wanted, is_last=ends.get(stage.id)) for stage in pipeline.stages)
    return pipeline.model_copy(update={"stages": stages})


def _fit(stage: StageSpec, wanted: dict[str, JsonValue] | None, *, is_last: bool | None) -> StageSpec:
    """Fit a stage; `is_last` is None where its answer is not the pipeline's, False in a pipeline within the last one.

    The last stage of a pipeline within the last one may answer in a format of its own.
    """
    own = stage.response_format
    if own is not None and own["type"] == "json_schema" and "json_schema" not in own:
        if wanted is None or wanted["type"] != "json_schema":
            message = f"The stage {stage.id} answers under the JSON Schema of the request, which has none."
            cure = "Send response_format with the type json_schema and a schema."
            raise InvalidInput(message, cure=cure, code="no_schema")
        return stage.model_copy(update={"response_format": wanted})
    if is_last is None or wanted is None or wanted == own:
        return stage
    if own is not None and not is_last:
        return stage
    if own is not None:
        message = f"The last stage of the pipeline, {stage.id}, answers in a format of its own: {own['type']}."
        raise InvalidInput(message, cure="Leave response_format out.", code="unsupported")
    return stage.model_copy(update={"response_format": wanted})


def _read_messages(messages: list[JsonObject]) -> tuple[Prompt, tuple[JsonObject, ...]]:
    roles = [message["role"] for message in messages]
    if roles[-1] != "user" or len(roles) > 2 or (len(roles) == 2 and roles[0] not in ("system", "developer")):
        raise InvalidInput("A pipeline answers one question, no conversation.", cure=_ONE_QUESTION, code="unsupported")
    system, no_images = _content(messages[0]) if len(messages) == 2 else (None, ())
    if no_images:
        raise InvalidInput("A system message has no images.", cure="Send them in the user message.")
    user, images = _content(messages[-1])
    return Prompt(user=user, system=system), images


def _content(message: JsonObject) -> tuple[str, tuple[JsonObject, ...]]:
    content = message.get("content")
    if not isinstance(content, list):
        return str(content), ()
    parts = cast("list[JsonObject]", content)
    texts = [str(part["text"]) for part in parts if part["type"] == "text"]
    return "\n".join(texts), tuple(part for part in parts if part["type"] == "image_url")


def _decoding(body: JsonObject) -> Decoding:
    given = {name: body[name] for name in SAMPLING if body.get(name) is not None}
    if body.get("max_completion_tokens") is not None:
        given["max_tokens"] = body["max_completion_tokens"]
    stop = body.get("stop")
    if stop is not None:
        given["stop"] = [stop] if isinstance(stop, str) else stop
    try:
        return Decoding.model_validate(given)
    except ValidationError as error:
        fields = ", ".join(sorted({str(problem["loc"][0]) for problem in error.errors()}))
        raise InvalidInput(f"These fields have values that no model takes: {fields}.", cure="Correct them.") from None


def _format(value: JsonValue) -> dict[str, JsonValue] | None:
    if not isinstance(value, dict):
        return None
    try:
        return pinned_format(check_response_format(value))
    except Refused as error:
        raise InvalidInput(f"response_format cannot be used: {error}.", cure=error.cure) from error
