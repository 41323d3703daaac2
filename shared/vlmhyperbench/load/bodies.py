"""The JSON bodies of requests and of the turns of conversations, the same for the same seed."""

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
"""Fields that a load sets itself; `n` stays 1, because it reads one choice of each answer."""

_MARK = "@@the prompt@@"
_ANSWER = "@@an answer of the model@@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Synthetic images of a request."""

    count: int
    sizes: tuple[tuple[int, int], ...]
    """Width and height; each new image has a random one of them."""
    reuse: float = 0.0
    """Share of images that were sent before: 0 defeats the caches of prefixes and encodings, 1 measures them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What every request asks."""

    model: str
    prompt: str
    prompt_tokens: int = 0
    """Number of random words in place of `prompt`, other words in every request; 0 keeps the prompt."""
    output_tokens: int = 128
    max_tokens_field: MaxTokensField = "max_tokens"
    """Name of the field that bounds the length of an answer."""
    media: tuple[str, ...] = ()
    """Data URLs of pictures that go with every request."""
    images: Images | None = None
    extra_body: JsonObject = field(default_factory=dict)
    """Further fields of every body: a vendor's, or sampling parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBody:
    """The body of one turn, in which every earlier answer is an empty string."""

    body: bytes
    conversation: int
    turn: int
    places: tuple[int, ...]
    """Offsets of the closing quotes of the empty strings: place k is for the answer to turn k."""
    pixels: int
    """Of the conversation's synthetic images."""


def make_bodies(
    asked: Asked, count: int, pixels: list[int], *, seed: int, trace: Sequence[TracedRequest] = (), warmup: int = 0
) -> Iterator[bytes]:
    """Make the bodies, one for each request, or one for all where all ask the same.

    Args:
        asked: What they ask.
        count: How many there are, warm-up requests first.
        pixels: Takes the pixels of each body's synthetic images, where there are any.
        seed: Another seed asks something else.
        trace: How long prompts and answers are, in place of what `asked` says.
        warmup: How many come before those of the trace; they are as long as its first ones.
    """
    if not asked.prompt_tokens and asked.images is None and not trace:
        yield _body(asked, [asked.prompt], asked.media, asked.output_tokens)
        return
    words = random.Random(seed)  # noqa: S311 - drawn, not secret
    if asked.images is None and not trace:
        # Words need no escapes, so what all bodies share is written once.
        before, _, after = _body(asked, [_MARK], asked.media, asked.output_tokens).partition(_MARK.encode())
        for _ in range(count):
            yield before + " ".join(words.choices(_WORDS, k=asked.prompt_tokens)).encode() + after
        return
    pictures = _pictures(asked.images, seed)
    for number in range(count):
        traced = trace[(number - warmup) % len(trace)] if trace else TracedRequest(timestamp_s=0.0)
        length = traced.prompt_tokens or asked.prompt_tokens
        prompt = " ".join(words.choices(_WORDS, k=length)) if length else asked.prompt
        shown = [next(pictures) for _ in range(asked.images.count if asked.images else 0)]
        if shown:
            pixels.append(sum(size for _, size in shown))
        media = (*asked.media, *(url for url, _ in shown))
        yield _body(asked, [prompt], media, traced.output_tokens or asked.output_tokens)


def make_turns(asked: Asked, *, conversations: int, turns: int, seed: int) -> Iterator[TurnBody]:
    """Make the bodies of conversations, turn by turn; pictures go with the first turn of each.

    Raises:
        InvalidInput: the prompt holds the mark that stands for answers while bodies are made.
    """
    if _ANSWER in asked.prompt:
        raise InvalidInput(f"A prompt must not hold {_ANSWER!r}.")
    words = random.Random(seed)  # noqa: S311 - drawn, not secret
    pictures = _pictures(asked.images, seed)
    for conversation in range(conversations):
        shown = [next(pictures) for _ in range(asked.images.count if asked.images else 0)]
        media = (*asked.media, *(url for url, _ in shown))
        said: list[str] = []
        for turn in range(turns):
            drawn = " ".join(words.choices(_WORDS, k=asked.prompt_tokens))
            said.append(drawn or (asked.prompt if turn == 0 else f"{asked.prompt} ({turn + 1})"))
            parts = _body(asked, said, media, asked.output_tokens).split(_ANSWER.encode())
            ends = [len(parts[0])]
            for part in parts[1:-1]:
                ends.append(ends[-1] + len(part))
            yield TurnBody(
                body=b"".join(parts),
                conversation=conversation,
                turn=turn,
                places=tuple(ends[:turn]),
                pixels=sum(size for _, size in shown),
            )


def _pictures(images: Images | None, seed: int) -> Iterator[tuple[str, int]]:
    """Yield data URLs and their pixels without end; a reused one is a random one of those sent before."""
    if images is None:
        return
    drawn = random.Random(seed)  # noqa: S311 - drawn, not secret
    sizes = random.Random(seed ^ 0x517E)  # noqa: S311 - drawn, not secret
    known: list[tuple[int, int, int]] = []
    while True:
        if known and drawn.random() < images.reuse:
            chosen, width, height = drawn.choice(known)
        else:
            chosen, (width, height) = seed * 1_000_003 + len(known), sizes.choice(images.sizes)
            known.append((chosen, width, height))
        yield data_url(noise_png(width, height, seed=chosen), "image/png"), width * height


def data_url(data: bytes, media_type: str) -> str:
    """Write bytes as a URL that holds them."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def _body(asked: Asked, said: Sequence[str], media: Sequence[str], output_tokens: int) -> bytes:
    """Write the messages of the user so far, with a mark for each answer between them; media go with the first."""
    parts: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": url}} for url in media]
    parts.append({"type": "text", "text": said[0]})
    messages: list[dict[str, object]] = [{"role": "user", "content": parts if media else said[0]}]
    for text in said[1:]:
        messages += [{"role": "assistant", "content": _ANSWER}, {"role": "user", "content": text}]
    request = {
        "model": asked.model,
        "messages": messages,
        asked.max_tokens_field: output_tokens,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **asked.extra_body,
    }
    return json.dumps(request).encode()
