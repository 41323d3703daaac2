"""The chat request that a model is sent, for a run and for a served pipeline alike: same question, same bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from pydantic import JsonValue

from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.request_styles import AnsweredTurn, Languages, RequestStyle, messages_of, template_values
from vlmhyperbench_sdk.endpoint import EndpointOptions
from vlmhyperbench_sdk.types import JsonObject, Prompt

USUAL: Final = EndpointOptions()


def chat_body(
    *,
    model: str,
    prompt: Prompt,
    images: Sequence[JsonObject],
    decoding: Decoding,
    repeat: int = 0,
    response_format: dict[str, JsonValue] | None,
    options: EndpointOptions = USUAL,
    style: RequestStyle = "openai_chat",
    languages: Languages | None = None,
    earlier: Sequence[AnsweredTurn] = (),
) -> dict[str, JsonValue]:
    """Return an OpenAI chat request that streams and reports usage, in the form that its endpoint wants.

    `images` are parts of a message, which stand before its text, and `earlier` turns before the question. The repeat is
    added to the seed, so that repeats of one sample differ and a rerun sends the same seeds.
    """
    request: dict[str, JsonValue] = {
        "model": model,
        "messages": messages_of(prompt, images, style, earlier),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": decoding.max_tokens,
        **template_values(languages, style),
    }
    sampling: dict[str, JsonValue] = {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "top_k": decoding.top_k,
        "min_p": decoding.min_p,
        "seed": None if decoding.seed is None else decoding.seed + repeat,
        "stop": list(decoding.stop) or None,
        "response_format": response_format,
    }
    own = request | {name: value for name, value in sampling.items() if value is not None}
    return cast("dict[str, JsonValue]", options.fit(own))
