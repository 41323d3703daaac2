"""Make the chat request of a sample. Its hash identifies what was asked.

Images are named by their hashes; the child that writes bodies replaces each by its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.domain.chat_bodies import USUAL, chat_body
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.request_styles import AnsweredTurn, Languages, RequestStyle
from vlmhyperbench.domain.response_formats import pinned_format
from vlmhyperbench.domain.specs import Decoding, EndpointTarget, ModelTarget, Target
from vlmhyperbench_sdk.endpoint import EndpointOptions, read_options
from vlmhyperbench_sdk.types import JsonObject, Prompt

_OF_PROMPT: Final = frozenset({"messages", "seed"})
"""Fields that differ between requests of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """An image of the sample manifest."""

    sha256: str
    media_type: str

    @property
    def part(self) -> JsonObject:
        """Its part of a message."""
        return {"type": "image_url", "image_url": {"url": f"sha256:{self.sha256}", "media_type": self.media_type}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A sample that stands before every question of a run, with its prompt as sent and its answer."""

    key: str
    user: str
    images: tuple[ImageRef, ...]
    answer: str

    @property
    def turn(self) -> AnsweredTurn:
        """Its turn of a request."""
        return AnsweredTurn(user=self.user, images=[image.part for image in self.images], answer=self.answer)

    @property
    def as_json(self) -> JsonObject:
        """What is stored with every answer."""
        images = [image.sha256 for image in self.images]
        return {"key": self.key, "user_prompt": self.user, "images": images, "answer": self.answer}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """One request, rendered: what is sent, and what is stored with its answer."""

    phase: int = 0
    """Number of its phase; 0 until that is open."""
    ordinal: int
    sample: int
    repeat: int
    prompt: Prompt
    images: tuple[ImageRef, ...]
    examples: tuple[Example, ...] = ()
    """The same for every request of a run."""
    request: dict[str, JsonValue]
    request_sha256: str
    turn: int = 0
    conversation: int | None = None
    """Number of the conversation that it is a turn of."""

    @property
    def sent_images(self) -> tuple[ImageRef, ...]:
        """Images of the request, those of its examples first."""
        return (*(image for example in self.examples for image in example.images), *self.images)

    @property
    def sent_texts(self) -> tuple[str, ...]:
        """Texts of the request."""
        shown = (text for example in self.examples for text in (example.user, example.answer))
        return (self.prompt.system or "", *shown, self.prompt.user)

    @property
    def options_sha256(self) -> str:
        """Hash of what it shares with other requests of its run: everything but the prompt and the images."""
        shared = {name: value for name, value in self.request.items() if name not in _OF_PROMPT}
        return digest_of({**shared, "has_images": bool(self.sent_images)})


def images_of(sample: ManifestSample) -> tuple[ImageRef, ...]:
    """Return the images of a sample."""
    return tuple(ImageRef(sha256=image.sha256, media_type=image.media_type) for image in sample.images)


def chat_request(
    *,
    model: str,
    prompt: Prompt,
    images: Sequence[ImageRef],
    decoding: Decoding,
    repeat: int,
    response_format: dict[str, JsonValue] | None,
    options: EndpointOptions = USUAL,
    style: RequestStyle = "openai_chat",
    languages: Languages | None = None,
    examples: Sequence[Example] = (),
) -> dict[str, JsonValue]:
    """Return the chat request of a sample, whose images are named by their hashes."""
    parts = [image.part for image in images]
    return chat_body(
        model=model,
        prompt=prompt,
        images=parts,
        decoding=decoding,
        repeat=repeat,
        response_format=response_format,
        options=options,
        style=style,
        languages=languages,
        earlier=[example.turn for example in examples],
    )


def style_of(target: Target) -> RequestStyle:
    """Return how the messages of requests to a target are written; only models have a style of their own."""
    return target.request_style if isinstance(target, ModelTarget) else "openai_chat"


def options_of(target: Target) -> EndpointOptions:
    """Return the options of requests to a target; only remote endpoints have some.

    Raises:
        InvalidInput: an option is wrong.
    """
    return read_options(target.engine_params) if isinstance(target, EndpointTarget) else USUAL


def request_digest(request: dict[str, JsonValue]) -> str:
    """Return the hash of a request; equal questions have equal hashes on every engine.

    The order of a schema's members counts, since answers are written in it.
    """
    wanted = request.get("response_format")
    return digest_of({**request, "response_format": pinned_format(wanted)} if isinstance(wanted, dict) else request)
