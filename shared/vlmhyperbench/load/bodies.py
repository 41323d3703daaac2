"""Make the JSON bodies of requests and of turns of conversations; the same seed makes the same bodies."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vlmhyperbench.load.images import noise_png
from vlmhyperbench.load.trace import TracedRequest
from vlmhyperbench_sdk.endpoint import MaxTokensField
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject

_WORDS = [f"w{number}" for number in range(1000)]
OWN_FIELDS = (
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "stream",
    "stream_options",
    "n",
)
"""Fields that a load sets itself; `n` stays 1, because only one choice of each answer is read."""

_PROMPT_MARK = "@@the prompt@@"
_ANSWER_MARK = "@@an answer of the model@@"
"""Placeholders for a prompt and an answer while a body is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The synthetic images of a request."""

    count: int
    sizes: tuple[tuple[int, int], ...]
    """Widths and heights; each new image has a random size of these."""
    reuse: float = 0.0
    """Share of images that were sent before: at 0, caches of prefixes and encodings never help; at 1, always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContent:
    """The content of every request."""

    model: str
    prompt: str
    prompt_tokens: int = 0
    """Number of random words that replace `prompt`, different in every request; 0 keeps the prompt."""
    output_tokens: int = 128
    max_tokens_field: MaxTokensField = "max_tokens"
    """Name of the field that limits the length of an answer."""
    media: tuple[str, ...] = ()
    """Data URLs of the images that every request contains."""
    images: Images | None = None
    extra_body: JsonObject = field(default_factory=dict)
    """Further fields of every body, such as those of a vendor or sampling parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBody:
    """The body of one turn; each earlier answer in it is an empty string, which the load generator fills."""

    body: bytes
    conversation: int
    turn: int
    answer_offsets: tuple[int, ...]
    """Offset k is where the answer to turn k is inserted: the closing quote of its empty string."""
    pixels: int
    """Number of pixels of the conversation's synthetic images."""


def make_bodies(
    content: RequestContent,
    count: int,
    pixels: list[int],
    *,
    seed: int,
    trace: Sequence[TracedRequest] = (),
    warmup: int = 0,
) -> Iterator[bytes]:
    """Make the bodies: one for each request, or a single one if all requests are the same.

    Args:
        content: What the requests contain.
        count: Number of requests, including the warm-up requests, which come first.
        pixels: List to which the number of pixels of each body's synthetic images is appended, if it has images.
        seed: Seed of the random words and images.
        trace: Lengths of prompts and answers, which replace those of `content`.
        warmup: Number of warm-up requests; they are as long as the first requests of the trace.
    """
    if not content.prompt_tokens and content.images is None and not trace:
        yield _body(content, [content.prompt], content.media, content.output_tokens)
        return
    words = _random(seed)
    if content.images is None and not trace:
        # The words need no JSON escapes, so the part that all bodies share is written once.
        shared = _body(content, [_PROMPT_MARK], content.media, content.output_tokens)
        before, _, after = shared.partition(_PROMPT_MARK.encode())
        for _ in range(count):
            yield before + " ".join(words.choices(_WORDS, k=content.prompt_tokens)).encode() + after
        return
    generated = _images(content.images, seed)
    for number in range(count):
        traced = trace[(number - warmup) % len(trace)] if trace else TracedRequest(timestamp_s=0.0)
        length = traced.prompt_tokens or content.prompt_tokens
        prompt = " ".join(words.choices(_WORDS, k=length)) if length else content.prompt
        images = [next(generated) for _ in range(content.images.count if content.images else 0)]
        if images:
            pixels.append(sum(size for _, size in images))
        media = (*content.media, *(url for url, _ in images))
        yield _body(content, [prompt], media, traced.output_tokens or content.output_tokens)


def make_turns(content: RequestContent, *, conversations: int, turns: int, seed: int) -> Iterator[TurnBody]:
    """Make the bodies of conversations, turn by turn; images belong to the first turn of each conversation.

    Raises:
        InvalidInput: the prompt contains the placeholder that stands for answers while bodies are written.
    """
    if _ANSWER_MARK in content.prompt:
        raise InvalidInput(f"--prompt contains {_ANSWER_MARK!r}.", cure="Remove this text from the prompt.")
    words = _random(seed)
    generated = _images(content.images, seed)
    for conversation in range(conversations):
        images = [next(generated) for _ in range(content.images.count if content.images else 0)]
        media = (*content.media, *(url for url, _ in images))
        prompts: list[str] = []
        for turn in range(turns):
            random_words = " ".join(words.choices(_WORDS, k=content.prompt_tokens))
            prompts.append(random_words or (content.prompt if turn == 0 else f"{content.prompt} ({turn + 1})"))
            parts = _body(content, prompts, media, content.output_tokens).split(_ANSWER_MARK.encode())
            ends = [len(parts[0])]
            for part in parts[1:-1]:
                ends.append(ends[-1] + len(part))
            yield TurnBody(
                body=b"".join(parts),
                conversation=conversation,
                turn=turn,
                answer_offsets=tuple(ends[:turn]),
                pixels=sum(size for _, size in images),
            )


def _images(images: Images | None, seed: int) -> Iterator[tuple[str, int]]:
    """Yield the data URL and the number of pixels of each image, endlessly; a reused image is a random earlier one."""
    if images is None:
        return
    choices, sizes = _random(seed), _random(seed ^ 0x517E)
    known: list[tuple[int, int, int]] = []
    while True:
        if known and choices.random() < images.reuse:
            chosen, width, height = choices.choice(known)
        else:
            chosen, (width, height) = seed * 1_000_003 + len(known), sizes.choice(images.sizes)
            known.append((chosen, width, height))
        yield data_url(noise_png(width, height, seed=chosen), "image/png"), width * height


def _random(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - random test data, not a secret


def data_url(data: bytes, media_type: str) -> str:
    """Encode bytes as a `data:` URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def _body(content: RequestContent, prompts: Sequence[str], media: Sequence[str], output_tokens: int) -> bytes:
    """Write the user's messages so far, with a placeholder for each answer between them; media are in the first."""
    parts: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": url}} for url in media]
    parts.append({"type": "text", "text": prompts[0]})
    messages: list[dict[str, object]] = [{"role": "user", "content": parts if media else prompts[0]}]
    for prompt in prompts[1:]:
        messages += [{"role": "assistant", "content": _ANSWER_MARK}, {"role": "user", "content": prompt}]
    request = {
        "model": content.model,
        "messages": messages,
        content.max_tokens_field: output_tokens,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **content.extra_body,
    }
    return json.dumps(request).encode()
