"""Read a chat request: what it asks for, each field checked; a field that the server does not know is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vlmhyperbench_transformers.shim.refusal import invalid

NUMBERS: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repetition_penalty": (0.01, 10),
}
INTEGERS: Mapping[str, tuple[int, int]] = {
    "max_tokens": (1, 10_000_000),
    "max_completion_tokens": (1, 10_000_000),
    "min_tokens": (0, 10_000_000),
    "top_k": (0, 10_000_000),
    "top_logprobs": (0, 100),
    "seed": (-(2**63), 2**64 - 1),
    "n": (1, 128),
}
BOOLEANS = ("stream", "logprobs", "ignore_eos", "skip_special_tokens")
_OTHERS = (
    *("model", "messages", "stop", "stream_options", "response_format", "logit_bias", "chat_template_kwargs"),
    *("user", "model_params"),
)
FORMATS = ("json_object", "json_schema", "regex")
MAX_STOPS = 16


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A valid request."""

    messages: list[dict[str, Any]]
    n: int = 1
    max_tokens: int | None = None
    min_tokens: int = 0
    stops: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    logprobs: bool = False
    top_logprobs: int = 0
    seed: int | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)
    """The fields of `NUMBERS` that the request has."""
    top_k: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    format: Mapping[str, Any] | None = None
    """`response_format`, unless it is text."""
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    template: Mapping[str, Any] = field(default_factory=dict)


def read_request(body: bytes, model: str) -> Asked:
    """Return what a request asks for.

    Raises:
        Refusal: it is malformed, names another model (404), or has a field that the server does not know.
    """
    try:
        request = json.loads(body)
    except ValueError as error:
        raise invalid(f"The body is not JSON: {error}.", "invalid_json") from error
    if not isinstance(request, dict):
        raise invalid("A chat request is an object.")
    given = {name: value for name, value in request.items() if value is not None}
    for name in given:
        if not (name in NUMBERS or name in INTEGERS or name in BOOLEANS or name in _OTHERS):
            raise invalid(f"The field {name[:100]!r} is not supported. Leave it out.", "unknown_field")
    if given.get("model_params"):
        raise invalid("model_params are the gateway's. Send its entries as fields.", "unknown_field")
    _check_numbers(given)
    asked_model = given.get("model", model)
    if asked_model != model:
        refusal = invalid(f"The model that is loaded is {model}.", "model_not_found")
        refusal.status = 404
        raise refusal
    options = given.get("stream_options", {})
    if not isinstance(options, dict) or set(options) - {"include_usage"}:
        raise invalid("stream_options must be an object with include_usage only.", "unknown_field")
    template = given.get("chat_template_kwargs", {})
    if not isinstance(template, dict):
        raise invalid("chat_template_kwargs must be an object.")
    return Asked(
        messages=_messages(given.get("messages")),
        n=given.get("n", 1),
        max_tokens=given.get("max_completion_tokens", given.get("max_tokens")),
        min_tokens=given.get("min_tokens", 0),
        stops=_stops(given.get("stop", [])),
        stream=given.get("stream", False),
        include_usage=bool(options.get("include_usage", False)),
        logprobs=given.get("logprobs", False),
        top_logprobs=given.get("top_logprobs", 0),
        seed=given.get("seed"),
        sampling={name: float(given[name]) for name in NUMBERS if name in given},
        top_k=given.get("top_k"),
        logit_bias=_bias(given.get("logit_bias", {})),
        format=_format(given.get("response_format")),
        ignore_eos=given.get("ignore_eos", False),
        skip_special_tokens=given.get("skip_special_tokens", True),
        template=template,
    )


def _check_numbers(given: Mapping[str, Any]) -> None:
    for name, (low, high) in NUMBERS.items():
        value = given.get(name, low)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise invalid(f"{name} must be a number between {low} and {high}.")
    for name, (minimum, maximum) in INTEGERS.items():
        value = given.get(name, minimum)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise invalid(f"{name} must be a whole number between {minimum} and {maximum}.")
    for name in BOOLEANS:
        if not isinstance(given.get(name, False), bool):
            raise invalid(f"{name} must be true or false.")
    if given.get("top_logprobs") and not given.get("logprobs"):
        raise invalid("top_logprobs needs logprobs.")


def _messages(messages: object) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise invalid("messages must be a list with at least one message.")
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else 0
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise invalid(f"messages[{index}] needs a role.")
        if not isinstance(content, (str, list, type(None))):
            raise invalid(f"messages[{index}].content must be a text or a list of parts.")
        for number, part in enumerate(content if isinstance(content, list) else []):
            _check_part(part, f"messages[{index}].content[{number}]")
    return messages


def _check_part(part: object, location: str) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(part, dict) and kind == "text" and isinstance(part.get("text"), str):
        return
    image = part.get("image_url") if isinstance(part, dict) else None
    if kind == "image_url" and isinstance(image, dict) and isinstance(image.get("url"), str):
        return
    raise invalid(f"{location} must be a text, or an image_url with a url.")


def _stops(stop: object) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or len(stops) > MAX_STOPS or not all(isinstance(text, str) for text in stops):
        raise invalid(f"stop must be a text or a list of at most {MAX_STOPS}.")
    return tuple(text for text in stops if text)


def _bias(bias: object) -> dict[int, float]:
    if not isinstance(bias, dict):
        raise invalid("logit_bias must be an object of token ids.")
    try:
        return {int(token): max(-100.0, min(100.0, float(value))) for token, value in bias.items()}
    except (TypeError, ValueError) as error:
        raise invalid("logit_bias must map token ids to numbers.") from error


def _format(wanted: object) -> Mapping[str, Any] | None:
    if wanted is None or wanted == {"type": "text"}:
        return None
    if not isinstance(wanted, dict) or wanted.get("type") not in FORMATS:
        raise invalid(f"response_format.type must be one of text, {', '.join(FORMATS)}.")
    if wanted["type"] == "json_schema":
        schema = wanted.get("json_schema")
        if not isinstance(schema, dict) or not isinstance(schema.get("schema"), dict):
            raise invalid("response_format.json_schema.schema must be a JSON Schema.")
    if wanted["type"] == "regex" and not isinstance(wanted.get("regex"), str):
        raise invalid("response_format.regex must be a pattern.")
    return wanted
