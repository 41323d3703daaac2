"""Check and translate OpenAI chat requests: what every adapter's `to_engine` begins with."""

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
"""As many as OpenAI takes for `n`."""

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
"""Fields that not every engine can do: several choices, going on after the end, a least length."""

_ASKS_FOR_NOTHING: Mapping[str, JsonValue] = {"n": 1, "ignore_eos": False, "min_tokens": 0}
"""With these values an optional field asks for what happens anyway."""


def translate(
    request: JsonObject,
    *,
    formats: Collection[Format],
    model_params: Collection[str] = (),
    optional: Collection[Optional] = (),
    vendor: Collection[str] | Literal["any"] = (),
) -> dict[str, JsonValue]:
    """Check a chat request and return a copy in which `model_params` are fields of the body.

    Args:
        request: The request as it came.
        formats: What the engine can answer in.
        model_params: What it takes in `model_params`.
        optional: Which of the fields that not every engine can do it can.
        vendor: Fields beyond OpenAI's that the engine is known to take, or `any` where it says itself what it refuses.

    Raises:
        InvalidInput: the request is malformed, or asks for what the engine cannot do (code `unsupported`).
    """
    check_chat(request, vendor=vendor)
    wanted = request.get("response_format")
    if isinstance(wanted, Mapping) and wanted["type"] not in formats:
        raise InvalidInput(
            f"This engine cannot answer in the format {wanted['type']}.",
            cure=f"It can: {', '.join(formats)}.",
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
            raise InvalidInput(f"This engine takes no model parameter {name!r}.", code="unsupported")
        body[name] = value
    return body


def asked_choices(request: JsonObject) -> int:
    """Return how many choices a checked request asks for."""
    asked = request.get("n")
    return asked if isinstance(asked, int) else 1


def check_chat(request: JsonObject, *, vendor: Collection[str] | Literal["any"] = ()) -> None:
    """Refuse a chat request that no engine could read; the message names the field.

    Args:
        request: The request as it came.
        vendor: Fields beyond OpenAI's that may be in it, `any` for whatever it holds; their values are the engine's.

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
    for name, (least, most) in _INTEGERS.items():
        value = request.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most):
            raise InvalidInput(f"{name} must be a whole number between {least} and {most}.")
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
