"""Validate and translate OpenAI chat requests: the first step of every adapter's `to_engine`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue

Format = Literal["text", "json_object", "json_schema", "regex"]
FORMATS: tuple[Format, ...] = ("text", "json_object", "json_schema", "regex")

MAX_MESSAGES = 1000
MAX_PARTS = 1000

_ROLES = ("system", "developer", "user", "assistant", "tool")
_NUMBERS: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
}
MAX_CHOICES = 128
"""OpenAI's maximum of `n`."""

_INTEGERS: Mapping[str, tuple[int, int]] = {
    "max_tokens": (1, 1_000_000),
    "max_completion_tokens": (1, 1_000_000),
    "top_k": (0, 1_000_000),
    "top_logprobs": (0, 100),
    "seed": (-(2**63), 2**64 - 1),
    "n": (1, MAX_CHOICES),
    "min_tokens": (0, 1_000_000),
}
_BOOLEANS = ("stream", "logprobs", "parallel_tool_calls", "ignore_eos")
_PASSED_ON = ("tools", "tool_choice", "user", "logit_bias", "reasoning_effort", "chat_template_kwargs")
_OWN = ("model", "messages", "stop", "stream_options", "response_format", "model_params")
_KNOWN = frozenset((*_OWN, *_NUMBERS, *_INTEGERS, *_BOOLEANS, *_PASSED_ON))


Optional = Literal["n", "ignore_eos", "min_tokens"]
"""Fields that only some engines support: several choices, ignoring the end-of-sequence token, a minimum length."""
OPTIONAL: tuple[Optional, ...] = ("n", "ignore_eos", "min_tokens")

_ASKS_FOR_NOTHING: Mapping[str, JsonValue] = {"n": 1, "ignore_eos": False, "min_tokens": 0}
"""Default values of optional fields: with them a field requests nothing special."""


def translate(
    request: JsonObject,
    *,
    formats: Collection[Format],
    model_params: Collection[str] = (),
    optional: Collection[Optional] = (),
    vendor: Collection[str] | Literal["any"] = (),
) -> dict[str, JsonValue]:
    """Validate a chat request and return a copy in which `model_params` are fields of the body.

    Args:
        request: The request as received.
        formats: Response formats that the engine supports.
        model_params: Names that it accepts in `model_params`.
        optional: Optional fields that it supports.
        vendor: Fields beyond OpenAI's that the engine accepts, or `any` if the engine itself refuses unknown fields.

    Raises:
        InvalidInput: the request is malformed, or needs a feature that the engine lacks (code `unsupported`).
    """
    check_chat(request, vendor=vendor)
    wanted = request.get("response_format")
    if isinstance(wanted, Mapping) and wanted["type"] not in formats:
        raise InvalidInput(
            f"This engine cannot answer in the format {wanted['type']}.",
            cure=f"Choose one of {', '.join(formats)}.",
            code="unsupported",
        )
    extra = request.get("model_params")
    body: dict[str, JsonValue] = {
        name: value for name, value in request.items() if name != "model_params" and value is not None
    }
    for name, default in _ASKS_FOR_NOTHING.items():
        if name in body and name not in optional and body.pop(name) != default:
            raise InvalidInput(
                f"This engine cannot do what {name} asks for.", cure=f"Leave {name} out.", code="unsupported"
            )
    for name, value in (extra if isinstance(extra, Mapping) else {}).items():
        if name not in model_params or name in body:
            known = ", ".join(sorted(set(model_params) - body.keys()))
            cure = f"Leave it out of model_params{f', or choose one of {known}' if known else ''}."
            raise InvalidInput(f"This engine takes no model parameter {name!r}.", cure=cure, code="unsupported")
        body[name] = value
    return body


def constraint_of(body: JsonObject, *, others: Collection[str]) -> Mapping[str, JsonValue] | None:
    """Return the response format by which a translated request constrains its answer; None if the answer is free.

    Args:
        body: The request.
        others: The engine's own fields that constrain an answer.

    Raises:
        InvalidInput: one of them is there beside the response format.
    """
    wanted = body.get("response_format")
    if not isinstance(wanted, Mapping) or wanted["type"] == "text":
        return None
    if second := next((name for name in others if name in body), None):
        raise InvalidInput(f"Both response_format and {second} constrain the answer.", cure="Leave out one of them.")
    return wanted


def greeting(model: str, **more: JsonValue) -> JsonObject:
    """Return a chat body that warms an engine up: a short greedy answer."""
    messages: JsonValue = [{"role": "user", "content": "Hello"}]
    return {"model": model, "messages": messages, "max_tokens": 1, "temperature": 0, **more}


def asked_choices(request: JsonObject) -> int:
    """Return the number of choices that a valid request asks for."""
    asked = request.get("n")
    return asked if isinstance(asked, int) else 1


def check_chat(request: JsonObject, *, vendor: Collection[str] | Literal["any"] = ()) -> None:
    """Refuse a chat request that is malformed for every engine; the message names the field.

    Args:
        request: The request as received.
        vendor: Allowed fields beyond OpenAI's, or `any` for all; the engine validates their values.

    Raises:
        InvalidInput: a field is unknown, missing, of the wrong type or out of range.
    """
    if not isinstance(request, Mapping):
        raise InvalidInput("A chat request is an object.")
    for name in request:
        if name not in _KNOWN and vendor != "any" and name not in vendor:
            raise InvalidInput(
                f"The field {str(name)[:100]!r} is unknown.",
                cure="Leave it out, or put an engine's own parameters in model_params.",
                code="unknown_field",
            )
    model = request.get("model")
    if not isinstance(model, str) or not 1 <= len(model) <= 200:
        raise InvalidInput("model must be a name.")
    _check_messages(request.get("messages"))
    _check_sampling(request)
    _check_format(request.get("response_format"))
    if not isinstance(request.get("model_params"), (Mapping, type(None))):
        raise InvalidInput("model_params must be an object.")
    _check_stream_options(request, takes_any=vendor == "any")


def _check_stream_options(request: JsonObject, *, takes_any: bool) -> None:
    options = request.get("stream_options")
    if options is None:
        return
    if not isinstance(options, Mapping) or not isinstance(options.get("include_usage", False), bool):
        raise InvalidInput("stream_options must be an object with include_usage.")
    for name in options:
        if name != "include_usage" and not takes_any:
            raise InvalidInput(f"The field {str(name)[:100]!r} of stream_options is unknown.", code="unknown_field")
    if not request.get("stream"):
        raise InvalidInput("stream_options needs stream.")


def _check_messages(messages: object) -> None:
    if not isinstance(messages, list) or not 1 <= len(messages) <= MAX_MESSAGES:
        raise InvalidInput(f"messages must be a list of 1 to {MAX_MESSAGES}.")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
            raise InvalidInput(f"{where} needs a role: {', '.join(_ROLES)}.")
        content = message.get("content")
        if content is None and message["role"] == "assistant":
            continue
        if isinstance(content, str):
            continue
        if not isinstance(content, list) or not 1 <= len(content) <= MAX_PARTS:
            raise InvalidInput(f"{where}.content must be a text or a list of 1 to {MAX_PARTS} parts.")
        for number, part in enumerate(content):
            _check_part(part, f"{where}.content[{number}]")


def _check_part(part: object, where: str) -> None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and kind == "text":
        if not isinstance(part.get("text"), str):
            raise InvalidInput(f"{where}.text must be a text.")
    elif isinstance(part, Mapping) and kind == "image_url":
        image = part.get("image_url")
        if not isinstance(image, Mapping) or not isinstance(image.get("url"), str):
            raise InvalidInput(f"{where}.image_url.url must be a text.")
    else:
        raise InvalidInput(f"{where} must have the type text or image_url.")


def _check_sampling(request: JsonObject) -> None:
    for name, (low, high) in _NUMBERS.items():
        value = request.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high
        ):
            raise InvalidInput(f"{name} must be a number between {low} and {high}.")
    for name, (minimum, maximum) in _INTEGERS.items():
        value = request.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum
        ):
            raise InvalidInput(f"{name} must be a whole number between {minimum} and {maximum}.")
    for name in _BOOLEANS:
        if not isinstance(request.get(name, False), (bool, type(None))):
            raise InvalidInput(f"{name} must be true or false.")
    stop = request.get("stop")
    stops = [stop] if isinstance(stop, str) else stop
    if stops is not None and not (
        isinstance(stops, list) and len(stops) <= 16 and all(isinstance(text, str) for text in stops)
    ):
        raise InvalidInput("stop must be a text or a list of at most 16.")


def _check_format(wanted: object) -> None:
    if wanted is None:
        return
    if not isinstance(wanted, Mapping) or wanted.get("type") not in FORMATS:
        raise InvalidInput(f"response_format.type must be one of {', '.join(FORMATS)}.")
    if wanted["type"] == "json_schema":
        schema = wanted.get("json_schema")
        if not isinstance(schema, Mapping) or not isinstance(schema.get("schema"), Mapping):
            raise InvalidInput("response_format.json_schema.schema must be a JSON Schema.")
    if wanted["type"] == "regex" and not isinstance(wanted.get("regex"), str):
        raise InvalidInput("response_format.regex must be a pattern.")
